//! What a command comes to.

use holdfast_lab::claims::Answer;

/// The result of a command, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success.
    Good,
    /// The command reports a problem.
    Bad,
    /// A claim of an experiment fails.
    Fails,
    /// A program that the command has run ended with this code.
    Program(u8),
}

impl From<Answer> for Outcome {
    fn from(worst: Answer) -> Outcome {
        match worst {
            Answer::Holds => Outcome::Good,
            Answer::CannotTell => Outcome::Bad,
            Answer::Fails => Outcome::Fails,
        }
    }
}

impl Outcome {
    pub(crate) fn good_if(good: bool) -> Outcome {
        if good { Outcome::Good } else { Outcome::Bad }
    }
}
