//! Unknown paths, and methods that a path does not have.

use test_support::wire::{Connection, bare, fetch};

use super::{check_contract, gateway, in_form, send};

const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW",
];

const POSTED: [&str; 4] = [
    "/api/v1/auth/login",
    "/api/v1/auth/token",
    "/api/v1/auth/logout",
    "/api/v1/auth/backchannel-logout",
];

const READ: [&str; 6] = [
    "/.well-known/jwks.json",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/tenant",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/tenant",
    "/openapi.yaml",
];

const MANAGED: [&str; 4] = ["/", "/health/live", "/health/ready", "/metrics"];

#[test]
fn wrong_method_is_a_405_with_the_allowed_methods() {
    let gateway = gateway();
    let listeners = gateway.addresses();
    let public = POSTED.map(|path| (listeners.public, path, "POST"));
    let read = READ.map(|path| (listeners.public, path, "GET, HEAD"));
    let managed = MANAGED.map(|path| (listeners.management, path, "GET, HEAD"));
    let all = public.iter().chain(&read).chain(&managed);
    for (address, path, allowed) in all {
        for method in METHODS {
            let mut connection = Connection::to(*address);
            connection.send(bare(method, path));
            let answer = if method == "HEAD" {
                connection.answer_to_head()
            } else {
                connection.answer()
            };
            let has = allowed.split(", ").any(|known| known == method);
            if has {
                assert_ne!(answer.status, 405, "{method} {path}");
                assert_eq!(answer.header("allow"), None, "{method} {path}");
            } else {
                assert_eq!(answer.status, 405, "{method} {path}: {answer:?}");
                assert_eq!(answer.header("allow"), Some(*allowed), "{method} {path}");
            }
            check_contract(method, path, &answer);
        }
    }
}

#[test]
fn unknown_path_is_a_404_for_every_method() {
    let gateway = gateway();
    for path in [
        "/",
        "/api/v1/auth",
        "/api/v1/auth/",
        "/api/v1/auth/login/",
        "/api/v1/auth/Login",
        "/api/v1/auth/refresh",
        "//api/v1/auth/login",
        "/api/v1/auth/../auth/login",
        "/api/v2/auth/login",
        "/.well-known/",
        "/.well-known/openid-federation",
        "/metrics",
        "/health/live",
        "/health/ready",
        "/admin/v1/sessions/revoke",
        "/%00",
        "/%ff",
        "/a\"b",
    ] {
        for method in METHODS {
            let mut connection = super::connect(&gateway);
            connection.send(bare(method, path));
            let answer = if method == "HEAD" {
                connection.answer_to_head()
            } else {
                connection.answer()
            };
            assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
            in_form(&answer);
        }
    }
}

#[test]
fn percent_encoded_path_is_a_404_at_both_listeners() {
    let gateway = gateway();
    let listeners = gateway.addresses();
    for (address, method, path) in [
        (listeners.public, "POST", "/api/v1/auth/log%69n"),
        (listeners.public, "POST", "/api/v1/auth/%74oken"),
        (listeners.public, "POST", "/api/v1/auth%2Flogout"),
        (
            listeners.public,
            "POST",
            "/api/v1/auth/backchannel%2dlogout",
        ),
        (listeners.public, "GET", "/%2ewell-known/jwks.json"),
        (
            listeners.public,
            "GET",
            "/.well-known/oauth%2Dauthorization-server/a",
        ),
        (listeners.management, "GET", "/%6detrics"),
        (listeners.management, "GET", "/health/l%69ve"),
        (listeners.management, "POST", "/%61dmin/v1/sessions/revoke"),
        (
            listeners.management,
            "POST",
            "/admin/v1/login%2Dlimits/reset",
        ),
    ] {
        let answer = fetch(address, bare(method, path));
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        in_form(&answer);
    }
    let tenant = "/.well-known/oauth-authorization-server/a%20tenant";
    assert_eq!(send(&gateway, bare("GET", tenant)).status, 200);
}

#[test]
fn head_is_allowed_wherever_get_is() {
    let gateway = gateway();
    for path in READ {
        let got = send(&gateway, bare("GET", path));
        let mut connection = super::connect(&gateway);
        let head = connection.send(bare("HEAD", path)).answer_to_head();
        assert_eq!((got.status, head.status), (200, 200), "{path}");
        for name in ["content-length", "content-type", "etag", "cache-control"] {
            assert_eq!(got.header(name), head.header(name), "{path} {name}");
        }
        // No body was sent, so the next response begins here.
        assert_eq!(connection.send(bare("GET", path)).answer().body, got.body);
    }
}

#[test]
fn trace_is_not_echoed() {
    let gateway = gateway();
    for path in ["/api/v1/auth/login", "/nowhere"] {
        let request = format!("TRACE {path} HTTP/1.1\r\nHost: gateway\r\nX-Canary: canary\r\n\r\n");
        let answer = send(&gateway, request);
        assert!([404, 405].contains(&answer.status), "{answer:?}");
        assert!(!format!("{answer:?}").contains("canary"), "{answer:?}");
    }
}

#[test]
fn no_response_names_the_server_software() {
    let gateway = gateway();
    for path in POSTED.iter().chain(&READ).chain(&["/nowhere"]) {
        let answer = send(&gateway, bare("GET", path));
        for name in ["server", "x-powered-by", "via"] {
            assert_eq!(answer.header(name), None, "{path}");
        }
    }
}
