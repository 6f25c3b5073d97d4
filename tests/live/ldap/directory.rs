//! A real OpenLDAP, its administrator, and the adapter for it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::claims::ClaimType;
use iam_adapters::clock::SystemClock;
use iam_adapters::ldap::{Ldap, LdapSettings};
use iam_adapters::permission_source::{
    GroupRule, GroupTable, PermissionSource, WithPermissionSource,
};
use iam_adapters::resilient::Observer;
use iam_adapters::{
    ClaimSources, Clock, IamAdapter, Permission, Permissions, Replaceable, Subject, UpstreamSession,
};
use iam_conformance::{Account, AccountState, ClaimMembers, Fixture};
use ldap3::{LdapConnAsync, LdapConnSettings, Mod, Scope, SearchEntry, dn_escape};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use test_support::resilient::NoObserver;

use crate::launched::Launched;

/// Attributes of every user.
const DISPLAY_NAME: &str = "Zoë O'Neil, R&D";
const DEPARTMENTS: [&str; 2] = ["beta gamma", "ümlaut"];

/// What the launcher prints.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Facts {
    pub(super) url: String,
    pub(super) plain_url: String,
    pub(super) socket_url: String,
    pub(super) ca_file: String,
    pub(super) base: String,
    admin_dn: String,
    admin_password: String,
    pub(super) bind_dn: String,
    pub(super) bind_password: String,
    home: String,
}

/// A running server. It is killed when it is dropped.
pub(super) struct Directory {
    pub(super) facts: Facts,
    adapter: Arc<dyn IamAdapter>,
    source: Arc<Replaceable<PermissionSource>>,
    groups: Mutex<BTreeSet<String>>,
    _process: Launched,
}

impl Directory {
    pub(super) async fn start() -> Self {
        Self::start_with(Vec::new()).await
    }

    /// Another server with the same entries, and their ids.
    pub(super) async fn copy(&self) -> Self {
        Self::start_with(vec!["--copy-of".to_owned(), self.facts.home.clone()]).await
    }

    async fn start_with(arguments: Vec<String>) -> Self {
        let (process, facts) = Launched::start::<Facts>("SLAPD_LAUNCHER", arguments).await;
        let source = PermissionSource::Groups(GroupTable::default());
        let source = Replaceable::shared(Arc::new(source));
        Self {
            adapter: with_groups(&facts, &source, json!({})),
            facts,
            source,
            groups: Mutex::default(),
            _process: process,
        }
    }

