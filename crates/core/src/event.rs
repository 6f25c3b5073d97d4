//! What happens in the gateway, as values that borrow from the operation. The subscribers are the
//! metrics, the audit log, readiness and the log of requests. Nothing else tells them.

use std::fmt;
use std::sync::Arc;

use iam_adapters::ClientAddress;
use iam_adapters::resilient::{CallEvent, Observer};
use strum::IntoStaticStr;

use super::error::GatewayError;
use super::identifiers::Identifier;
use super::request::RequestContext;
use crate::results::{
    DataSource, EndedByIam, LoggedOut, LookUp, NewSession, UpstreamLogoutOutcome,
};
use crate::revoked_sessions::{NotRevocable, RevokedSessions};
use crate::session_id::SessionId;

/// What happened. The name of an IAM is that in the configuration.
#[derive(Debug, Clone, Copy)]
pub enum Event<'e> {
    /// The gateway listens.
    Started {
        /// Its version.
        version: &'static str,
    },
    /// The gateway serves no more requests.
    Stopped,
    /// A login.
    Login {
        /// The request.
        request: &'e RequestContext,
        /// The e-mail address and the identifier of the account; `None`: refused before the account was
        /// considered.
        account: Option<(&'e str, Identifier)>,
        /// The IAM of the login, if there is one.
        iam: Option<&'e Arc<str>>,
        /// Whether an IAM may receive the credentials. The login limits then bound the number of such logins.
        reaches_iam: bool,
        /// How it ended.
        end: LoginEnd<'e>,
    },
    /// The slow rate begins for the account of this e-mail address, for its unknown networks together
    /// or for one known network.
    SlowRate {
        /// The e-mail address.
        email: &'e str,
        /// Whether it is for a known network.
        is_known_network: bool,
    },
    /// A login attempt was not counted, because a table was full.
    UntrackedLogin,
    /// An exchange.
    Exchange {
        /// The request.
        request: &'e RequestContext,
        /// The IAM of the session, if the pair is that of one.
        iam: Option<&'e Arc<str>>,
        /// The source of the data, or why no access token was issued.
        result: Result<DataSource, &'e GatewayError>,
    },
    /// A logout.
    Logout {
        /// The request.
        request: &'e RequestContext,
        /// The session, if the pair is that of one. The gateway refuses it from now on.
        session: Option<&'e LoggedOut>,
        /// Whether it has ended at the IAM too; `None`: the client did not wait.
        result: Option<Result<(), &'e GatewayError>>,
    },
    /// A logout that failed at the IAM is no longer repeated.
    UpstreamLogout {
        /// The IAM.
        iam: &'e str,
        /// The session.
        session_id: SessionId,
        /// What became of it.
        outcome: UpstreamLogoutOutcome,
    },
    /// A logout token.
    LogoutToken {
        /// The request.
        request: &'e RequestContext,
        /// The IAM whose issuer the token has, if there is one. Any sender of an invalid token can
        /// choose it.
        iam: Option<&'e Arc<str>>,
        /// What the token ended, or why it ended nothing.
        result: Result<&'e EndedByIam, &'e GatewayError>,
    },
    /// An operator revoked sessions, or tried to.
    SessionRevocation {
        /// The request.
        request: &'e RequestContext,
        /// The sessions.
        sessions: &'e RevokedSessions,
        /// Only sessions whose login began then or before, in RFC 3339.
        begun_until: Option<&'e str>,
        /// Whether they are revoked.
        result: Result<(), NotRevocable>,
    },
    /// An operator resets the login limits of an account.
    LoginLimitsReset {
        /// The request.
        request: &'e RequestContext,
        /// The e-mail address of the account.
        email: &'e str,
        /// An address in the known network that is reset too.
        network: Option<ClientAddress>,
        /// Whether they are reset. They are not if the audit log cannot be written.
        is_done: bool,
    },
    /// A call for operators without their token.
    OperatorRefused {
        /// The request.
        request: &'e RequestContext,
        /// Its path.
        path: &'e str,
        /// Why.
        reason: &'static str,
    },
    /// What the adapter of an IAM observes.
    Iam {
        /// The IAM.
        iam: &'e str,
        /// What happened.
        event: CallEvent<'e>,
    },
    /// The clock of the store that the replicas share was compared with that of this replica.
    Clock {
        /// The [`offset`](iam_adapters::clock::offset).
        offset: f64,
    },
    /// Whether this replica and the others have each other's entries, at the start and after a change.
    Replication {
        /// The entries.
        of: Replicated,
        /// Whether those of the others are received, or why not.
        received: Result<(), &'e str>,
        /// Whether those of this replica are stored, or why not.
        stored: Result<(), &'e str>,
        /// Whether no access tokens are issued until those of the others are received.
        is_catching_up: bool,
    },
    /// Entries that the replicas share were sent or read.
    Entries {
        /// The entries.
        of: Replicated,
        /// What happened to them.
        outcome: EntryOutcome,
        /// Their number.
        count: usize,
    },
    /// Cached data of a session was looked up in the store that the replicas share.
    SharedLookUp {
        /// What was found.
        result: LookUp,
    },
    /// The keys of one purpose that are in use, at the start and after a change, or why the keys in the
    /// folders cannot be used.
    Keys {
        /// The purpose, and the ids of the keys in the order of their first use.
        result: Result<(&'static str, &'e [String]), &'e str>,
    },
    /// The files that the settings name were read again.
    Files {
        /// Whether their contents are in use, or why not.
        result: Result<(), &'e str>,
    },
}

