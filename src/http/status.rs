//! `GET /` of the management listener: the state of this replica as a page for people, with the facts of
//! `/health/ready`. It has no script and loads nothing.

use std::fmt::Write as _;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header;
use actix_web::web::Data;
use humantime_serde::re::humantime::format_duration;
use iam_adapters::Moment;
use iam_adapters::name::Name as _;

use super::app_state::AppState;
use super::auth::timestamp;
use super::health::report;
use super::well_known::jwks_uri;
use crate::health::{Readiness, Report};
use auth_gateway_core::keys::{Key, KeyStore, age_seconds};

/// Nothing is loaded or executed, whatever the page contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Each colour repeats what a text states.
const STYLE: &str = "body{font-family:sans-serif;margin:2em;max-width:60em}\
                     .ready{color:#0a6b1f}.degraded{color:#8a5a00}\
                     .not_ready,.reasons td,.iams td:last-child{color:#b00020}\
                     table{border-collapse:collapse;margin:1em 0}\
                     th,td{border:1px solid #999;padding:.3em .6em;text-align:left;vertical-align:top}";

/// `GET /`.
pub(super) async fn page(app_state: Data<AppState>) -> HttpResponse {
    let now = app_state.gateway.replica.clock.now();
    let page = describe(&app_state, &report(&app_state, now), now);
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(page.finish(&jwks_uri(&app_state.gateway.policy.token.issuer)))
}

fn describe(app_state: &AppState, report: &Report, now: Moment) -> StatusPage {
    let gateway = &app_state.gateway;
    let mut page = StatusPage::new();
    let advice = match report.readiness {
        Readiness::Ready => "this replica should get traffic.",
        Readiness::Degraded => "this replica should get traffic, although not everything works.",
        Readiness::NotReady => "this replica should get no traffic.",
    };
    page.readiness(report.readiness.name(), advice);
    let reasons = report.reasons.iter();
    let reasons = reasons.map(|reason| {
        let iam = reason.iam.clone().unwrap_or_default();
        [reason.code.name().to_owned(), iam, reason.message.clone()]
    });
    page.table("Reasons", ["reason", "IAM", "message"], reasons);
    let started = timestamp(app_state.started.unix_seconds());
    // Not [`Moment::since`], which has no length if the wall clock was set back.
    let uptime = now.monotonic.saturating_sub(app_state.started.monotonic);
    let facts = [
        ["version", crate::VERSION],
        ["commit", crate::COMMIT],
        ["started", &started],
        ["uptime", &whole_seconds(uptime)],
        ["issuer", &gateway.policy.token.issuer],
    ];
    page.table("Program", ["", ""], facts);
    let iams = gateway.iams.iter().zip(&report.iams);
    let iams = iams.map(|(iam, last)| {
        let mut domains = iam.policy.domains.clone();
        domains.extend(iam.policy.is_default.then(|| "all others".to_owned()));
        let logins = match (iam.policy.allows_logins, &*domains) {
            (false, _) => "no".to_owned(),
            (true, domains) => domains.join(", "),
        };
        let reasons = report.reasons.iter();
        let reasons = reasons.filter(|reason| reason.iam.as_deref() == Some(iam.name()));
        let problems: Vec<_> = reasons.map(|reason| &*reason.message).collect();
        [
            iam.name().to_owned(),
            iam.adapter.name().to_owned(),
            logins,
            app_state.metrics.accepted_logins(iam.name()).to_string(),
            last.result.to_owned(),
            last.age.map(whole_seconds).unwrap_or_default(),
            problems.join("; "),
        ]
    });
    let columns = [
        "IAM",
        "adapter",
        "logins of domains",
        "sessions since the start",
        "last result",
        "age",
        "problems",
    ];
    page.table("IAMs", columns, iams);
    let keys = &gateway.replica.keys;
    let keys = [key(&keys.signing, now), key(&keys.sealing, now)];
    page.table("Keys", ["purpose", "key in use", "age", "loaded"], keys);
    let replication = if gateway.session_revoker.is_shared() {
        "with Redis"
    } else {
        "off: no Redis is configured"
    };
    let revocations = &gateway.replica.revocations;
    let in_table = format!("{} of {}", revocations.count(), revocations.capacity());
    let pending = gateway.session_revoker.pending().to_string();
    let facts = [
        ["replication", replication],
        ["revocations not sent yet", &pending],
        ["revocations in the table", &in_table],
    ];
    page.table("Replication", ["", ""], facts);
    let caches = gateway.iams.cache_usage().map(|cache| {
        [
            cache.name.to_owned(),
            cache.entries.to_string(),
            cache.bytes.to_string(),
            cache.max_bytes.to_string(),
        ]
    });
    page.table("Caches", ["cache", "entries", "bytes", "at most"], caches);
    page
}

