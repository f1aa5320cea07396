//! Floor under construction.
