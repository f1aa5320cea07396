//! `midpoint_lru`: under construction.
use crate::touch::{Queue, Touch, TouchEffect, TouchRules};
pub(crate) fn touch(_: TouchRules, _: u64, _: impl FnOnce() -> u32, _: &Touch) -> TouchEffect {
    TouchEffect::None
}
pub(crate) fn queue(_: u64) -> Queue {
    Queue::Young
}
