//! The statistics as text, for people.

use crate::core::Shared;

pub(crate) fn text(_shared: &Shared) -> String {
    String::new()
}