    /// The adapter with more settings, without permissions.
    pub(super) fn bare(&self, more: Value) -> Arc<Ldap> {
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

    pub(super) fn user_dn(&self, email: &str) -> String {
        format!("uid={},ou=people,{}", dn_escape(email), self.facts.base)
    }

    fn group_dn(&self, name: &str) -> String {
        format!("cn={},ou=groups,{}", dn_escape(name), self.facts.base)
    }

    /// A connection of the administrator.
    pub(super) async fn admin(&self) -> ldap3::Ldap {
        let (connection, mut ldap) =
            LdapConnAsync::with_settings(LdapConnSettings::new(), &self.facts.plain_url)
                .await
                .expect("a connection");
        ldap3::drive!(connection);
        let bound = ldap.simple_bind(&self.facts.admin_dn, &self.facts.admin_password);
        bound.await.expect("a response").success().expect("bound");
        ldap
    }

    pub(super) async fn add(&self, dn: &str, attributes: &[(&str, &[&str])]) {
        let attributes = attributes.iter();
        let attributes =
            attributes.map(|(name, values)| (*name, HashSet::from_iter(values.iter().copied())));
        let added = self.admin().await.add(dn, attributes.collect()).await;
        added.expect("a response").success().expect("added");
    }

    pub(super) async fn replace(&self, dn: &str, attribute: &str, values: &[&str]) {
        let values = values.iter().copied().collect();
        let changes = vec![Mod::Replace(attribute, values)];
        let changed = self.admin().await.modify(dn, changes).await;
        changed.expect("a response").success().expect("changed");
    }

    /// The values of an attribute of an entry.
    pub(super) async fn values(&self, dn: &str, attribute: &str) -> Vec<String> {
        let mut admin = self.admin().await;
        let found = admin.search(dn, Scope::Base, "(objectClass=*)", vec![attribute]);
        let (entries, _) = found.await.expect("a response").success().expect("found");
        let entry = entries.into_iter().next().expect("an entry");
        let mut attributes = SearchEntry::construct(entry).attrs;
        attributes.remove(attribute).unwrap_or_default()
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
        // A group needs a member. 68: it is one of those that every directory has.
        let attributes = vec![
            ("objectClass", HashSet::from(["groupOfNames"])),
            ("cn", HashSet::from([name])),
            ("member", HashSet::from([self.facts.admin_dn.as_str()])),
        ];
        let added = self
            .admin()
            .await
            .add(&self.group_dn(name), attributes)
            .await;
        let result = added.expect("a response").rc;
        assert!(matches!(result, 0 | 68), "{result}");
        let groups = self.groups.lock().expect("the groups").clone();
        let rules = groups.into_iter().map(|name| GroupRule {
            iam: None,
            group: self.group_dn(&name),
            scopes: vec![name],
        });
        let table = GroupTable::new(rules.collect()).expect("a table");
        self.source
            .replace(Arc::new(PermissionSource::Groups(table)));
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

fn settings(facts: &Facts, more: Value) -> LdapSettings {
    let mut section = json!({
        "urls": [facts.url],
        "issuer": "directory.test",
        "ca_file": facts.ca_file,
        "bind_dn": facts.bind_dn,
        "bind_password": facts.bind_password,
        "users_base": format!("ou=people,{}", facts.base),
    });
    let members = section.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    serde_json::from_value(section).expect("settings")
}

fn adapter(facts: &Facts, more: Value) -> Arc<Ldap> {
    let clock = Arc::new(SystemClock::default());
    let adapter = Ldap::new(&settings(facts, more), Duration::from_secs(5), clock);
    Arc::new(adapter.expect("usable settings"))
}

fn with_groups(
    facts: &Facts,
    source: &Arc<Replaceable<PermissionSource>>,
    more: Value,
) -> Arc<dyn IamAdapter> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let observer: Arc<dyn Observer> = Arc::new(NoObserver);
    let source = Arc::clone(source);
    Arc::new(WithPermissionSource::new(
        &"ldap".into(),
        adapter(facts, more),
        source,
        &clock,
        &observer,
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
        with_groups(&self.facts, &self.source, json!({"claims": claims}))
    }

    /// All values of a directory are texts, so a text is the wrong type of none.
    fn claim_members(&self) -> ClaimMembers {
        ClaimMembers::Fixed(&[
            ("displayName", ClaimType::Text),
            ("departmentNumber", ClaimType::ListOfTexts),
        ])
    }

    async fn set_attributes(&self, _: &Account, _: &Map<String, Value>) {
        unreachable!("the attributes are fixed")
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
        let dn = self.user_dn(email);
        self.add(
            &dn,
            &[
                ("objectClass", &["inetOrgPerson"]),
                ("uid", &[email]),
                ("cn", &["A user"]),
                ("sn", &["user"]),
                ("mail", &[email]),
                ("userPassword", &[password.expose_secret()]),
                ("displayName", &[DISPLAY_NAME]),
                ("departmentNumber", &DEPARTMENTS),
            ],
        )
        .await;
        for permission in permissions.iter() {
            self.create_group(permission.as_str()).await;
            self.change_members(permission.as_str(), &dn, true).await;
        }
        let id = self.values(&dn, "entryUUID").await.pop();
        Subject::new(id.expect("an id")).expect("a subject")
    }

    async fn create_user_with_otp(&self, _: &str, _: &SecretString) -> Subject {
        unreachable!("a directory takes no one-time password")
    }

    fn otp(&self) -> SecretString {
        unreachable!("a directory takes no one-time password")
    }

    async fn delete_user(&self, user: &Account) {
        let deleted = self.admin().await.delete(&self.user_dn(&user.email)).await;
        deleted.expect("a response").success().expect("deleted");
    }

    /// The policy makes users change a password that an administrator sets.
    async fn set_password(&self, user: &Account, password: &SecretString) {
        let dn = self.user_dn(&user.email);
        self.replace(&dn, "userPassword", &[password.expose_secret()])
            .await;
        self.replace(&dn, "pwdReset", &["FALSE"]).await;
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
        let locked: &[&str] = match state {
            AccountState::Disabled => &["000001010000Z"],
            AccountState::Locked => {
                let now = jiff::Timestamp::now();
                let now = now.strftime("%Y%m%d%H%M%SZ").to_string();
                self.replace(&dn, "pwdAccountLockedTime", &[&now]).await;
                return;
            }
            AccountState::Active | AccountState::Incomplete => &[],
        };
        self.replace(&dn, "pwdAccountLockedTime", locked).await;
        let is_reset = if state == AccountState::Incomplete {
            "TRUE"
        } else {
            "FALSE"
        };
        self.replace(&dn, "pwdReset", &[is_reset]).await;
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
