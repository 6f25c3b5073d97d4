//! The decorator of the gateway around an adapter under test.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use iam_adapters::resilient::{CallLimit, CallLimits, Circuit, Observer, Operation};
use iam_adapters::{Clock, IamAdapter, IamError, ResilientAdapter};

/// Ignores every event.
#[derive(Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn called(&self, _: Operation, _: Result<(), &IamError>, _: Duration) {}
    fn circuit(&self, _: Operation, _: Circuit) {}
    fn clock(&self, _: f64) {}
}

/// The adapter in its decorator, with the same limit for each operation.
pub fn resilient(
    iam: Arc<dyn IamAdapter>,
    limit: CallLimit,
    clock: Arc<impl Clock + 'static>,
) -> ResilientAdapter {
    let limits = CallLimits {
        login: limit,
        introspection: limit,
        logout: limit,
        keys: limit,
        probe: limit,
    };
    let clock: Arc<dyn Clock> = clock;
    let observer: Arc<dyn Observer> = Arc::new(NoObserver);
    let iam = Arc::new(ArcSwap::from_pointee(iam));
    ResilientAdapter::new(&"tested".into(), iam, limits, &clock, &observer)
}
