//! Directories by LDAP: OpenLDAP, 389 Directory Server and Active Directory.
//!
//! A login searches the entry with the e-mail address and binds as it on a connection of its own. A directory has no
//! sessions, so one exists only in the gateway's session token. It has the user's id and the time of the last change
//! of the password, and an introspection reads the entry again.

use std::cmp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ldap3::{Scope, ldap_escape};
use secrecy::ExposeSecret as _;

use crate::adapter::{Capabilities, IamAdapter, SessionLocation, SetupError};
use crate::claims::Claims;
use crate::client::tls_config;
use crate::clock::Clock;
use crate::error::{IamError, Misconfiguration, Refusal};
use crate::scope::Permissions;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

mod bind_result;
mod connections;
mod entry;
mod fault;
mod settings;

pub use settings::{Flavour, LdapSettings};

use connections::{Connections, LdapConnection, NO_ATTRIBUTES};
use entry::Entry;

const NAME: &str = "ldap";

/// A section of the settings to start from.
pub(crate) const EXAMPLE: &str = include_str!("ldap/example.toml");

/// The most groups of a user, also those that contain other groups of the user.
const GROUPS_MAX: usize = 1000;

/// How deep groups can be within groups.
const NESTED_MAX: usize = 10;

/// How many groups one search asks about: a filter with all of them could be longer than servers accept.
const GROUPS_AT_ONCE: usize = 50;

/// Matches the members of all groups within a group (`LDAP_MATCHING_RULE_IN_CHAIN`).
const IN_CHAIN: &str = "1.2.840.113556.1.4.1941";

/// The only values of these attributes.
const MEMBER_OF: &str = "memberOf";

/// Stands for the time of the last change if the password was never changed.
const NEVER_CHANGED: &str = "never";

/// A directory, with all servers that have its entries.
#[derive(Debug)]
struct Ldap {
    connections: Connections,
    settings: Arc<LdapSettings>,
    clock: Arc<dyn Clock>,
    /// Whether the schema has the attributes of the settings: it is long, so it is read once.
    has_checked_schema: AtomicBool,
    /// Whether the service account saw no users when that was last looked up.
    is_blind: AtomicBool,
}

/// What an entry says about a session.
enum Statement {
    Is(Introspection),
    /// The server may lag behind: it has an older password than that of the login. What counts if no other server is
    /// certain.
    Uncertain(Result<Introspection, IamError>),
    /// It has no such entry, may lag behind, or the service account has lost its rights.
    NoEntry,
}

impl Ldap {
    /// Reads the certificates that the settings name, and does not connect.
    fn new(
        section: &str,
        settings: &LdapSettings,
        connect_deadline: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let tls = tls_config(settings.ca_file.as_deref(), None);
        let mut tls = tls.map_err(|error| error.of_section(section))?;
        // Not HTTP.
        tls.alpn_protocols.clear();
        let settings = Arc::new(settings.clone());
        Ok(Self {
            connections: Connections::new(Arc::clone(&settings), tls, connect_deadline),
            settings,
            clock,
            has_checked_schema: AtomicBool::new(false),
            is_blind: AtomicBool::new(false),
        })
    }

    /// The attributes that are read of a user.
    fn attributes(&self) -> Vec<&str> {
        let schema = self.settings.schema();
        let claims = self.settings.claims.iter();
        let member_of = self.settings.groups_base.is_none().then_some(MEMBER_OF);
        [schema.subject_attribute, schema.password_changed_attribute]
            .into_iter()
            .chain(schema.state_attributes.iter().copied())
            .chain(member_of)
            .chain(claims.map(|(_, source)| source.member.as_str()))
            .collect()
    }

    /// The one user with this value of an attribute, which is escaped already.
    async fn user(
        &self,
        connection: &mut LdapConnection,
        attribute: &str,
        value: &str,
    ) -> Result<Option<Entry>, IamError> {
        let filter = format!(
            "(&{}({attribute}={value}))",
            self.settings.schema().users_filter
        );
        let base = &self.settings.users_base;
        let attributes = self.attributes();
        let found = connection.search(base, Scope::Subtree, &filter, &attributes, 1);
        let found = found.await.map_err(|fault| match fault {
            IamError::UnreadableSession(_) => IamError::UnreadableSession(
                format!("more than 1 entries match users_filter and have the same {attribute}")
                    .into(),
            ),
            fault => fault,
        });
        Ok(found?.into_iter().next())
    }

