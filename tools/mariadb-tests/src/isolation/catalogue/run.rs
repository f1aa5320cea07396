//! How a schedule of the catalogue went.

/// What a session was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Rows(Vec<(i64, i64)>),
    Changed(u64),
    Error(u16),
}

/// How a schedule went.
pub struct Run {
    /// By step; none for those of a transaction that an error had ended.
    pub answers: Vec<Option<Answer>>,
    pub waited: bool,
    /// The rows in the end.
    pub rows: Vec<(i64, i64)>,
}

impl Run {
    /// True if the step read the row.
    pub fn saw(&self, step: usize, row: (i64, i64)) -> bool {
        matches!(&self.answers[step], Some(Answer::Rows(rows)) if rows.contains(&row))
    }

    /// True if the step changed so many rows.
    pub fn changed(&self, step: usize, rows: u64) -> bool {
        self.answers[step] == Some(Answer::Changed(rows))
    }

    /// The first error.
    pub fn error(&self) -> Option<u16> {
        self.answers.iter().find_map(|answer| match answer {
            Some(Answer::Error(code)) => Some(*code),
            _ => None,
        })
    }

    /// True if there was no error.
    pub fn all_went_well(&self) -> bool {
        self.error().is_none()
    }
}
