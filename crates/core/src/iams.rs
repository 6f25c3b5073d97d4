//! The IAMs of a gateway, and which of them serves a login, a session or a logout token.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::logout_token::{self, InvalidLogoutToken};
use iam_adapters::{AllowedScopes, ClaimSources, IamAdapter, LogoutTokens, Moment};

use super::account::normalized_domain;
use super::error::GatewayError;
use super::introspection_cache::{CacheUsage, Caches, Freshness, IntrospectionCache};
use super::login_limiter::Rate;
use super::replica_state::ReplicaState;
use super::upstream_logouts::UpstreamLogouts;

/// Logout tokens of one IAM in a second: those of a large realm, and so few that an IAM which sends tokens of made-up sessions
/// takes minutes to fill its share of the table of revocations.
const LOGOUT_TOKENS_PER_SECOND: NonZeroU32 = NonZeroU32::MIN.saturating_add(599);

/// The settings of one IAM, beside those of its adapter.
#[derive(Debug, Clone)]
pub struct IamPolicy {
    /// Logins with an address of one of these domains go to this IAM. In lower case.
    pub domains: Vec<String>,
    /// Whether logins with an address of a domain that no IAM has go to this IAM.
    pub is_default: bool,
    /// Whether sessions can begin. Otherwise the IAM serves only the sessions that exist.
    pub allows_logins: bool,
    /// What precedes the IAM's subject in `sub`, which is unique only within one IAM.
    pub subject_prefix: String,
    /// The most that users of this IAM can get, whatever it grants; `None`: no bound.
    pub allowed_scopes: Option<AllowedScopes>,
    /// How old cached data may be.
    pub freshness: Freshness,
    /// The longest lifetime of a session. That of the IAM may be shorter.
    pub session_max_lifetime: Duration,
    /// Logins that reach the IAM from this replica in a second; `None`: no bound.
    pub logins_per_second: Option<NonZeroU32>,
    /// The claims of access tokens that the IAM states.
    pub claims: ClaimSources,
}

/// One IAM, before it is part of a gateway.
#[derive(Debug, Clone)]
pub struct IamParts {
    /// The name in the configuration.
    pub name: Arc<str>,
    /// The adapter, with deadlines, limits and circuit breakers.
    pub adapter: Arc<dyn IamAdapter>,
    /// The settings.
    pub policy: IamPolicy,
}

/// One IAM of a gateway, with all that the gateway stores about it.
#[derive(derive_more::Debug)]
#[debug("Iam {{ name: {name:?}, adapter: {adapter:?}, policy: {policy:?}, .. }}")]
pub struct Iam {
    pub(super) name: Arc<str>,
    // The adapter's name and the IAM's issuer do not change.
    pub(super) kind: &'static str,
    pub(super) issuer: Box<str>,
    /// The adapter, with deadlines, limits and circuit breakers.
    pub adapter: Arc<dyn IamAdapter>,
    /// The settings.
    pub policy: IamPolicy,
    pub(super) introspection_cache: Arc<IntrospectionCache>,
    /// Ends sessions at the IAM, and finishes failed logouts.
    pub upstream_logouts: Arc<UpstreamLogouts>,
    /// `None`: no bound.
    pub(super) rate: Option<Rate>,
    /// `None`: the IAM sends no logout tokens.
    logout_tokens: Option<LogoutTokens>,
    /// Of its logout tokens: for a second, and for the lifetime of their revocations.
    logout_token_rates: [Rate; 2],
}

impl Iam {
    /// The name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The `sub` of the IAM's subject.
    pub(super) fn sub<'s>(&self, subject: &'s str) -> Cow<'s, str> {
        match &*self.policy.subject_prefix {
            "" => Cow::Borrowed(subject),
            prefix => Cow::Owned([prefix, subject].concat()),
        }
    }

    /// The IAM's subject of a `sub`, if it can be one of this IAM.
    pub(super) fn subject_of<'s>(&self, sub: &'s str) -> Option<&'s str> {
        let subject = sub.strip_prefix(&*self.policy.subject_prefix)?;
        (!subject.is_empty()).then_some(subject)
    }

    /// Whether the IAM may end sessions by one more logout token. Counts it.
    pub(super) fn admit_logout_token(&self, now: Moment) -> bool {
        let mut rates = self.logout_token_rates.iter();
        rates.all(|rate| rate.admits(now.monotonic))
    }

    /// `domain` is in lower case.
    fn has_domain(&self, domain: &str) -> bool {
        self.policy.domains.iter().any(|own| own == domain)
    }
}

/// All IAMs of a gateway. Two of them never have the same issuer.
#[derive(derive_more::Debug)]
#[debug("{all:?}")]
pub struct Iams {
    all: Box<[Iam]>,
    caches: Caches,
}