    /// The groups of a user, by their names in the directory.
    async fn groups(
        &self,
        connection: &mut LdapConnection,
        user: &Entry,
    ) -> Result<Vec<String>, IamError> {
        let Some(base) = &self.settings.groups_base else {
            return user.member_of();
        };
        let (rule, depth) = match self.settings.flavour {
            Flavour::ActiveDirectory => (format!(":{IN_CHAIN}:"), 1),
            // The last search finds whether other groups contain the outermost ones that are allowed.
            Flavour::OpenLdap | Flavour::DirectoryServer389 => (String::new(), NESTED_MAX + 1),
        };
        let mut groups: Vec<String> = Vec::new();
        let mut members = vec![user.dn.clone()];
        for _ in 0..depth {
            let mut containing = Vec::new();
            for some in members.chunks(GROUPS_AT_ONCE) {
                let some = some
                    .iter()
                    .map(|dn| format!("(member{rule}={})", ldap_escape(dn.as_str())));
                let filter = format!(
                    "(&{}(|{}))",
                    self.settings.schema().groups_filter,
                    some.collect::<String>()
                );
                let found = self
                    .connections
                    .search_long(connection, base, &filter, GROUPS_MAX)
                    .await?;
                containing.extend(found.into_iter().map(|group| group.dn));
            }
            containing.retain(|dn| !groups.contains(dn));
            containing.sort_unstable();
            containing.dedup();
            if groups.len() + containing.len() > GROUPS_MAX {
                return Err(too_many_groups());
            }
            groups.extend_from_slice(&containing);
            members = containing;
            if members.is_empty() {
                if groups.is_empty() {
                    // Some servers find nothing below an entry that the service account may not see, without an error.
                    self.sees(connection, "groups_base", base).await?;
                }
                return Ok(groups);
            }
        }
        if depth > NESTED_MAX {
            let problem = format!("groups within groups are deeper than {NESTED_MAX}");
            return Err(IamError::UnreadableSession(problem.into()));
        }
        Ok(groups)
    }

    fn claims(&self, user: &Entry) -> Result<Claims, IamError> {
        let claims = &self.settings.claims;
        claims.read_with(|source| user.claim(source))
    }

    async fn log_in(&self, credentials: &Credentials) -> Result<Authenticated, IamError> {
        let mut connection = self.connections.shared().await?;
        let (attribute, email) = (
            self.settings.schema().email_attribute,
            ldap_escape(credentials.email()),
        );
        let user = self.user(&mut connection, attribute, &email).await?;
        let Some(user) = user else {
            // So that an unknown user takes as long as a wrong password, but for what the server does with a password.
            let nowhere = format!("cn=unknown,{}", self.settings.users_base);
            let bound = self
                .connections
                .bind(&connection, &nowhere, credentials.password());
            bound.await?;
            // That is not looked up here: the time must not show whether it is a user.
            if self.is_blind.load(Ordering::Relaxed) {
                return Err(IamError::misconfigured(
                    Misconfiguration::Other,
                    "the service account sees no users: check its rights",
                ));
            }
            return Err(IamError::Refused(Refusal::InvalidCredentials));
        };
        let flavour = self.settings.flavour;
        let refusal = user.refusal(flavour, self.clock.now().unix)?;
        let bound = self
            .connections
            .bind(&connection, &user.dn, credentials.password());
        let is_disabled = refusal == Some(Refusal::Disabled);
        bind_result::check(&bound.await?, flavour, is_disabled)?;
        if let Some(refusal) = refusal {
            return Err(IamError::Refused(refusal));
        }
        let changed = user.text(self.settings.schema().password_changed_attribute);
        Ok(Authenticated {
            session: UpstreamSession {
                subject: user.subject(self.settings.schema().subject_attribute, flavour)?,
                // There are no sessions, and so no ids of them.
                id: String::new(),
                secret: changed.unwrap_or(NEVER_CHANGED).into(),
            },
            expires_in: None,
            permissions: Some(Permissions::default()),
            groups: Some(self.groups(&mut connection, &user).await?),
            claims: self.claims(&user)?,
        })
    }

    /// What this server states about a session.
    async fn statement(
        &self,
        connection: &mut LdapConnection,
        session: &UpstreamSession,
    ) -> Result<Statement, IamError> {
        let (attribute, subject) = (
            self.settings.schema().subject_attribute,
            session.subject.as_str(),
        );
        let value = if self.settings.flavour.has_binary_subject(attribute) {
            let foreign = || IamError::UnreadableSession("the subject is no objectGUID".into());
            entry::guid_filter(subject).ok_or_else(foreign)?
        } else {
            ldap_escape(subject).into_owned()
        };
        let Some(user) = self.user(connection, attribute, &value).await? else {
            return Ok(Statement::NoEntry);
        };
        let refusal = user.refusal(self.settings.flavour, self.clock.now().unix)?;
        let changed = user.text(self.settings.schema().password_changed_attribute);
        let at_login = Some(session.secret.expose_secret()).filter(|at| *at != NEVER_CHANGED);
        Ok(match (entry::compare(changed, at_login), refusal) {
            // Perhaps it was refused until the password was changed. Active Directory has no time of a password that must
            // be changed.
            (cmp::Ordering::Less, Some(_)) => Statement::Uncertain(Ok(Introspection::Inactive)),
            (cmp::Ordering::Less, None) => Statement::Uncertain(Err(IamError::UnreadableSession(
                "the password of the entry is older than the session: does the server lag behind?"
                    .into(),
            ))),
            (cmp::Ordering::Greater, _) | (cmp::Ordering::Equal, Some(_)) => {
                Statement::Is(Introspection::Inactive)
            }
            (cmp::Ordering::Equal, None) => Statement::Is(Introspection::Active {
                subject: user.subject(attribute, self.settings.flavour)?,
                permissions: Permissions::default(),
                groups: Some(self.groups(connection, &user).await?),
                claims: self.claims(&user)?,
            }),
        })
    }

