//! Transactions of XA, from START to COMMIT or ROLLBACK.

use holdfast_workload::rng::Rng;

use super::super::meaning::Xa;
use super::super::script::SCHEMA;
use super::dice::Dice;

/// How far the transaction of a session is.
#[derive(Clone, Debug)]
pub struct Stand {
    name: String,
    pub state: Option<Xa>,
    /// How far it is if the last statement succeeds.
    then: Option<Xa>,
}

impl Stand {
    /// A name for a transaction that has not begun.
    pub fn new(number: u64) -> Stand {
        Stand { name: format!("'{SCHEMA}.{number}'"), state: None, then: None }
    }

    /// The next statement of it.
    pub fn next(&mut self, rng: &mut Rng) -> String {
        let (verb, tail, then) = match self.state {
            None => ("START", "", Some(Xa::Active)),
            // What was rolled back by a deadlock is ended so, too.
            Some(Xa::Active) if rng.chance(10) => ("ROLLBACK", "", None),
            Some(Xa::Active) => ("END", "", Some(Xa::Ended)),
            Some(Xa::Ended) => match rng.below(4) {
                0 => ("COMMIT", " ONE PHASE", None),
                1 => ("ROLLBACK", "", None),
                _ => ("PREPARE", "", Some(Xa::Prepared)),
            },
            Some(Xa::Prepared) if rng.chance(30) => ("ROLLBACK", "", None),
            Some(Xa::Prepared) => ("COMMIT", "", None),
        };
        self.then = then;
        format!("XA {verb} {}{tail}", self.name)
    }

    /// Whether it is the last statement of the session that succeeded or not.
    pub fn told(&mut self, success: bool) {
        if success {
            self.state = self.then;
        }
        self.then = self.state;
    }

    /// After a crash only what was prepared is there.
    pub fn killed(&mut self) {
        if self.state != Some(Xa::Prepared) {
            self.state = None;
        }
        self.then = self.state;
    }
}
