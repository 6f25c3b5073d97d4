//! A real directory, its administrator, and the adapter for it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use iam_adapters::claims::ClaimType;
use iam_adapters::clock::SystemClock;
use iam_adapters::ldap::LdapSettings;
use iam_adapters::permission_source::{
    GroupRule, GroupTable, PermissionSource, WithPermissionSource,
};
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{
    ClaimSources, Clock, IamAdapter, IamError, Permission, Permissions, Refusal, Subject,
    UpstreamSession,
};
use iam_conformance::{Account, AccountState, ClaimMembers, Fixture};
use ldap3::{LdapConnAsync, LdapConnSettings, Mod, Scope, SearchEntry, dn_escape};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, from_value, json};
use test_support::json::with;
use test_support::resilient::no_observer;
use test_support::suite::unique_name;
use test_support::wait::until;
use tokio::sync::OnceCell;

use crate::fixture::log_in;
use crate::launched::Launched;

/// Attributes of every user.
pub(super) const DISPLAY_NAME: &str = "Zoë O'Neil, R&D";
const DEPARTMENTS: [&str; 2] = ["beta gamma", "ümlaut"];

/// A server that a launcher starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    OpenLdap,
    DirectoryServer389,
    Samba,
}

impl Kind {
    const fn launcher(self) -> &'static str {
        match self {
            Self::OpenLdap => "SLAPD_LAUNCHER",
            Self::DirectoryServer389 => "DS389_LAUNCHER",
            Self::Samba => "SAMBA_LAUNCHER",
        }
    }

    const fn subject_attribute(self) -> &'static str {
        match self {
            Self::OpenLdap => "entryUUID",
            Self::DirectoryServer389 => "nsUniqueId",
            Self::Samba => "objectGUID",
        }
    }
}

/// What the launcher prints.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Facts {
    flavour: String,
    pub(super) url: String,
    pub(super) plain_url: String,
    pub(super) socket_url: String,
    pub(super) ca_file: String,
    pub(super) base: String,
    admin_dn: String,
    admin_password: String,
    pub(super) bind_dn: String,
    pub(super) bind_password: String,
    pub(super) home: String,
    pid: u32,
}

/// A running server. It is killed when it is dropped.
pub(super) struct Directory {
    pub(super) kind: Kind,
    pub(super) facts: Facts,
    adapter: Arc<dyn IamAdapter>,
    source: Arc<ArcSwap<PermissionSource>>,
    groups: Mutex<BTreeSet<String>>,
    admin: OnceCell<ldap3::Ldap>,
    process: Mutex<Launched>,
}

impl Directory {
    pub(super) async fn start(kind: Kind) -> Self {
        Self::start_with(kind, Vec::new()).await
    }

    /// Another server with the same entries, and their ids.
    pub(super) async fn copy(&self) -> Self {
        let copied = vec!["--copy-of".to_owned(), self.facts.home.clone()];
        Self::start_with(self.kind, copied).await
    }

    async fn start_with(kind: Kind, arguments: Vec<String>) -> Self {
        let (process, facts) = Launched::start::<Facts>(kind.launcher(), arguments).await;
        let source = PermissionSource::Groups(GroupTable::default());
        let source = Arc::new(ArcSwap::from_pointee(source));
        Self {
            kind,
            adapter: with_groups(&facts, &source, &json!({})),
            facts,
            source,
            groups: Mutex::default(),
            admin: OnceCell::new(),
            process: Mutex::new(process),
        }
    }

    /// The configuration file of a gateway for this directory, in which the members of a group have the scope of its
    /// name.
    pub(super) fn configuration(&self, group: &str) -> String {
        let settings = json!({
            "iam": {"ldap": section(&self.facts, &json!({}))},
            "permissions": {
                "source": "groups",
                "groups": [{"group": self.group_dn(group), "scopes": [group]}],
            },
        });
        toml::to_string(&settings).expect("TOML")
    }

