//! What makes the mock an instrument of tests, beside the adapter that it is.

pub mod explain;
pub mod tokens;
