//! A system without random numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use auth_gateway_core::Random;
use auth_gateway_core::error::Internal;
use aws_lc_rs::rand::SystemRandom;
use test_support::gateway::{TestGateway, manual_clock, prepare};

use super::BROKEN;

/// The system's random numbers, until they are switched off.
#[derive(Debug, Default)]
struct SwitchableRandom(AtomicBool);

impl Random for SwitchableRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Internal::Random);
        }
        SystemRandom::new().fill(bytes)
    }
}

#[tokio::test]
async fn without_random_numbers_login_and_exchange_are_faults_and_no_refusals() {
    let random = Arc::<SwitchableRandom>::default();
    let (settings, mut parts) = prepare(None, &[], manual_clock());
    parts.random = Arc::<SwitchableRandom>::clone(&random);
    let gateway = TestGateway::with_namespaces(settings, parts);
    let log_in = async || {
        gateway
            .log_in("alice@example.test", &"alice-pass".into())
            .await
    };
    let session = log_in().await.session();

    random.0.store(true, Ordering::Relaxed);
    log_in().await.is_error(BROKEN.status, BROKEN.error);
    let exchanged = gateway.exchange(&session, "").await;
    exchanged.is_error(BROKEN.status, BROKEN.error);

    random.0.store(false, Ordering::Relaxed);
    gateway.exchange(&session, "").await.token();
    log_in().await.session();
}
