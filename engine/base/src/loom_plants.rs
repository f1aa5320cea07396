//! Faults that are planted in what loom explores.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

// The threads of a model run on the thread that explores it.
thread_local!(static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) });

/// True if a model is explored with the fault of this name.
#[must_use]
pub fn is_planted(name: &str) -> bool {
    PLANTED.get() == Some(name)
}

/// Explores a model with a planted fault, and returns what it panics with.
///
/// # Panics
/// If the model does not find the fault.
pub fn failure_with(name: &'static str, explore: impl FnOnce()) -> String {
    PLANTED.set(Some(name));
    let explored = catch_unwind(AssertUnwindSafe(explore));
    PLANTED.set(None);
    let failure = explored.expect_err("the model does not find the planted fault");
    message(&*failure)
}

fn message(failure: &(dyn Any + Send)) -> String {
    let text = failure.downcast_ref::<String>().cloned();
    text.or_else(|| failure.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
