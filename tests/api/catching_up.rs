//! The time before the first catch-up with the other replicas, by tokio's clock, which the tests
//! advance.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use auth_gateway::health::{Health, Readiness};
use auth_gateway::http::AppState;
use auth_gateway::startup::connect;
use auth_gateway_core::Gateway;
use auth_gateway_core::error::{GatewayError, NotReady};
use auth_gateway_core::request::RequestContext;
use auth_gateway_replication::ReplicationStream;
use futures_util::FutureExt as _;
use iam_adapters::name::Name as _;
use iam_adapters::{Clock, Credentials, Scope};
use secrecy::ExposeSecret as _;
use test_support::ManualClock;
use test_support::gateway::prepare;

const NOW: Duration = Duration::from_secs(1_800_000_000);
const DEADLINE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);

/// A gateway with a Redis at this port, which it waits for until the deadline.
fn gateway(
    port: u16,
    deadline: Option<Duration>,
) -> (Arc<Gateway>, Arc<Health>, ReplicationStream) {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(NOW));
    let url = format!("redis://127.0.0.1:{port}");
    let (settings, parts) = prepare(None, &[("redis.url", &url)], clock);
    let AppState {
        gateway, health, ..
    } = connect(&settings, &parts);
    for iam in gateway.iams.iter() {
        // The periodic probe does not run here, and the mock responds at once.
        let probed = iam.adapter.probe().now_or_never();
        assert_eq!(probed, Some(Ok(())));
    }
    let (redis, outboxes) = parts.replication.expect("a Redis");
    let replica = Arc::clone(&gateway.replica);
    let stream = ReplicationStream::new(redis, outboxes, replica, deadline);
    (gateway, health, stream)
}

/// Logs in and exchanges; returns the result of the exchange.
async fn exchange(gateway: &Gateway) -> Result<(), GatewayError> {
    let email = "alice@example.test".to_owned();
    let credentials = Credentials::new(email, "alice-pass".into()).expect("an address");
    let request = &RequestContext::default();
    let session = gateway.log_in(request, &credentials).await;
    let session = session.expect("a login");
    let (id, token) = (session.session_id.to_string(), session.session_token);
    let token = token.expose_secret();
    let exchanged = gateway.exchange(request, &id, token, Scope::EMPTY);
    let exchanged = exchanged.await.map(drop);
    gateway
        .log_out(request, &id, token)
        .await
        .expect("a logout");
    exchanged
}

fn report(gateway: &Gateway, health: &Health) -> (Readiness, Vec<&'static str>) {
    let report = health.report(gateway.replica.clock.now());
    let codes = report.reasons.iter().map(|reason| reason.code.name());
    (report.readiness, codes.collect())
}

/// Two ports: one refuses connections, the other accepts them and never responds.
fn unusable_redis() -> (TcpListener, [u16; 2]) {
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let ports = [&hanging, &closed].map(|port| port.local_addr().expect("an address").port());
    (hanging, ports)
}

#[tokio::test(start_paused = true)]
async fn no_token_is_issued_before_the_catch_up_deadline_if_redis_refuses_or_hangs() {
    let (_hanging, ports) = unusable_redis();
    for port in ports {
        let (gateway, health, stream) = gateway(port, Some(DEADLINE));
        let catching_up = (Readiness::NotReady, vec!["revocations_catching_up"]);
        assert_eq!(report(&gateway, &health), catching_up);
        let running = tokio::spawn(stream.run());
        tokio::time::sleep(DEADLINE.saturating_sub(MOMENT)).await;
        let refused = exchange(&gateway).await;
        assert_eq!(refused, Err(NotReady::CatchingUp.into()));
        assert_eq!(report(&gateway, &health), catching_up);
        tokio::time::sleep(2 * MOMENT).await;
        assert_eq!(exchange(&gateway).await, Ok(()));
        let alone = (Readiness::Degraded, vec!["revocations_unreachable"]);
        assert_eq!(report(&gateway, &health), alone);
        running.abort();
    }
}

/// Only Redis knows which sessions of a directory were ended.
#[tokio::test(start_paused = true)]
async fn no_token_is_ever_issued_without_redis_if_there_is_no_deadline() {
    let (_hanging, ports) = unusable_redis();
    for port in ports {
        let (gateway, _, stream) = gateway(port, None);
        let running = tokio::spawn(stream.run());
        tokio::time::sleep(1000 * DEADLINE).await;
        let refused = exchange(&gateway).await;
        assert_eq!(refused, Err(NotReady::CatchingUp.into()));
        running.abort();
    }
}
