use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::http::header;
use actix_web::test::{TestRequest, call_service, init_service};
use iam_adapters::clock::SystemClock;

use super::*;
use crate::health::Lifecycle;
use crate::startup::{self, Parts};
use crate::{config, http};

fn front(lifecycle: &Lifecycle) -> Data<Front> {
    let settings =
        config::load(None, &BTreeMap::new(), &config::sample::registry()).expect("settings");
    let parts = Parts::prepare(&settings, Arc::new(SystemClock::default())).expect("parts");
    let parts = Parts {
        lifecycle: lifecycle.clone(),
        ..parts
    };
    let connected = startup::connect(&settings, &parts);
    Data::new(connected.front(&settings, &parts))
}

#[actix_web::test]
async fn once_the_gateway_drains_an_operation_is_refused_and_its_connection_closed() {
    let lifecycle = Lifecycle::default();
    let app = http::app(front(&lifecycle)).configure(http::public);
    let app = init_service(app).await;
    let ask = async |uri| {
        let request = TestRequest::post().uri(uri).to_request();
        call_service(&app, request).await
    };
    assert_eq!(ask("/api/v1/auth/token").await.status(), 415);

    lifecycle.leave();
    assert_eq!(ask("/api/v1/auth/token").await.status(), 415, "not yet");

    lifecycle.drain();
    for uri in [
        "/api/v1/auth/login",
        "/api/v1/auth/token",
        "/api/v1/auth/logout",
        "/api/v1/auth/backchannel-logout",
    ] {
        let response = ask(uri).await;
        assert_eq!(response.status(), 503, "{uri}");
        assert!(response.headers().contains_key(header::RETRY_AFTER));
        assert!(!response.response().head().keep_alive());
    }
    assert_eq!(ask("/openapi.yaml").await.status(), 405, "no operation");
}
