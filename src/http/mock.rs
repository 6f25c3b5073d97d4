//! What is served only where the bundled mock is the IAM.

pub mod control;
