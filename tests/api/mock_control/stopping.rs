//! The controls of a gateway that is about to stop.
