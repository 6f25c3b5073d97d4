//! The gateway as its clients see it.

mod contract;
