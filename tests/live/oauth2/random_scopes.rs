//! Random scopes of random users at an OAuth 2 server.

use std::collections::BTreeSet;
use std::sync::Arc;

use iam_conformance::{Account, Fixture as _};
use test_support::rng::Rng;
use test_support::suite::permissions;

use super::server::{OAuth2Fixture, Server, shop_scopes};
use crate::fixture::PERMISSIONS_ALONE;
use crate::random_scopes::{
    PermissionSources, granted_scopes_equal_the_permissions, random_numbers,
};

/// The most scopes of a user.
const HELD_MAX: usize = 16;

/// The scopes of the users, of which a change sets all.
struct ScopeSources {
    server: Arc<Server>,
    names: Vec<String>,
    unavailable: Vec<String>,
}

impl PermissionSources for ScopeSources {
    type Change = Vec<String>;

    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn unavailable(&self) -> &[String] {
        &self.unavailable
    }

    fn user_changes(&self, rng: &mut Rng) -> Vec<Self::Change> {
        let held = (0..rng.index(HELD_MAX + 1)).map(|_| rng.one_of(&self.names).clone());
        let held: BTreeSet<_> = held.collect();
        vec![held.into_iter().collect()]
    }

    fn shared_change(&self, _rng: &mut Rng) -> Option<Self::Change> {
        None
    }

    async fn apply(&self, user: Option<&Account>, change: &Self::Change) {
        let names: Vec<_> = change.iter().map(String::as_str).collect();
        let user = user.expect("a change of one user");
        self.server
            .set_permissions(user, &permissions(&names))
            .await;
    }

    async fn held(&self, user: &Account) -> BTreeSet<String> {
        self.server.granted_permissions(user).await
    }
}

pub(super) async fn granted_scope_equals_that_of_the_server_in_a_thousand_random_cases(
    fixture: &OAuth2Fixture,
) {
    let mut rng = random_numbers();
    let gateway = fixture.gateway(&[PERMISSIONS_ALONE]);
    let unavailable = [
        "openid",
        "offline_access",
        "profile",
        "g_profile",
        "urn:shop:orders:order",
        "urn:shop:orders:order:READ",
        "urn:shop:unknown:thing:read",
    ];
    let sources = ScopeSources {
        server: Arc::clone(&fixture.server),
        names: shop_scopes(),
        unavailable: unavailable.map(str::to_owned).to_vec(),
    };
    granted_scopes_equal_the_permissions(&fixture.iam, &gateway, &sources, &mut rng).await;
}
