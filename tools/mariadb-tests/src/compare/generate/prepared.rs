//! Prepared statements: their numbers become marks, and every execution brings others.

use holdfast_workload::rng::Rng;

use super::super::meaning::quoted;
use super::super::tokens::tokens;
use super::dice::Dice;

/// A prepared statement of a session.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub name: String,
    /// The numbers that stood where the marks are.
    values: Vec<String>,
    /// True if its rows have an order.
    pub ordered: bool,
}

impl Prepared {
    /// ` USING` values, if it has marks.
    fn using(&self, rng: &mut Rng) -> String {
        let values: Vec<_> = self
            .values
            .iter()
            .map(|value| if rng.chance(50) { value.clone() } else { rng.below(12).to_string() })
            .collect();
        if values.is_empty() { String::new() } else { format!(" USING {}", values.join(", ")) }
    }

    /// What carries it out.
    pub fn execute(&self, rng: &mut Rng) -> String {
        format!("EXECUTE {}{}", self.name, self.using(rng))
    }
}

/// A statement that prepares another one.
pub fn prepare(name: &str, sql: &str, ordered: bool, rng: &mut Rng) -> (String, Prepared) {
    let (text, values) = with_marks(sql, rng);
    (format!("PREPARE {name} FROM {}", quoted(&text)), Prepared { name: name.into(), values, ordered })
}

/// A statement that prepares another one and carries it out.
pub fn at_once(sql: &str, rng: &mut Rng) -> String {
    let (text, values) = with_marks(sql, rng);
    let prepared = Prepared { name: format!("IMMEDIATE {}", quoted(&text)), values, ordered: false };
    prepared.execute(rng)
}

/// The statement with marks in place of some of its numbers, and these.
fn with_marks(sql: &str, rng: &mut Rng) -> (String, Vec<String>) {
    let mut values = Vec::new();
    let text = tokens(sql)
        .into_iter()
        .map(|token| {
            let word = token.trim();
            let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number || rng.chance(30) {
                return token.to_owned();
            }
            values.push(word.to_owned());
            token.replace(word, "?")
        })
        .collect();
    (text, values)
}
