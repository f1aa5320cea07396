//! Deadlocks that only one engine has.
//!
//! Which session is the victim may differ, and one engine locks what the other does not, so that a
//! deadlock alone is no fault. What a scenario says of it is whose it was; how many scenarios end
//! by one of this engine alone is told at the end, with their numbers. A victim whose statement was
//! the only one under way is a fault: a deadlock is of two sessions that wait.

use super::super::sessions::Stand;

/// Why a scenario ends, where InnoDB carries out what is said.
pub const ONLY_HERE: &str = "a deadlock that only Holdfast has";
const ONLY_THERE: &str = "a deadlock that only InnoDB has";
const OF_BOTH: &str = "which session is the victim of a deadlock";

/// Of each engine, whether one of the statements that were under way is the victim of a deadlock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadlocks {
    here: bool,
    there: bool,
    /// How many statements of this engine's sessions were under way.
    under_way: usize,
}

impl Deadlocks {
    /// Those among the statements that were under way on this engine and on InnoDB.
    pub fn of([ours, theirs]: [&[(usize, Stand)]; 2]) -> Deadlocks {
        let has_victim = |stands: &[(usize, Stand)]| stands.iter().any(|(_, stand)| stand.is_victim());
        Deadlocks { here: has_victim(ours), there: has_victim(theirs), under_way: ours.len() }
    }

    /// True if this engine has found a deadlock where no second session waits.
    pub fn is_of_one_session(self) -> bool {
        self.here && self.under_way == 1
    }

    /// Why the scenario ends.
    pub fn reason(self) -> &'static str {
        match (self.here, self.there) {
            (true, false) => ONLY_HERE,
            (false, true) => ONLY_THERE,
            _ => OF_BOTH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::answer::{Answer, Outcome};
    use super::super::super::sessions::DEADLOCK;
    use super::*;

    #[test]
    fn a_deadlock_is_of_the_engine_that_has_a_victim_and_of_two_sessions() {
        let answered = |outcome| Stand::Answered(Answer { outcome, warnings: Vec::new() });
        let victim = || answered(Outcome::Refused(DEADLOCK, String::new()));
        let done = || answered(Outcome::Done(1, String::new()));
        let [here, there] = [[(0, victim()), (1, done())], [(0, Stand::Waits), (1, done())]];
        assert_eq!(Deadlocks::of([&here, &there]).reason(), ONLY_HERE);
        assert_eq!(Deadlocks::of([&there, &here]).reason(), ONLY_THERE);
        assert_eq!(Deadlocks::of([&here, &[(0, done()), (1, victim())]]).reason(), OF_BOTH);
        assert!(!Deadlocks::of([&here, &there]).is_of_one_session());
        assert!(Deadlocks::of([&here[..1], &there]).is_of_one_session());
        assert!(!Deadlocks::of([&there[..1], &here]).is_of_one_session());
    }
}