    /// Lets the server respond to nothing; returns when all its threads have stopped, because a signal is
    /// delivered later.
    pub(super) async fn pause(&self) {
        self.signal("-STOP");
        let threads = format!("/proc/{}/task", self.facts.pid);
        until("the threads to stop", async || {
            let threads = fs::read_dir(&threads).expect("a process");
            threads.flatten().all(|thread| {
                // The state is after the program's name in parentheses. A thread may end meanwhile.
                fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| {
                    stat.rsplit(") ")
                        .next()
                        .is_some_and(|rest| rest.starts_with('T'))
                })
            })
        })
        .await;
    }

    /// Lets it respond to everything that was sent in the meantime.
    pub(super) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.facts.pid.to_string();
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.expect("kill").success());
    }

    pub(super) fn kill(&self) {
        self.process.lock().expect("the process").kill();
    }

    /// Starts it at the same address with the same entries, after it was killed.
    pub(super) async fn start_again(&self) {
        let port = self.facts.plain_url.rsplit(':').next().expect("a port");
        let arguments = ["--home", &self.facts.home, "--http-port", port];
        let arguments = arguments.map(str::to_owned).to_vec();
        let (process, _) = Launched::start::<Facts>(self.kind.launcher(), arguments).await;
        *self.process.lock().expect("the process") = process;
    }

    /// The adapter with more settings, without permissions.
    pub(super) fn bare(&self, more: &Value) -> Arc<dyn IamAdapter> {
        adapter(&self.facts, more)
    }

    /// The settings with the authorities of this server and of another one.
    pub(super) fn trusting(&self, other: &Self, mut settings: Value) -> Value {
        let both = format!("{}/both.pem", other.facts.home);
        let pem = |facts: &Facts| fs::read_to_string(&facts.ca_file).expect("a certificate");
        fs::write(&both, pem(&self.facts) + &pem(&other.facts)).expect("written");
        settings["ca_file"] = both.into();
        settings
    }

    /// The address of the server by a name that is not in its certificate. Samba listens at one address only.
    pub(super) fn unnamed_url(&self) -> Option<String> {
        match self.kind {
            Kind::OpenLdap => Some(self.facts.url.replace("127.0.0.1", "127.0.0.2")),
            Kind::DirectoryServer389 => Some(self.facts.url.replace("localhost", "127.0.0.1")),
            Kind::Samba => None,
        }
    }

    pub(super) fn user_dn(&self, email: &str) -> String {
        match self.kind {
            Kind::OpenLdap | Kind::DirectoryServer389 => {
                format!("uid={},ou=people,{}", dn_escape(email), self.facts.base)
            }
            Kind::Samba => format!(
                "CN={},OU=people,{}",
                dn_escape(local_part(email)),
                self.facts.base
            ),
        }
    }

    pub(super) fn group_dn(&self, name: &str) -> String {
        let (cn, ou) = match self.kind {
            Kind::OpenLdap | Kind::DirectoryServer389 => ("cn", "ou"),
            Kind::Samba => ("CN", "OU"),
        };
        format!("{cn}={},{ou}=groups,{}", dn_escape(name), self.facts.base)
    }

    fn trusting_itself(&self) -> LdapConnSettings {
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(&self.facts.ca_file).expect("a file");
        for certificate in certificates {
            roots.add(certificate.expect("PEM")).expect("a certificate");
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        LdapConnSettings::new().set_config(Arc::new(tls))
    }

    /// The connection of the administrator.
    pub(super) async fn admin(&self) -> ldap3::Ldap {
        self.admin
            .get_or_init(|| self.administrator())
            .await
            .clone()
    }

    async fn administrator(&self) -> ldap3::Ldap {
        let (connection, mut ldap) =
            LdapConnAsync::with_settings(self.trusting_itself(), &self.facts.url)
                .await
                .expect("a connection");
        ldap3::drive!(connection);
        let bound = ldap.simple_bind(&self.facts.admin_dn, &self.facts.admin_password);
        bound.await.expect("a response").success().expect("bound");
        ldap
    }

    pub(super) async fn add(&self, dn: &str, attributes: &[(&str, &[&str])]) {
        let attributes = attributes.iter();
        let attributes = attributes.map(|(name, values)| (*name, values.iter().copied().collect()));
        let added = self.admin().await.add(dn, attributes.collect()).await;
        added.expect("a response").success().expect("added");
    }

    pub(super) async fn replace(&self, dn: &str, attribute: &str, values: &[&str]) {
        let values = values.iter().copied().collect();
        let replacements = vec![Mod::Replace(attribute, values)];
        let changed = self.admin().await.modify(dn, replacements).await;
        changed.expect("a response").success().expect("changed");
    }

    /// The values of an attribute of an entry.
    pub(super) async fn values(&self, dn: &str, attribute: &str) -> Vec<String> {
        let mut admin = self.admin().await;
        let found = admin.search(dn, Scope::Base, "(objectClass=*)", vec![attribute]);
        let (entries, _) = found.await.expect("a response").success().expect("found");
        let entry = entries.into_iter().next().expect("an entry");
        let attributes = SearchEntry::construct(entry).attrs.into_iter();
        let mut found = attributes.filter(|(name, _)| name.eq_ignore_ascii_case(attribute));
        found.next().map_or_else(Vec::new, |(_, values)| values)
    }

    /// The id of a user, as the adapter states it.
    async fn subject(&self, dn: &str) -> Subject {
        let id = match self.kind {
            Kind::OpenLdap | Kind::DirectoryServer389 => self
                .values(dn, self.kind.subject_attribute())
                .await
                .pop()
                .expect("an id"),
            Kind::Samba => {
                let mut admin = self.admin().await;
                let found = admin.search(dn, Scope::Base, "(objectClass=*)", vec!["objectGUID"]);
                let (entries, _) = found.await.expect("a response").success().expect("found");
                let entry = SearchEntry::construct(entries.into_iter().next().expect("an entry"));
                let bytes = match entry.bin_attrs.get("objectGUID") {
                    Some(values) => values[0].clone(),
                    None => entry.attrs["objectGUID"][0].clone().into_bytes(),
                };
                let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
                let digits = order.map(|at| format!("{:02x}", bytes[at])).concat();
                let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]);
                groups.join("-")
            }
        };
        Subject::new(id).expect("a subject")
    }

    /// Three wrong passwords, after which the right one is refused too.
    pub(super) async fn lock_by_wrong_passwords(&self, user: &Account) {
        let adapter = self.bare(&json!({}));
        for _ in 0..3 {
            let refused = log_in(&*adapter, &user.email, "wrong").await.map(drop);
            assert_eq!(refused, Err(IamError::Refused(Refusal::InvalidCredentials)));
        }
        let refused = log_in(&*adapter, &user.email, user.password.clone()).await;
        assert_eq!(refused.map(drop), Err(IamError::Refused(Refusal::Locked)));
    }

    /// Adds a group with members to those that have the scope of their name.
    pub(super) async fn create_group(&self, name: &str) {
        if !self
            .groups
            .lock()
            .expect("the groups")
            .insert(name.to_owned())
        {
            return;
        }
        // A group of names needs a member.
        let account = format!("g-{:.16}", unique_name());
        let attributes: &[(&str, &str)] = match self.kind {
            Kind::OpenLdap | Kind::DirectoryServer389 => &[
                ("objectClass", "groupOfNames"),
                ("cn", name),
                ("member", &self.facts.bind_dn),
            ],
            Kind::Samba => &[("objectClass", "group"), ("sAMAccountName", &account)],
        };
        let attributes = attributes.iter();
        let attributes = attributes.map(|(name, value)| (*name, HashSet::from([*value])));
        let added = self
            .admin()
            .await
            .add(&self.group_dn(name), attributes.collect())
            .await;
        let result = added.expect("a response").rc;
        // 68: it is one of those that every directory has.
        assert!(matches!(result, 0 | 68), "{result}");
        let groups = self.groups.lock().expect("the groups").clone();
        let rules = groups.into_iter().map(|name| GroupRule {
            iam: None,
            group: self.group_dn(&name),
            scopes: vec![name],
        });
        let table = GroupTable::try_from(rules.collect::<Vec<_>>()).expect("a table");
        self.source.store(Arc::new(PermissionSource::Groups(table)));
    }

    pub(super) async fn change_members(&self, group: &str, dn: &str, is_member: bool) {
        let dn = HashSet::from([dn]);
        let change = if is_member {
            Mod::Add("member", dn)
        } else {
            Mod::Delete("member", dn)
        };
        let changed = self
            .admin()
            .await
            .modify(&self.group_dn(group), vec![change])
            .await;
        changed.expect("a response").success().expect("changed");
    }
}

