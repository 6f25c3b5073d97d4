//! `GET /` of the management listener: the page for people.

use std::collections::BTreeSet;

use serde_json::Value;
use test_support::endpoints::LOGIN;
use test_support::gateway::{PUBLIC_URL, TestGateway, two_scripted_keycloaks_settings};
use test_support::scripted_upstream::keycloak::{INTROSPECTION, TOKEN, inactive};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::wait::until;
use test_support::wire::{ALICE, Connection, fetch, get, post};

use crate::metrics::exposition;

fn page(gateway: &TestGateway) -> test_support::wire::Answer {
    fetch(gateway.addresses().management, get("/"))
}

fn readiness(gateway: &TestGateway) -> Value {
    let mut connection = Connection::to(gateway.addresses().management);
    connection.send(get("/health/ready")).answer().json()
}

async fn until_probed(gateway: &TestGateway) {
    until("all IAMs to be probed", async || {
        let readiness = readiness(gateway);
        let iams = readiness["iams"].as_array().expect("a list");
        iams.iter().all(|iam| iam["last_result"] != "none")
    })
    .await;
}

/// The names of the elements. Panics unless each start tag has its end tag.
fn elements(html: &str) -> BTreeSet<&str> {
    const VOID: [&str; 2] = ["!DOCTYPE", "meta"];
    let mut open = Vec::new();
    let mut all = BTreeSet::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("the end of a tag");
        let name = tag.split(' ').next().expect("a name");
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{html}");
        } else if !VOID.contains(&name) {
            all.insert(name);
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0], "{html}");
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn status_page_has_the_facts_of_readiness() {
    let (one, other) = (
        ScriptedUpstream::keycloak().await,
        ScriptedUpstream::keycloak().await,
    );
    for iam in [&one, &other] {
        // The probe introspects a made-up token.
        iam.once(INTROSPECTION, inactive());
    }
    other.on(TOKEN, Answer::text(503, "text/plain", "<b>down</b>"));
    let (one_url, other_url) = (one.url(), other.url());
    let settings = two_scripted_keycloaks_settings(&one_url, &other_url);
    let settings = [&settings[..], &[("upstream.probe_interval", "1h")]].concat();
    let gateway = TestGateway::start(&settings);
    until_probed(&gateway).await;
    let (readiness, page) = (readiness(&gateway), page(&gateway));
    assert_eq!(page.status, 200);
    let html = page.body;
    assert_eq!(readiness["status"], "degraded");
    assert_eq!(readiness["reasons"][0]["iam"], "other");
    let results = readiness["iams"].as_array().expect("a list").iter();
    let results: Vec<_> = results.map(|iam| &iam["last_result"]).collect();
    assert_eq!(results, ["ok", "failed"]);
    let mut facts = vec!["<p class=\"degraded\">degraded: ".to_owned()];
    facts.extend(["all others", "other.test"].map(|domains| format!("<td>{domains}</td>")));
    let cell = |value: &Value| format!("<td>{}</td>", value.as_str().expect("text"));
    for reason in readiness["reasons"].as_array().expect("a list") {
        facts.extend([cell(&reason["code"]), cell(&reason["iam"])]);
        facts.push(
            cell(&reason["message"])
                .replace('\'', "&#39;")
                .replace('"', "&quot;"),
        );
    }
    for iam in readiness["iams"].as_array().expect("a list") {
        facts.extend(["name", "adapter", "last_result"].map(|name| cell(&iam[name])));
    }
    for kid in ["signing_kid", "sealing_kid"] {
        facts.push(cell(&readiness["keys"][kid]));
    }
    facts.push(format!("<td>{}</td>", auth_gateway::VERSION));
    facts.push(format!("<td>{}</td>", auth_gateway::COMMIT));
    for fact in facts {
        assert!(html.contains(&fact), "no {fact}: {html}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_page_has_the_problems_and_the_sessions_of_each_iam() {
    let gateway = TestGateway::start(&[("upstream.probe_interval", "1h")]);
    until_probed(&gateway).await;
    assert_eq!(
        fetch(gateway.addresses().public, post(LOGIN, ALICE)).status,
        200
    );
    let row = |page: &str| {
        let row = page
            .split("<tr>")
            .find(|row| row.starts_with("<td>mock</td>"));
        row.expect("the IAM").to_owned()
    };
    let html = page(&gateway).body;
    let fine = "<td>mock</td><td>mock</td><td>all others</td><td>1</td><td>ok</td>";
    assert!(row(&html).starts_with(fine), "{html}");
    assert!(row(&html).contains("<td></td></tr>"), "{html}");

    let fault = r#"{"operation":"login","times":1,"answer":"unreachable"}"#;
    let control = gateway.addresses().management;
    assert_eq!(fetch(control, post("/mock/v1/faults", fault)).status, 201);
    assert_eq!(
        fetch(gateway.addresses().public, post(LOGIN, ALICE)).status,
        500
    );
    let html = page(&gateway).body;
    let reason = html.split("<td>unreachable</td><td>mock</td><td>").nth(1);
    let (message, _) = reason
        .expect("a reason")
        .split_once("</td>")
        .expect("its end");
    assert!(
        row(&html).contains(&format!("<td>{message}</td></tr>")),
        "{html}"
    );
    assert!(html.contains("<p class=\"degraded\">degraded: "), "{html}");
}

#[test]
fn status_page_has_no_script_and_loads_nothing() {
    let gateway = TestGateway::start(&[]);
    let page = page(&gateway);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("script-src"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let html = &page.body;
    let jwks = format!("{PUBLIC_URL}/.well-known/jwks.json");
    let harmless = [
        "a", "body", "h1", "h2", "head", "html", "p", "style", "table", "td", "th", "title", "tr",
    ];
    let others: Vec<_> = elements(html)
        .into_iter()
        .filter(|name| !harmless.contains(name))
        .collect();
    assert_eq!(others, [""; 0], "{html}");
    for attribute in html.split("=\"").skip(1) {
        let (value, _) = attribute.split_once('"').expect("the end of a value");
        let classes = ["ready", "program", "iams", "keys", "replication", "caches"];
        let is_own = ["en", "utf-8"].contains(&value) || value.starts_with('/');
        let is_own = is_own || classes.contains(&value);
        // A link.
        assert!(is_own || value == jwks, "{value}");
    }
    assert!(
        html.contains(&format!("<a href=\"{jwks}\">{jwks}</a>")),
        "{html}"
    );
    assert!(!html.contains("url("), "{html}");
}

#[test]
fn status_page_is_counted_as_a_request_to_the_management_listener() {
    let gateway = TestGateway::start(&[]);
    page(&gateway);
    let public = fetch(gateway.addresses().public, get("/"));
    assert_eq!(public.status, 404);
    let counts = exposition(&gateway);
    for (route, outcome) in [("management", "ok"), ("other", "invalid_request")] {
        let labels = format!("route=\"{route}\",outcome=\"{outcome}\"");
        let series = format!("auth_gateway_requests_total{{{labels}}}");
        assert_eq!(counts.count(&series), 1, "{route}");
    }
}
