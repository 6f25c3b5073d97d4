//! The roles, composite roles and groups that random users get their permissions from.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use iam_conformance::Account;
use reqwest::Method;
use serde_json::{Value, json};
use test_support::rng::Rng;
use test_support::suite::unique_name;

use super::PermissionSources;
use crate::admin_api::AdminApi;
use crate::fixture::LiveFixture;

const BUNDLES: usize = 4;
const GROUPS: usize = 4;

pub(super) struct RoleSources<'a> {
    fixture: &'a LiveFixture,
    /// The client whose roles are the permissions, and its roles.
    client: String,
    roles: Vec<Value>,
    /// Composite roles of the realm.
    bundles: Vec<Value>,
    /// The ids of groups.
    groups: Vec<String>,
    /// Names that cannot be granted, some of which are roles of every user.
    unavailable: Vec<String>,
}

/// A change by an administrator. `true` assigns, `false` removes; indices are those of the users.
#[derive(Debug)]
pub(super) enum Change {
    Role(usize, bool),
    Bundle(usize, bool),
    Membership(usize, bool),
    RoleOfBundle(usize, usize, bool),
    RoleOfGroup(usize, usize, bool),
}

impl<'a> RoleSources<'a> {
    pub(super) async fn new(fixture: &'a LiveFixture, rng: &mut Rng) -> Self {
        let api = &fixture.administrator.api;
        let client = fixture
            .administrator
            .role("urn:shop:orders:order:read")
            .await;
        let client = client["containerId"].as_str().expect("an id").to_owned();
        let all = api.get(&["clients", &client, "roles"]).await;
        let all = all.as_array().expect("roles").iter();
        let mut roles: Vec<_> = all.filter(|role| is_shops(role)).cloned().collect();
        // The database returns them in any order.
        roles.sort_by_key(|role| role["name"].to_string());
        assert!(roles.len() > 20, "{roles:?}");
        let bundles = join_all((0..BUNDLES).map(async |_| {
            let name = format!("bundle-{}", unique_name());
            let role = Some(json!({ "name": name }));
            api.done(Method::POST, &["roles"], role).await;
            api.get(&["roles", &name]).await
        }));
        let groups = join_all((0..GROUPS).map(async |_| {
            let group = Some(json!({ "name": format!("group-{}", unique_name()) }));
            let made = api.done(Method::POST, &["groups"], group).await;
            made.id.expect("an id")
        }));
        let (bundles, groups) = (bundles.await, groups.await);
        let unavailable = bundles.iter().map(name).chain(
            [
                "offline_access",
                "uma_authorization",
                "view-profile",
                "urn:shop:orders:order",
                "urn:shop:orders:order:READ",
                "urn:shop:unknown:thing:read",
            ]
            .map(str::to_owned),
        );
        let users = Self {
            fixture,
            unavailable: unavailable.collect(),
            client,
            roles,
            bundles,
            groups,
        };
        for _ in 0..BUNDLES + GROUPS {
            let change = users.random_shared_change(rng);
            users.apply(None, &change).await;
        }
        users
    }

    fn random_shared_change(&self, rng: &mut Rng) -> Change {
        let (role, given) = (rng.index(self.roles.len()), rng.index(3) > 0);
        if rng.one_in(2) {
            Change::RoleOfBundle(rng.index(BUNDLES), role, given)
        } else {
            Change::RoleOfGroup(rng.index(GROUPS), role, given)
        }
    }
}

impl PermissionSources for RoleSources<'_> {
    type Change = Change;

    fn names(&self) -> Vec<String> {
        self.roles.iter().map(name).collect()
    }

    fn unavailable(&self) -> &[String] {
        &self.unavailable
    }

    fn user_changes(&self, rng: &mut Rng) -> Vec<Change> {
        let changes = (0..=rng.index(3)).map(|_| {
            let given = rng.one_in(2);
            match rng.index(4) {
                0 => Change::Bundle(rng.index(BUNDLES), given),
                1 => Change::Membership(rng.index(GROUPS), given),
                _ => Change::Role(rng.index(self.roles.len()), given),
            }
        });
        changes.collect()
    }

    fn shared_change(&self, rng: &mut Rng) -> Option<Change> {
        Some(self.random_shared_change(rng))
    }

    async fn held(&self, user: &Account) -> BTreeSet<String> {
        let administrator = &self.fixture.administrator;
        administrator.effective_permissions(&user.subject).await
    }

    async fn apply(&self, user: Option<&Account>, change: &Change) {
        let user = user.map_or("", |user| user.subject.as_str());
        let role = |at: &usize| Some(json!([self.roles[*at]]));
        let client = self.client.as_str();
        let api = &self.fixture.administrator.api;
        match change {
            Change::Role(at, given) => {
                let path = ["users", user, "role-mappings", "clients", client];
                put_or_take(api, *given, &path, role(at)).await;
            }
            Change::Bundle(at, given) => {
                let path = ["users", user, "role-mappings", "realm"];
                let bundle = Some(json!([self.bundles[*at]]));
                put_or_take(api, *given, &path, bundle).await;
            }
            Change::Membership(at, given) => {
                let path = ["users", user, "groups", &self.groups[*at]];
                let method = if *given { Method::PUT } else { Method::DELETE };
                api.done(method, &path, None).await;
            }
            Change::RoleOfBundle(at, held, given) => {
                let name = name(&self.bundles[*at]);
                let path = ["roles", &name, "composites"];
                put_or_take(api, *given, &path, role(held)).await;
            }
            Change::RoleOfGroup(at, held, given) => {
                let group = &self.groups[*at];
                let path = ["groups", group, "role-mappings", "clients", client];
                put_or_take(api, *given, &path, role(held)).await;
            }
        }
    }
}

async fn put_or_take(api: &AdminApi, given: bool, path: &[&str], roles: Option<Value>) {
    let method = if given { Method::POST } else { Method::DELETE };
    api.done(method, path, roles).await;
}

fn name(role: &Value) -> String {
    role["name"].as_str().expect("a name").to_owned()
}

/// The roles of the imported realm, without those that other tests add.
fn is_shops(role: &Value) -> bool {
    name(role).starts_with("urn:shop:")
}
