//! The decorator of the gateway around an adapter under test.

use std::sync::Arc;

use arc_swap::ArcSwap;
use iam_adapters::resilient::{CallEvent, CallLimit, CallLimits, Observer};
use iam_adapters::{Clock, IamAdapter, ResilientAdapter};

/// Ignores every event.
pub fn no_observer() -> Observer {
    Arc::new(|_: &CallEvent<'_>| {})
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
    let iam = Arc::new(ArcSwap::from_pointee(iam));
    ResilientAdapter::new(&"tested".into(), iam, limits, &clock, &no_observer())
}