/// How a login ended.
#[derive(Debug, Clone, Copy)]
pub enum LoginEnd<'e> {
    /// With a session, or with the reason why there is none.
    Decided(Result<&'e NewSession, &'e GatewayError>),
    /// Its session ends before the client gets it, because the audit log does not have the line of the login.
    Withdrawn(&'e NewSession),
    /// The client did not wait.
    Unknown,
}

/// What replicas share, by its name in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Replicated {
    /// Revocations.
    Revocations,
    /// Refused logins, and what ends their effect.
    Logins,
    /// Networks from which accounts have logged in.
    #[strum(serialize = "logins:networks")]
    KnownNetworks,
    /// Statements about the keys of the replicas.
    Keys,
}

/// What happened to an entry that replicas share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOutcome {
    /// The store has it.
    Sent,
    /// The store refused it. It is sent again.
    Refused,
    /// It was not sent, because too many wait.
    Dropped,
    /// It came from another replica, or from this one before its restart.
    Received,
    /// It was read and has no effect.
    Ignored(Ignored),
}

/// Why an entry was ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Ignored {
    /// It does not have the format.
    Malformed,
    /// It names a key that this replica does not have.
    UnknownKey,
    /// Its tag is wrong: no replica wrote it.
    Forged,
    /// It no longer has an effect, or is from the future.
    Expired,
}

/// Receives every event. It must not wait: the request does. Nearly all are exchanges with fresh cached data, so it does
/// nothing for one that it does not need.
pub trait Subscriber: fmt::Debug + Send + Sync {
    /// This happened.
    fn on_event(&self, event: &Event<'_>);
}

/// All subscribers, in the order in which they receive an event.
#[derive(Debug, Clone)]
pub struct Subscribers(Arc<[Arc<dyn Subscriber>]>);

impl Subscribers {
    /// These subscribers.
    #[must_use]
    pub fn new(subscribers: impl Into<Arc<[Arc<dyn Subscriber>]>>) -> Self {
        Self(subscribers.into())
    }

    /// Hands the event to each of them.
    pub fn emit(&self, event: &Event<'_>) {
        for subscriber in &*self.0 {
            subscriber.on_event(event);
        }
    }

    /// Receives what the adapter of the IAM with this name observes.
    #[must_use]
    pub fn of_iam(&self, iam: Arc<str>) -> Observer {
        let subscribers = self.clone();
        Arc::new(move |event: &CallEvent<'_>| {
            let (iam, event) = (&*iam, *event);
            subscribers.emit(&Event::Iam { iam, event });
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Counting(AtomicU64);

    impl Subscriber for Counting {
        fn on_event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_exchange_is_handed_to_every_subscriber() {
        let counting = [(); 2].map(|()| Arc::<Counting>::default());
        let subscribers = counting.clone().map(|one| one as Arc<dyn Subscriber>);
        let subscribers = Subscribers::new(subscribers);
        let request = &RequestContext::default();
        let refused = GatewayError::NothingGranted;
        for (result, count) in [
            (Ok(DataSource::Hit), 1),
            (Ok(DataSource::Stale), 2),
            (Ok(DataSource::Miss), 3),
            (Err(&refused), 4),
        ] {
            subscribers.emit(&Event::Exchange {
                request,
                iam: None,
                result,
            });
            for one in &counting {
                assert_eq!(one.0.load(Ordering::Relaxed), count, "{result:?}");
            }
        }
    }
}