    /// Fails unless the service account sees this entry. Servers without the right respond with an error, or with
    /// nothing.
    async fn sees(
        &self,
        connection: &mut LdapConnection,
        key: &str,
        base: &str,
    ) -> Result<(), IamError> {
        let seen = connection
            .search(base, Scope::Base, "(objectClass=*)", NO_ATTRIBUTES, 1)
            .await;
        match seen {
            Ok(entries) if !entries.is_empty() => Ok(()),
            Ok(_)
            | Err(IamError::Misconfigured {
                what: Misconfiguration::Other,
                ..
            }) => Err(IamError::misconfigured(
                Misconfiguration::Other,
                format!(
                    "the service account does not see the entry: check {key}, the rights of bind_dn, and whether its \
                     password must be changed"
                ),
            )),
            Err(fault) => Err(fault),
        }
    }

    /// Fails unless the service account sees users.
    async fn sees_users(&self, connection: &mut LdapConnection) -> Result<(), IamError> {
        let base = &self.settings.users_base;
        let seen = match self.sees(connection, "users_base", base).await {
            Ok(()) => self.finds_users(connection).await,
            fault => fault,
        };
        match &seen {
            Ok(()) => self.is_blind.store(false, Ordering::Relaxed),
            Err(IamError::Misconfigured { .. }) => self.is_blind.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
        seen
    }

    /// Fails unless some user has the attributes that a login needs, and the service account sees them.
    async fn finds_users(&self, connection: &mut LdapConnection) -> Result<(), IamError> {
        let schema = self.settings.schema();
        for (key, attribute) in [
            ("users_filter", "objectClass"),
            ("email_attribute", schema.email_attribute),
            ("subject_attribute", schema.subject_attribute),
        ] {
            let filter = format!("(&{}({attribute}=*))", schema.users_filter);
            if !connection.has(&self.settings.users_base, &filter).await? {
                return Err(IamError::misconfigured(
                    Misconfiguration::Other,
                    format!(
                        "no user with the attribute {attribute} is found below users_base: check {key} and the \
                         rights of bind_dn"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Fails if entries have no attribute of that name for the time of the last change of the password, or for a claim.
    /// That no user has it is no fault: perhaps no password was changed.
    async fn knows_attributes(&self, connection: &mut LdapConnection) -> Result<(), IamError> {
        if self.has_checked_schema.load(Ordering::Relaxed) {
            return Ok(());
        }
        let changed = self.settings.schema().password_changed_attribute;
        let claims = self.settings.claims.iter();
        let claims = claims.map(|(_, source)| source.member.as_str());
        let names: Vec<_> = [changed].into_iter().chain(claims).collect();
        if let Some(attribute) = connection.undefined(&names).await? {
            let key = if attribute == changed {
                "password_changed_attribute"
            } else {
                "claims"
            };
            let problem =
                format!("the schema has no attribute whose first name is {attribute}: check {key}");
            return Err(IamError::misconfigured(Misconfiguration::Other, problem));
        }
        self.has_checked_schema.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn too_many_groups() -> IamError {
    IamError::UnreadableSession(format!("the user is in more than {GROUPS_MAX} groups").into())
}

#[async_trait]
impl IamAdapter for Ldap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sessions: SessionLocation::SessionToken,
            back_channel_logout: false,
            one_time_password: false,
            ..Capabilities::FULL
        }
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        _: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        // With an empty password a bind is anonymous and succeeds (RFC 4513 section 5.1.2).
        if credentials.has_empty_password() {
            return Err(IamError::Refused(Refusal::InvalidCredentials));
        }
        self.log_in(credentials).await
    }

    /// One server that lags behind ends no session: another one is asked too.
    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let mut connection = self.connections.shared().await?;
        let first = match self.statement(&mut connection, session).await? {
            Statement::Is(introspection) => return Ok(introspection),
            uncertain => uncertain,
        };
        let other = self.connections.another(connection.server).await;
        let mut other = other.transpose()?;
        let second = match &mut other {
            Some(other) => self.statement(other, session).await?,
            None => Statement::NoEntry,
        };
        match (first, second) {
            (_, Statement::Is(introspection)) => Ok(introspection),
            (Statement::Uncertain(stated), _) | (_, Statement::Uncertain(stated)) => stated,
            (_, Statement::NoEntry) => {
                for connection in [Some(&mut connection), other.as_mut()]
                    .into_iter()
                    .flatten()
                {
                    self.sees_users(connection).await?;
                }
                Ok(Introspection::Inactive)
            }
        }
    }

    /// There is nothing to end at the directory.
    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        Ok(())
    }

    async fn probe(&self) -> Result<(), IamError> {
        let mut connection = self.connections.shared().await?;
        self.sees_users(&mut connection).await?;
        self.knows_attributes(&mut connection).await?;
        match &self.settings.groups_base {
            Some(base) => self.sees(&mut connection, "groups_base", base).await,
            None => Ok(()),
        }
    }
}
