//! An IAM whose introspections are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::{IamAdapter, IamError, Introspection, UpstreamSession};
use tokio::time::sleep;

use crate::wrapper::Wrapper;

/// Delays introspections, and records how many are in flight.
#[derive(Debug)]
pub struct SlowIam {
    iam: Arc<dyn IamAdapter>,
    delay: fn(call: usize) -> Duration,
    introspections: AtomicUsize,
    in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
}

/// Counts a call out when it ends, also if it is cancelled.
struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SlowIam {
    /// Delays each introspection by what the function returns for its number, from 0.
    pub fn new(iam: Arc<dyn IamAdapter>, delay: fn(call: usize) -> Duration) -> Arc<Self> {
        Arc::new(Self {
            iam,
            delay,
            introspections: AtomicUsize::default(),
            in_flight: AtomicUsize::default(),
            max_in_flight: AtomicUsize::default(),
        })
    }

    /// The number of introspections.
    pub fn introspections(&self) -> usize {
        self.introspections.load(Ordering::SeqCst)
    }

    /// The maximum number of introspections that were in flight at the same time.
    pub fn max_in_flight(&self) -> usize {
        self.max_in_flight.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Wrapper for SlowIam {
    fn inner(&self) -> &dyn IamAdapter {
        &*self.iam
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let call = self.introspections.fetch_add(1, Ordering::SeqCst);
        let in_flight = 1 + self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _in_flight = InFlight(&self.in_flight);
        self.max_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        sleep((self.delay)(call)).await;
        self.iam.introspect(session).await
    }
}
