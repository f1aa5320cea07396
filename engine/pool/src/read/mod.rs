//! A page that is asked for: accesses, misses, read-ahead.

pub(crate) mod miss;
pub(crate) mod readahead;
pub(crate) mod readahead_queue;
pub(crate) mod request;
