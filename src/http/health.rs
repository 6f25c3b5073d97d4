//! Liveness, readiness and metrics, on the management listener.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::web::Data;
use serde_json::json;

use crate::gateway::keys::Key as _;
use crate::gateway::upstream_logouts::Overdue;
use crate::health::{Readiness, Reason, ReasonCode};

use super::Front;

/// `GET /health/live`: the process responds. Nothing else is checked, because a restart repairs
/// nothing outside of the process.
pub(super) async fn live() -> HttpResponse {
    uncached(StatusCode::OK, &json!({ "status": "live" }))
}

/// `GET /health/ready`: whether this replica should get traffic. It is ready during an outage of the
/// IAM: otherwise all replicas would lose their traffic at once.
pub(super) async fn ready(front: Data<Front>) -> HttpResponse {
    let now = front.gateway.now();
    let keys = front.gateway.keys();
    let mut report = front.health.report(now);
    for concern in keys.concerns(now) {
        report.degrade(concern.into());
    }
    if !front.gateway.session_ends().revocations().has_room(now) {
        report.degrade(Reason {
            code: ReasonCode::RevocationsFull,
            message: "too many live revocations: no session can begin".to_owned(),
        });
    }
    if let Some(overdue) = front.gateway.upstream_logouts().overdue(now) {
        let Overdue { unfinished, oldest } = overdue;
        let oldest = oldest.as_secs();
        report.degrade(Reason {
            code: ReasonCode::UnfinishedLogouts,
            message: format!(
                "logouts that failed at the IAM: {unfinished}; the oldest failed {oldest} s ago"
            ),
        });
    }
    let status = match report.readiness {
        Readiness::Ready | Readiness::Degraded => StatusCode::OK,
        Readiness::NotReady => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut iam = json!({ "adapter": front.adapter, "last_result": report.last_result });
    if let (Some(age), Some(iam)) = (report.age, iam.as_object_mut()) {
        iam.insert("age_seconds".to_owned(), age.as_secs().into());
    }
    let (signing, sealing) = (keys.signing.key_set(), keys.sealing.key_set());
    let body = json!({
        "status": report.readiness.name(),
        "reasons": report.reasons,
        "iam": iam,
        "keys": {
            "signing": signing.count(),
            "signing_kid": signing.current(now).kid(),
            "sealing": sealing.count(),
            "sealing_kid": sealing.current(now).kid(),
        },
    });
    uncached(status, &body)
}

/// `GET /metrics`, in the text format of Prometheus.
pub(super) async fn metrics(front: Data<Front>) -> HttpResponse {
    front
        .metrics
        .keys(front.gateway.keys(), front.gateway.now());
    front.metrics.untracked(front.gateway.untracked_logins());
    front
        .metrics
        .replicas()
        .take(front.gateway.session_ends().revocations());
    front.metrics.logouts(front.gateway.upstream_logouts());
    HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .body(front.metrics.encode())
}

fn uncached(status: StatusCode, body: &serde_json::Value) -> HttpResponse {
    HttpResponse::build(status)
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .json(body)
}
