//! `[traces]`: traces of requests, exported to an OpenTelemetry Collector.

use std::path::PathBuf;
use std::time::Duration;

use actix_web::http::header::{HeaderName, HeaderValue};
use iam_adapters::client::address_problems;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::errors::ConfigErrors;
use super::known::join;
use super::section::section;
use super::server_url::ServerUrl;

/// The most for `timeout`. Spans wait in memory during that time.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

section! {
    pub struct TraceSettings {
        /// The base URL of a receiver of OTLP over HTTP, without `/v1/traces`; `None`: no traces.
        pub endpoint: Option<ServerUrl> = None;
        /// The share of the requests that are sampled, if no trusted proxy decided it.
        pub sample_ratio: f64 = 0.01;
        /// Headers of each export: `name=value`, separated by commas, percent-encoded.
        #[serde(serialize_with = "iam_adapters::secret_file::serialize_hidden")]
        pub headers: Option<SecretString> = None;
        pub headers_file: Option<PathBuf> = None;
        /// PEM certificates of authorities to trust in addition to the machine's own.
        pub ca_file: Option<PathBuf> = None;
        #[serde(with = "humantime_serde")]
        pub timeout: Duration = Duration::from_secs(10), in Duration::from_millis(1)..=TIMEOUT_MAX;
        pub service_name: String = "auth-gateway".to_owned();
        /// The resource attribute `service.instance.id`; `None`: random, at each start.
        pub service_instance_id: Option<String> = None;
    }
}

impl TraceSettings {
    /// The address to which spans are sent; `None`: traces are off.
    pub fn url(&self) -> Option<Url> {
        let mut url = (**self.endpoint.as_ref()?).clone();
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Some(url)
    }

    /// The headers of each export.
    pub fn header_list(&self) -> Result<Vec<(String, SecretString)>, &'static str> {
        let text = self
            .headers
            .as_ref()
            .map_or("", |text| text.expose_secret());
        let headers = text.split(',').map(str::trim).filter(|one| !one.is_empty());
        headers.map(header).collect()
    }

    pub(super) fn check(&self, production: bool, problems: &mut ConfigErrors) {
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            problems.add("traces.sample_ratio", "is not within 0 and 1");
        }
        self.check_ranges(|name| join("traces", name), problems);
        if self.service_name.is_empty() {
            problems.add("traces.service_name", "must not be empty");
        }
        if let Err(problem) = self.header_list() {
            problems.add("traces.headers", problem);
        }
        let Some(endpoint) = &self.endpoint else {
            for (key, is_set) in [
                ("traces.headers", self.headers.is_some()),
                ("traces.ca_file", self.ca_file.is_some()),
            ] {
                if is_set {
                    problems.add(key, "is used only with traces.endpoint");
                }
            }
            return;
        };
        // Spans contain no secret, but the headers usually do.
        let exposed = self.headers.is_some() && !endpoint.is_local();
        for problem in address_problems("traces.endpoint", endpoint, production && exposed) {
            problems.add_lines(&problem);
        }
    }
}

/// The format of `OTEL_EXPORTER_OTLP_HEADERS`.
fn header(text: &str) -> Result<(String, SecretString), &'static str> {
    let invalid = "expected name=value, several of them separated by commas, percent-encoded";
    let (name, value) = text.split_once('=').ok_or(invalid)?;
    let name = name.trim();
    let value = percent_decode_str(value.trim()).decode_utf8();
    let value = value.map_err(|_| invalid)?;
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid)?;
    HeaderValue::from_str(&value).map_err(|_| invalid)?;
    Ok((name.to_owned(), value.into_owned().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_tests::load_text;

    fn problems(text: &str) -> Vec<String> {
        let invalid = load_text(text, &[]).err();
        invalid.map_or_else(Vec::new, |invalid| invalid.problems)
    }

    #[test]
    fn traces_are_off_without_an_endpoint() {
        let settings = load_text("", &[]).unwrap();
        assert_eq!(settings.traces.url(), None);
    }

    #[test]
    fn path_of_otlp_is_added_to_the_endpoint() {
        for (endpoint, expected) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            (
                "https://otel.test/otlp/",
                "https://otel.test/otlp/v1/traces",
            ),
        ] {
            let settings = TraceSettings {
                endpoint: Some(endpoint.to_owned().try_into().unwrap()),
                ..TraceSettings::default()
            };
            assert_eq!(settings.url().unwrap().as_str(), expected);
        }
    }

    #[test]
    fn headers_are_a_list_of_percent_encoded_pairs() {
        let list = |text: &str| {
            let settings = TraceSettings {
                headers: Some(text.into()),
                ..TraceSettings::default()
            };
            settings.header_list().map(|list| {
                list.iter()
                    .map(|(name, value)| format!("{name}: {}", value.expose_secret()))
                    .collect::<Vec<_>>()
            })
        };
        let expected = ["authorization: Bearer a=b", "x-tenant: shop"];
        assert_eq!(
            list("authorization=Bearer%20a=b, x-tenant=shop"),
            Ok(expected.map(str::to_owned).to_vec())
        );
        for invalid in ["authorization", "a b=c", "a=%0a", "a=%ff", "=b"] {
            assert!(list(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn invalid_settings_are_reported_without_their_secrets() {
        for (text, problem) in [
            (
                "endpoint = \"ftp://a\"",
                "traces.endpoint: must be http or https",
            ),
            (
                "endpoint = \"http://u:p@a\"",
                "traces.endpoint: must hold no credentials",
            ),
            (
                "sample_ratio = 1.5",
                "traces.sample_ratio: is not within 0 and 1",
            ),
            (
                "sample_ratio = nan",
                "traces.sample_ratio: is not within 0 and 1",
            ),
            ("timeout = \"0s\"", "traces.timeout: 0s is not within"),
            (
                "service_name = \"\"",
                "traces.service_name: must not be empty",
            ),
            (
                "ca_file = \"a.pem\"",
                "traces.ca_file: is used only with traces.endpoint",
            ),
            (
                "headers = \"s3cret\"\nendpoint = \"http://a\"",
                "traces.headers: expected",
            ),
        ] {
            let lines = problems(&format!("[traces]\n{text}"));
            assert!(
                lines.iter().any(|line| line.starts_with(problem)),
                "{lines:?}"
            );
            assert!(!lines.concat().contains("s3cret"), "{lines:?}");
        }
    }

    #[test]
    fn headers_are_sent_only_over_tls_or_on_this_machine_in_production() {
        for (endpoint, headers, fine) in [
            ("http://otel.test", None, true),
            ("http://otel.test", Some("a=b"), false),
            ("https://otel.test", Some("a=b"), true),
            ("http://127.0.0.1:4318", Some("a=b"), true),
        ] {
            let settings = TraceSettings {
                endpoint: Some(endpoint.to_owned().try_into().unwrap()),
                headers: headers.map(Into::into),
                ..TraceSettings::default()
            };
            let mut problems = ConfigErrors::default();
            settings.check(true, &mut problems);
            let checked = problems.into_result(Some(()), |_| None);
            assert_eq!(checked.is_ok(), fine, "{checked:?}");
        }
    }
}
