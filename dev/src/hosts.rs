//! Rejects requests that a foreign web page made the browser send to the mock: requests of another
//! origin, and requests by a host name that resolves to this machine (DNS rebinding). The checks use
//! `Host` and `Origin`, which a page cannot set.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use actix_web::Error;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderValue};
use actix_web::middleware::Next;
use auth_gateway::http;
use mock_iam::HostName;

use crate::control::{self, ControlError};

/// The allowed hosts: every IP address, `localhost`, the names below it (RFC 6761 section 6.3: they
/// always resolve to this machine), and these names.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowedHosts(Rc<[HostName]>);

impl FromIterator<HostName> for AllowedHosts {
    fn from_iter<I: IntoIterator<Item = HostName>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

impl AllowedHosts {
    /// The middleware around everything that the mock serves.
    ///
    /// # Errors
    ///
    /// Errors of the inner service.
    pub(crate) async fn check_host(
        self,
        request: ServiceRequest,
        next: Next<impl MessageBody + 'static>,
    ) -> Result<ServiceResponse<BoxBody>, Error> {
        let Err(error) = self.check(&request) else {
            let response = next.call(request).await?;
            return Ok(response.map_into_boxed_body());
        };
        let id = http::request_id(&request);
        let mut response = request.into_response(error.response(&id));
        let headers = response.headers_mut();
        headers.insert(http::X_REQUEST_ID, http::header_value(&id));
        control::no_store(headers);
        Ok(response)
    }

    fn check(&self, request: &ServiceRequest) -> Result<(), ControlError> {
        let headers = request.headers();
        let mut hosts = headers.get_all(header::HOST).map(HeaderValue::as_bytes);
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(ControlError::forbidden_host());
        };
        // RFC 9112 section 3.2.2: a host in the request line takes precedence.
        let target = request.uri().authority();
        let target = target.map(|authority| authority.as_str().as_bytes());
        if !self.allow(host) || target.is_some_and(|target| !self.allow(target)) {
            return Err(ControlError::forbidden_host());
        }
        // A browser sends `Origin` with every request that can change state (Fetch, "append a request
        // `Origin` header"); other programs send none.
        let same = headers.get_all(header::ORIGIN).all(|origin| {
            let origin = origin.as_bytes();
            [b"http://".as_slice(), b"https://"]
                .iter()
                .find_map(|scheme| origin.strip_prefix(*scheme))
                .is_some_and(|authority| authority.eq_ignore_ascii_case(host))
        });
        if same {
            Ok(())
        } else {
            Err(ControlError::foreign_origin())
        }
    }

    /// Whether this is an allowed host, with or without a port (RFC 9110 section 7.2).
    fn allow(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else {
            return false;
        };
        let (name, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((address, port))) => {
                return address.parse::<Ipv6Addr>().is_ok()
                    && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
            }
            Some(None) => return false,
            None => host
                .split_once(':')
                .map_or((host, None), |(name, port)| (name, Some(port))),
        };
        if port.is_some_and(|port| !is_port(port)) {
            return false;
        }
        if name.parse::<Ipv4Addr>().is_ok() {
            return true;
        }
        HostName::try_from(name).is_ok_and(|name| name.is_local() || self.0.contains(&name))
    }
}

fn is_port(port: &str) -> bool {
    !port.starts_with('+') && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn allowed() -> AllowedHosts {
        let names = ["mock-iam", "Mock.Test."].map(HostName::try_from);
        names
            .into_iter()
            .map(|name| name.expect("a name"))
            .collect()
    }

    #[test]
    fn addresses_localhost_and_named_hosts_are_allowed() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9090",
            "192.0.2.7:1",
            "0.0.0.0:9090",
            "[::1]",
            "[::1]:9090",
            "[2001:db8::7]:65535",
            "[::ffff:127.0.0.1]:9090",
            "localhost",
            "localhost:9090",
            "LocalHost:9090",
            "localhost.:9090",
            "mock.localhost:9090",
            "mock-iam:8180",
            "MOCK-IAM",
            "mock.test:9090",
            "mock.test.",
        ] {
            assert!(allowed().allow(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn every_other_host_and_invalid_hosts_are_refused() {
        for host in [
            "",
            " ",
            ":9090",
            "evil.test",
            "evil.test:9090",
            "localhost.evil.test",
            "127.0.0.1.evil.test",
            "evillocalhost",
            "notmock-iam",
            "sub.mock.test",
            "mock-iam..",
            ".localhost",
            "a..localhost",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "localhost@evil.test",
            "evil.test@localhost",
            "localhost/",
            "localhost, evil.test",
            "127.0.0.1:x",
            "127.1",
            "127.0.0.1.",
            "::1",
            "[::1",
            "[::1]evil.test",
            "[::1]:",
            "[::1%25lo]",
            "[evil.test]",
            "[127.0.0.1]",
            "l\u{f6}calhost",
        ] {
            assert!(!allowed().allow(host.as_bytes()), "{host}");
        }
        assert!(!allowed().allow(b"local\xffhost"));
    }

    fn is_refused(headers: &[(header::HeaderName, &str)]) -> bool {
        let mut request = TestRequest::get();
        for (name, value) in headers {
            request = request.append_header((name.clone(), *value));
        }
        allowed().check(&request.to_srv_request()).is_err()
    }

    #[test]
    fn a_request_has_exactly_one_host() {
        assert!(!is_refused(&[(header::HOST, "localhost")]));
        assert!(is_refused(&[]));
        assert!(is_refused(&[
            (header::HOST, "localhost"),
            (header::HOST, "localhost")
        ]));
        let absolute = TestRequest::get()
            .uri("http://evil.test/mock/v1/users")
            .insert_header((header::HOST, "localhost"));
        assert!(allowed().check(&absolute.to_srv_request()).is_err());
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let refused = |origins: &[&str]| {
            let mut headers = vec![(header::HOST, "localhost:9090")];
            headers.extend(origins.iter().map(|origin| (header::ORIGIN, *origin)));
            is_refused(&headers)
        };
        assert!(!refused(&[]), "a program");
        assert!(!refused(&["http://localhost:9090"]));
        assert!(!refused(&["https://LocalHost:9090"]));
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:8080",
            "http://localhost:90900",
            "http://evil.test",
            "http://evil.test:9090",
            "http://localhost:9090.evil.test",
            "http://localhost:9090@evil.test",
            "http://localhost:9090/",
            "file://localhost:9090",
            "localhost:9090",
        ] {
            assert!(refused(&[origin]), "{origin}");
        }
        assert!(refused(&["http://localhost:9090", "http://evil.test"]));
    }
}