/// The homes of all tests together would fill the disk.
impl Drop for Directory {
    fn drop(&mut self) {
        self.kill();
        fs::remove_dir_all(&self.facts.home).expect("removed");
    }
}

/// The section `[iam.ldap]`.
fn section(facts: &Facts, more: &Value) -> Value {
    let section = json!({
        "urls": [facts.url],
        "flavour": facts.flavour,
        "issuer": "directory.test",
        "ca_file": facts.ca_file,
        "bind_dn": facts.bind_dn,
        "bind_password": facts.bind_password,
        "users_base": format!("OU=people,{}", facts.base),
    });
    with(section, more)
}

fn adapter(facts: &Facts, more: &Value) -> Arc<dyn IamAdapter> {
    let clock = Arc::new(SystemClock::default());
    let settings: LdapSettings = from_value(section(facts, more)).expect("settings");
    let adapter = settings.connect("iam.ldap", clock, Duration::from_secs(5), None);
    adapter.expect("usable settings")
}

fn with_groups(
    facts: &Facts,
    source: &Arc<ArcSwap<PermissionSource>>,
    more: &Value,
) -> Arc<dyn IamAdapter> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let source = Arc::clone(source);
    Arc::new(WithPermissionSource::new(
        &"ldap".into(),
        adapter(facts, more),
        source,
        &clock,
        &no_observer(),
    ))
}

