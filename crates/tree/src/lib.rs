//! Floor 4.
#![forbid(unsafe_code)]
pub mod node;
pub mod op;
mod read;
pub mod space;
