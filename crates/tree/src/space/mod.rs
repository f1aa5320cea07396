//! Spaces.
pub mod bitmap;
