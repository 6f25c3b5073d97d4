//! The adapters from outside, one binary.
