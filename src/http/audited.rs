//! The lines of the audit log for logins and logouts. A request whose client disconnects has a line
//! too.

use std::thread;

use actix_web::{HttpMessage as _, HttpRequest};
use iam_adapters::ClientAddress;

use super::middleware::{RequestId, RequestLog, request_id};
use crate::audit::{AuditLog, Decision, EndedSession, Event, Identifiers, Request, Unwritable};
use crate::gateway::error::GatewayError;
use crate::gateway::{LoggedOut, LoginAttempt, NewSession};

/// The id and the client of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) id: RequestId,
    pub(super) address: Option<ClientAddress>,
}

impl Origin {
    /// Those that the middleware has found.
    pub(super) fn of(request: &HttpRequest) -> Self {
        let extensions = request.extensions();
        Self {
            id: request_id(request),
            address: extensions.get::<RequestLog>().and_then(|log| log.client),
        }
    }

    /// As it is in a line.
    pub(super) fn request(self, ids: &Identifiers) -> Request {
        Request {
            request_id: self.id.as_str().to_owned(),
            client: ids.client(self.address),
        }
    }
}

/// The outcome of a request that is dropped while it is handled.
fn dropped() -> Decision {
    if thread::panicking() {
        Decision::INTERNAL_ERROR
    } else {
        Decision::CLIENT_DISCONNECTED
    }
}

/// Records a login that was refused before an attempt began.
pub(super) async fn refused_login(
    audit: &AuditLog,
    origin: Origin,
    error: &GatewayError,
) -> Result<(), Unwritable> {
    let line = audit.record_or_refuse(|ids| Event::Login {
        decision: Decision::of_error(error),
        request: origin.request(ids),
        account: None,
        iam: None,
        subject: None,
        session: None,
    });
    line.await
}

/// A login in progress. Its line is written when it is dropped, if that did not happen before.
#[derive(Debug)]
pub(super) struct Login<'a> {
    audit: &'a AuditLog,
    origin: Origin,
    email: &'a str,
    is_recorded: bool,
}

impl<'a> Login<'a> {
    pub(super) const fn begin(audit: &'a AuditLog, origin: Origin, email: &'a str) -> Self {
        Self {
            audit,
            origin,
            email,
            is_recorded: false,
        }
    }

    /// Records the result.
    pub(super) async fn record(&mut self, attempt: &LoginAttempt) -> Result<(), Unwritable> {
        self.is_recorded = true;
        let decision = match &attempt.result {
            Err(GatewayError::Refused(_)) if attempt.iam.is_none() => Decision::UNKNOWN_DOMAIN,
            result => Decision::of(result),
        };
        let session = attempt.result.as_ref().ok();
        let iam = attempt.iam.as_deref();
        let line = |ids: &Identifiers| self.event(ids, decision, iam, session);
        self.audit.record_or_refuse(line).await
    }

    /// Records that a session whose line could not be written is ended.
    pub(super) fn withdraw(&self, attempt: &LoginAttempt) {
        let session = attempt.result.as_ref().ok();
        let iam = attempt.iam.as_deref();
        self.audit
            .record(|ids| self.event(ids, Decision::NOT_AUDITED, iam, session));
    }

    fn event(
        &self,
        ids: &Identifiers,
        decision: Decision,
        iam: Option<&str>,
        session: Option<&NewSession>,
    ) -> Event {
        Event::Login {
            decision,
            request: self.origin.request(ids),
            account: Some(ids.account(self.email)),
            iam: iam.map(str::to_owned),
            subject: session.map(|session| session.sub.clone()),
            session: session.map(|session| ids.session(session.session_id)),
        }
    }
}

impl Drop for Login<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.audit
                .record(|ids| self.event(ids, dropped(), None, None));
        }
    }
}

/// A logout in progress. Its line is written when it is dropped. No line can refuse a logout: the
/// session would stay alive.
#[derive(Debug)]
pub(super) struct Logout<'a> {
    audit: &'a AuditLog,
    origin: Origin,
    session: Option<LoggedOut>,
    decision: Option<Decision>,
}

impl<'a> Logout<'a> {
    pub(super) const fn begin(audit: &'a AuditLog, origin: Origin) -> Self {
        Self {
            audit,
            origin,
            session: None,
            decision: None,
        }
    }

    /// The request names this session.
    pub(super) fn opened(&mut self, session: LoggedOut) {
        self.session = Some(session);
    }

    /// Sets the result.
    pub(super) fn ended(&mut self, result: &Result<(), GatewayError>) {
        self.decision = Some(Decision::of(result));
    }
}

impl Drop for Logout<'_> {
    fn drop(&mut self) {
        self.audit.record(|ids| Event::Logout {
            decision: self.decision.unwrap_or_else(dropped),
            request: self.origin.request(ids),
            session: self.session.as_ref().map(|session| EndedSession {
                iam: session.iam.to_string(),
                subject: session.sub.clone(),
                session: ids.session(session.session_id),
            }),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use iam_adapters::clock::ManualClock;
    use serde_json::Value;

    use super::*;
    use crate::config::{AuditDestination, AuditSettings};
    use crate::gateway::identifiers::IdentifierKey;
    use crate::gateway::session::SessionId;
    use crate::telemetry::metrics::AuditMetrics;

    #[test]
    fn request_that_is_dropped_while_it_is_handled_has_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let settings = AuditSettings {
            destination: AuditDestination::File,
            file: Some(path.clone()),
            ..AuditSettings::default()
        };
        let clock = ManualClock::at(std::time::Duration::ZERO);
        let audit = AuditLog::new(
            &settings,
            Arc::new(IdentifierKey::new(b"a key")),
            Arc::new(clock),
            AuditMetrics::default(),
        );
        let flusher = audit.open().unwrap();
        let origin = Origin {
            id: RequestId::new(),
            address: None,
        };
        drop(Login::begin(&audit, origin, "alice@example.test"));
        let mut logout = Logout::begin(&audit, origin);
        logout.opened(LoggedOut {
            session_id: SessionId::parse("b5TFtQhzVWRmHlY4g7NGLA").unwrap(),
            sub: "alice".to_owned(),
            iam: "corp".into(),
        });
        drop(logout);
        drop(flusher);
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        let [login, logout] = &lines[..] else {
            panic!("{text}")
        };
        for (line, event) in [(login, "login"), (logout, "logout")] {
            assert_eq!(line["event"], event);
            assert_eq!(line["outcome"], "unknown");
            assert_eq!(line["reason"], "client_disconnected");
        }
        assert!(login["account"].is_string());
        assert_eq!(logout["subject"], "alice");
    }
}
