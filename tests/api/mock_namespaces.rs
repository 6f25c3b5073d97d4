//! Namespaces: tests that run at the same time and know nothing of each other.

mod apart;
mod names;
mod parallel;