impl Iams {
    pub(super) fn new(parts: Vec<IamParts>, cache_bytes: u64, replica: &Arc<ReplicaState>) -> Self {
        let freshness: Vec<_> = parts.iter().map(|iam| iam.policy.freshness).collect();
        let caches = Caches::new(cache_bytes, &freshness);
        // All IAMs together have a quarter at once, and another one until the first has expired.
        let share = replica.revocations.capacity() / 4 / parts.len().max(1);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let share = NonZeroU32::new(share).unwrap_or(NonZeroU32::MIN);
        let iams = parts.into_iter().map(|parts| {
            let IamParts {
                name,
                adapter,
                policy,
            } = parts;
            let cache = IntrospectionCache::new(
                Arc::clone(&adapter),
                policy.freshness,
                &policy.claims,
                caches.clone(),
                Arc::clone(replica),
            );
            let upstream_logouts =
                UpstreamLogouts::new(Arc::clone(&name), Arc::clone(&adapter), Arc::clone(replica));
            let clock = Arc::clone(&replica.clock);
            Iam {
                name,
                kind: adapter.name(),
                issuer: adapter.issuer().into(),
                introspection_cache: Arc::new(cache),
                upstream_logouts: Arc::new(upstream_logouts),
                rate: policy.logins_per_second.map(Rate::new),
                logout_tokens: LogoutTokens::of(Arc::clone(&adapter), clock),
                logout_token_rates: [
                    Rate::new(LOGOUT_TOKENS_PER_SECOND),
                    Rate::within(share, policy.session_max_lifetime),
                ],
                adapter,
                policy,
            }
        });
        Self {
            all: iams.collect(),
            caches,
        }
    }

    /// How full the caches are, which all IAMs share.
    #[must_use]
    pub fn cache_usage(&self) -> [CacheUsage; 2] {
        self.caches.usage()
    }

    /// All IAMs.
    pub fn iter(&self) -> impl Iterator<Item = &Iam> {
        self.all.iter()
    }

    /// The name of the IAM to which an event is attributed: this one, or that of the only IAM, also for
    /// an event before the choice of an IAM.
    #[must_use]
    pub fn attributed<'n>(&'n self, chosen: Option<&'n str>) -> Option<&'n str> {
        let only = || match &*self.all {
            [only] => Some(only.name()),
            _ => None,
        };
        chosen.or_else(only)
    }

    /// The one IAM for a login with this e-mail address; `None`: the login is refused. No other IAM
    /// receives the password, so the default IAM does not serve other spellings of the domains of others.
    #[must_use]
    pub fn for_login(&self, email: &str) -> Option<&Iam> {
        let (_, domain) = email.rsplit_once('@')?;
        let domain = domain.to_lowercase();
        let named = || self.iter().filter(|iam| iam.has_domain(&domain));
        let default = || {
            let normalized = normalized_domain(&domain);
            let mut others = self.iter().filter(|iam| !iam.policy.is_default);
            let is_of_another = others.any(|iam| {
                let mut domains = iam.policy.domains.iter();
                domains.any(|own| normalized_domain(own) == normalized)
            });
            let mut iams = self.iter().filter(|_| !is_of_another);
            iams.find(|iam| iam.policy.is_default)
        };
        named()
            .find(|iam| iam.policy.allows_logins)
            .or_else(|| named().next())
            .or_else(default)
            .filter(|iam| iam.policy.allows_logins)
    }

    /// Whether a login with this e-mail address can have a one-time password: what the IAM of its domain
    /// states. An address without an IAM is answered as at one that takes it, if there is one.
    #[must_use]
    pub fn take_otp(&self, email: &str) -> bool {
        let takes_otp = |iam: &Iam| iam.adapter.capabilities().one_time_password;
        self.for_login(email).map_or_else(
            || (self.iter()).any(|iam| iam.policy.allows_logins && takes_otp(iam)),
            takes_otp,
        )
    }

    /// The IAM of a session, by the adapter and the issuer that its token contains.
    pub(super) fn for_session(&self, kind: &str, issuer: &str) -> Option<&Iam> {
        self.iter()
            .find(|iam| *iam.issuer == *issuer && iam.kind == kind)
    }

    /// What verifies a logout token, and the IAM that it may come from.
    ///
    /// # Errors
    ///
    /// [`GatewayError::NoLogoutTokens`] or [`GatewayError::InvalidLogoutToken`].
    pub(super) fn for_logout_token(
        &self,
        token: &str,
    ) -> Result<(&Iam, &LogoutTokens), GatewayError> {
        let senders = || {
            self.iter()
                .filter_map(|iam| Some((iam, iam.logout_tokens.as_ref()?)))
        };
        if senders().next().is_none() {
            return Err(GatewayError::NoLogoutTokens);
        }
        let issuer = logout_token::unverified_issuer(token);
        let issuer = issuer.map_err(GatewayError::InvalidLogoutToken)?;
        senders()
            .find(|(iam, _)| *iam.issuer == *issuer)
            .ok_or(GatewayError::InvalidLogoutToken(InvalidLogoutToken::Issuer))
    }

    /// The rates of the IAMs that allow logins.
    pub(super) fn rates(&self) -> impl Iterator<Item = Option<&Rate>> {
        let open = self.iter().filter(|iam| iam.policy.allows_logins);
        open.map(|iam| iam.rate.as_ref())
    }
}