#[async_trait]
impl Fixture for Directory {
    fn adapter(&self) -> Arc<dyn IamAdapter> {
        Arc::clone(&self.adapter)
    }

    fn account_states(&self) -> &[AccountState] {
        &[
            AccountState::Disabled,
            AccountState::Locked,
            AccountState::Incomplete,
        ]
    }

    fn adapter_with_claims(&self, claims: ClaimSources) -> Arc<dyn IamAdapter> {
        with_groups(&self.facts, &self.source, &json!({"claims": claims}))
    }

    /// All values of a directory are texts, so a text is the wrong type of none.
    fn claim_members(&self) -> ClaimMembers {
        ClaimMembers::Fixed(&[
            ("displayName", ClaimType::Text),
            ("departmentNumber", ClaimType::ListOfTexts),
        ])
    }

    async fn introspection_response(&self, _: &UpstreamSession) -> Value {
        json!({"displayName": DISPLAY_NAME, "departmentNumber": DEPARTMENTS})
    }

    async fn create_user(
        &self,
        email: &str,
        password: &SecretString,
        permissions: &Permissions,
    ) -> Subject {
        let (dn, name) = (self.user_dn(email), local_part(email));
        let password = password.expose_secret();
        match self.kind {
            Kind::OpenLdap | Kind::DirectoryServer389 => {
                let attributes: [(&str, &[&str]); 8] = [
                    ("objectClass", &["inetOrgPerson"]),
                    ("uid", &[email]),
                    ("cn", &["A user"]),
                    ("sn", &["user"]),
                    ("mail", &[email]),
                    ("userPassword", &[password]),
                    ("displayName", &[DISPLAY_NAME]),
                    ("departmentNumber", &DEPARTMENTS),
                ];
                self.add(&dn, &attributes).await;
            }
            Kind::Samba => {
                let account = format!("{name:.20}");
                let attributes: [(&str, &[&str]); 7] = [
                    ("objectClass", &["user"]),
                    ("sAMAccountName", &[&account]),
                    ("userPrincipalName", &[email]),
                    ("mail", &[email]),
                    ("displayName", &[DISPLAY_NAME]),
                    ("departmentNumber", &DEPARTMENTS),
                    ("userAccountControl", &["544"]),
                ];
                self.add(&dn, &attributes).await;
                self.set_unicode_password(&dn, password).await;
                self.replace(&dn, "userAccountControl", &["512"]).await;
            }
        }
        for permission in permissions.iter() {
            self.create_group(permission.as_str()).await;
            self.change_members(permission.as_str(), &dn, true).await;
        }
        self.subject(&dn).await
    }

    async fn delete_user(&self, user: &Account) {
        let deleted = self.admin().await.delete(&self.user_dn(&user.email)).await;
        deleted.expect("a response").success().expect("deleted");
    }

    /// The policy of OpenLDAP makes users change a password that an administrator sets.
    async fn set_password(&self, user: &Account, password: &SecretString) {
        let dn = self.user_dn(&user.email);
        match self.kind {
            Kind::OpenLdap => {
                self.replace(&dn, "userPassword", &[password.expose_secret()])
                    .await;
                self.replace(&dn, "pwdReset", &["FALSE"]).await;
            }
            // The time of a change is in seconds. A second change in one second is not seen.
            Kind::DirectoryServer389 => {
                let before = self.values(&dn, "pwdUpdateTime").await;
                loop {
                    self.replace(&dn, "userPassword", &[password.expose_secret()])
                        .await;
                    if self.values(&dn, "pwdUpdateTime").await != before {
                        return;
                    }
                }
            }
            Kind::Samba => {
                self.set_unicode_password(&dn, password.expose_secret())
                    .await;
            }
        }
    }

