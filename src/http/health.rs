//! Liveness, readiness and metrics, on the management listener.

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use actix_web::web::Data;
use iam_adapters::Moment;
use iam_adapters::name::Name as _;
use serde_json::json;

use crate::health::{LastResult, Readiness, Reason, ReasonCode, Report};
use auth_gateway_core::iams::Iam;
use auth_gateway_core::keys::Key as _;
use auth_gateway_core::upstream_logouts::OverdueLogouts;

use super::app_state::AppState;

/// `GET /health/live`: the process responds. Nothing else is checked, because a restart repairs
/// nothing outside of the process.
pub(super) async fn live() -> HttpResponse {
    uncached(StatusCode::OK, &json!({ "status": "live" }))
}

/// `GET /health/ready`: whether this replica should get traffic. It is ready during an outage of the
/// IAM: otherwise all replicas would lose their traffic at once.
pub(super) async fn ready(app_state: Data<AppState>) -> HttpResponse {
    let now = app_state.gateway.replica.clock.now();
    let report = report(&app_state, now);
    app_state.health.log_change(&report);
    let keys = &app_state.gateway.replica.keys;
    let status = match report.readiness {
        Readiness::Ready | Readiness::Degraded => StatusCode::OK,
        Readiness::NotReady => StatusCode::SERVICE_UNAVAILABLE,
    };
    let iams = app_state.gateway.iams.iter().zip(&report.iams);
    let iams: Vec<_> = iams.map(|(iam, last)| iam_state(iam, last)).collect();
    let (signing, sealing) = (keys.signing.key_set(), keys.sealing.key_set());
    let body = json!({
        "status": report.readiness.name(),
        "reasons": report.reasons,
        "iams": iams,
        "keys": {
            "signing": signing.count(),
            "signing_kid": signing.current(now).kid(),
            "sealing": sealing.count(),
            "sealing_kid": sealing.current(now).kid(),
        },
    });
    uncached(status, &body)
}

/// The state of this replica with everything that degrades it.
pub(super) fn report(app_state: &AppState, now: Moment) -> Report {
    let mut report = app_state.health.report(now);
    for warning in app_state.gateway.replica.keys.warnings(now) {
        report.add(warning.into());
    }
    if !app_state.gateway.replica.revocations.has_room(now) {
        let message = "too many live revocations: no session can begin";
        report.add(Reason::new(ReasonCode::RevocationsFull, message));
    }
    for iam in app_state.gateway.iams.iter() {
        let Some(overdue) = iam.upstream_logouts.overdue(now) else {
            continue;
        };
        let OverdueLogouts { unfinished, oldest } = overdue;
        let oldest = oldest.as_secs();
        let message = format!(
            "logouts that failed at the IAM: {unfinished}; the oldest failed {oldest} s ago"
        );
        let reason = Reason::new(ReasonCode::UnfinishedLogouts, message);
        report.add(reason.of_iam(iam.name()));
    }
    report
}

fn iam_state(iam: &Iam, last: &LastResult) -> serde_json::Value {
    let mut state = json!({
        "name": iam.name(),
        "adapter": iam.adapter.name(),
        "login": iam.policy.allows_logins,
        "capabilities": iam.adapter.capabilities(),
        "last_result": last.result,
    });
    if let (Some(age), Some(state)) = (last.age, state.as_object_mut()) {
        state.insert("age_seconds".to_owned(), age.as_secs().into());
    }
    state
}

/// `GET /metrics`, in the text format of `OpenMetrics`.
pub(super) async fn metrics(app_state: Data<AppState>) -> HttpResponse {
    let files = app_state.health.files_reason();
    (app_state.metrics).describe(&app_state.gateway, files.is_some());
    HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(app_state.metrics.encode())
}

fn uncached(status: StatusCode, body: &serde_json::Value) -> HttpResponse {
    HttpResponse::build(status)
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .json(body)
}