fn key<K: Key>(keys: &KeyStore<K>, now: Moment) -> [String; 4] {
    let key_set = keys.key_set();
    let current = key_set.current(now);
    let age = u64::try_from(age_seconds(current, now)).unwrap_or_default();
    [
        K::PURPOSE.to_owned(),
        current.kid().to_owned(),
        whole_seconds(Duration::from_secs(age)),
        key_set.count().to_string(),
    ]
}

fn whole_seconds(duration: Duration) -> String {
    format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

/// HTML whose values are escaped.
struct StatusPage(String);

impl StatusPage {
    fn new() -> Self {
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <title>auth-gateway</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <h1>auth-gateway</h1>\n"
        ))
    }

    fn readiness(&mut self, name: &str, advice: &str) {
        let (name, advice) = (escaped(name), escaped(advice));
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.0, "<p class=\"{name}\">{name}: {advice}</p>");
    }

    /// Without rows, nothing. Without names of columns, the first cell of a row is its head.
    fn table<const N: usize>(
        &mut self,
        title: &str,
        columns: [&str; N],
        rows: impl IntoIterator<Item = [impl AsRef<str>; N]>,
    ) {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return;
        }
        let (title, class) = (escaped(title), escaped(&title.to_lowercase()));
        let _ = writeln!(self.0, "<h2>{title}</h2>\n<table class=\"{class}\">");
        let has_heads = columns.iter().any(|column| !column.is_empty());
        if has_heads {
            self.row(&columns, |_| "th");
        }
        for row in rows {
            self.row(&row, |at| if at == 0 && !has_heads { "th" } else { "td" });
        }
        self.0.push_str("</table>\n");
    }

    fn row(&mut self, cells: &[impl AsRef<str>], tag: impl Fn(usize) -> &'static str) {
        self.0.push_str("<tr>");
        for (at, cell) in cells.iter().enumerate() {
            let (tag, cell) = (tag(at), escaped(cell.as_ref()));
            let _ = write!(self.0, "<{tag}>{cell}</{tag}>");
        }
        self.0.push_str("</tr>\n");
    }

    fn finish(mut self, jwks_uri: &str) -> String {
        let jwks_uri = escaped(jwks_uri);
        let _ = writeln!(
            self.0,
            "<p><a href=\"/health/ready\">/health/ready</a> \
             <a href=\"/health/live\">/health/live</a> <a href=\"/metrics\">/metrics</a> \
             <a href=\"{jwks_uri}\">{jwks_uri}</a></p>\n\
             </body>\n</html>",
        );
        self.0
    }
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_escaped() {
        let hostile = "</td><script>alert('1')</script>&\"";
        let safe = "&lt;/td&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;";
        let mut page = StatusPage::new();
        page.readiness(hostile, hostile);
        page.table(
            hostile,
            [hostile, hostile],
            [[hostile, hostile].map(str::to_owned)],
        );
        page.table(hostile, ["", ""], [[hostile, hostile].map(str::to_owned)]);
        let html = page.finish(hostile);
        assert_eq!(html.matches(safe).count(), 15, "{html}");
        for part in ["<script", "alert('", "</td><s"] {
            assert!(!html.contains(part), "{html}");
        }
    }

    #[test]
    fn table_without_rows_is_left_out() {
        let mut page = StatusPage::new();
        page.table("Reasons", ["reason"], [["reason"]; 0]);
        assert!(!page.finish("/").contains("Reasons"));
    }
}