    async fn set_permissions(&self, user: &Account, permissions: &Permissions) {
        let dn = self.user_dn(&user.email);
        let names: Vec<_> = permissions.iter().map(Permission::as_str).collect();
        for name in &names {
            self.create_group(name).await;
        }
        let member_of = self.values(&dn, "memberOf").await;
        let groups = self.groups.lock().expect("the groups").clone();
        for group in groups {
            let group_dn = self.group_dn(&group);
            let is_member = member_of.contains(&group_dn);
            let should_be = names.contains(&group.as_str());
            if is_member != should_be {
                self.change_members(&group, &dn, should_be).await;
            }
        }
    }

    async fn set_state(&self, user: &Account, state: AccountState) {
        let dn = self.user_dn(&user.email);
        let now = jiff::Timestamp::now();
        let time = |time: jiff::Timestamp| time.strftime("%Y%m%d%H%M%SZ").to_string();
        let (now, later) = (time(now), time(now + jiff::SignedDuration::from_hours(1)));
        let changes: Vec<(&str, Vec<&str>)> = match (self.kind, state) {
            (Kind::OpenLdap, AccountState::Active) => {
                vec![
                    ("pwdAccountLockedTime", vec![]),
                    ("pwdReset", vec!["FALSE"]),
                ]
            }
            (Kind::OpenLdap, AccountState::Disabled) => {
                vec![("pwdAccountLockedTime", vec!["000001010000Z"])]
            }
            (Kind::OpenLdap, AccountState::Locked) => vec![("pwdAccountLockedTime", vec![&now])],
            (Kind::OpenLdap, AccountState::Incomplete) => {
                vec![("pwdAccountLockedTime", vec![]), ("pwdReset", vec!["TRUE"])]
            }
            (Kind::DirectoryServer389, AccountState::Active) => vec![
                ("nsAccountLock", vec![]),
                ("accountUnlockTime", vec![]),
                ("passwordRetryCount", vec![]),
                ("passwordExpirationTime", vec![&later]),
            ],
            (Kind::DirectoryServer389, AccountState::Disabled) => {
                vec![("nsAccountLock", vec!["TRUE"])]
            }
            (Kind::DirectoryServer389, AccountState::Locked) => vec![
                ("nsAccountLock", vec![]),
                ("passwordRetryCount", vec!["3"]),
                ("accountUnlockTime", vec![&later]),
            ],
            (Kind::DirectoryServer389, AccountState::Incomplete) => vec![
                ("nsAccountLock", vec![]),
                ("accountUnlockTime", vec![]),
                ("passwordRetryCount", vec![]),
                ("passwordExpirationTime", vec!["19700101000000Z"]),
            ],
            (Kind::Samba, AccountState::Active) => {
                let mut changes = vec![
                    ("userAccountControl", vec!["512"]),
                    ("lockoutTime", vec!["0"]),
                ];
                // Otherwise it would count as a new password.
                if self.values(&dn, "pwdLastSet").await == ["0"] {
                    changes.push(("pwdLastSet", vec!["-1"]));
                }
                changes
            }
            (Kind::Samba, AccountState::Disabled) => vec![("userAccountControl", vec!["514"])],
            (Kind::Samba, AccountState::Incomplete) => {
                vec![
                    ("userAccountControl", vec!["512"]),
                    ("pwdLastSet", vec!["0"]),
                ]
            }
            (Kind::Samba, AccountState::Locked) => {
                Box::pin(self.set_state(user, AccountState::Active)).await;
                return self.lock_by_wrong_passwords(user).await;
            }
        };
        for (attribute, values) in changes {
            self.replace(&dn, attribute, &values).await;
        }
    }

    async fn end_session(&self, _: &Account, _: &UpstreamSession) -> Vec<String> {
        unreachable!("a directory has no sessions")
    }

    /// Only a new password ends all sessions of a user, also if it is the same one.
    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        self.set_password(user, &user.password).await;
        Vec::new()
    }
}

impl Directory {
    /// Active Directory takes a password in quotes, in UTF-16.
    async fn set_unicode_password(&self, dn: &str, password: &str) {
        let quoted = format!("\"{password}\"");
        let value: Vec<u8> = quoted.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let password = vec![Mod::Replace(b"unicodePwd".to_vec(), HashSet::from([value]))];
        let changed = self.admin().await.modify(dn, password).await;
        changed.expect("a response").success().expect("changed");
    }
}

fn local_part(email: &str) -> &str {
    email.split('@').next().expect("a part")
}
