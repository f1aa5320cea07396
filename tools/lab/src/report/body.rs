//! What a report shows of an experiment.

use maud::Markup;

/// The parts of a report, in the order in which they stand.
pub(super) struct Body {
    /// What was done, in a sentence or two.
    pub lead: Markup,
    /// The pictures that answer the claims.
    pub pictures: Markup,
    /// What a reader unfolds, with titles.
    pub folded: Vec<(String, Markup)>,
}
