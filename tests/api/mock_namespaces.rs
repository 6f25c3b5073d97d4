//! Namespaces isolate tests that run at the same time.

mod apart;
mod names;
mod parallel;
