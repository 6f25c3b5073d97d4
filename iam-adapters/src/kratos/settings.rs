//! The section `[iam.kratos]` and its validation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::{Kratos, NAME};
use crate::adapter::{IamAdapter, SetupError, downcast};
use crate::claims::ClaimSources;
use crate::client::UpstreamClient;
use crate::clock::Clock;
use crate::oauth2_client::{PermissionNames, Proofs, plain_url};
use crate::settings::{AdapterSettings, SectionProblems};

/// The section `[iam.kratos]`.
///
/// The `Debug` form has only what identifies the IAM. The address may have a password by mistake.
#[derive(Clone, derive_more::Debug, Deserialize, Serialize)]
#[debug("KratosSettings({})", plain_url(url))]
#[serde(deny_unknown_fields)]
pub struct KratosSettings {
    /// The address of the public API. Sessions end if it changes.
    pub url: Url,
    /// PEM certificates to trust in addition to the machine's own.
    pub ca_file: Option<PathBuf>,
    /// The member of `metadata_public` with the permissions; `None`: `permissions`.
    pub permissions_member: Option<String>,
    /// The member of `metadata_public` with the names of the groups; `None`: Kratos states none.
    pub groups_member: Option<String>,
    /// The claims of access tokens, from the members of the identity.
    #[serde(default)]
    pub claims: ClaimSources,
}

impl KratosSettings {
    pub(super) fn permissions_member(&self) -> &str {
        self.permissions_member.as_deref().unwrap_or("permissions")
    }
}

impl AdapterSettings for KratosSettings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn problems(&self, section: &str, production: bool) -> Vec<String> {
        let mut problems = SectionProblems::new(section, production);
        problems.address("url", Some(&self.url));
        problems.not_empty("permissions_member", self.permissions_member.as_ref());
        problems.not_empty("groups_member", self.groups_member.as_ref());
        problems.common(self.ca_file.as_deref(), &self.claims);
        problems.found
    }

    fn connect(
        &self,
        section: &str,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
        before: Option<&Arc<dyn IamAdapter>>,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        self.check(section)?;
        let before: Option<&Kratos> = before.and_then(downcast);
        let before = before.map(|kratos| &kratos.proofs);
        let ca_file = self.ca_file.as_deref();
        let http = UpstreamClient::new(connect_deadline, ca_file, None, clock);
        Ok(Arc::new(Kratos {
            http: http.map_err(|error| error.of_section(section))?,
            settings: self.clone(),
            issuer: self.url.as_str().trim_end_matches('/').to_owned(),
            names: PermissionNames::new(NAME),
            proofs: Proofs::kept(before, "check that X-Session-Token reaches Kratos"),
        }))
    }

    fn missing_for_groups(&self) -> Option<&'static str> {
        self.groups_member.is_none().then_some("groups_member")
    }

    fn claims(&self) -> &ClaimSources {
        &self.claims
    }

    fn derived(&self) -> Value {
        json!({ "permissions_member": self.permissions_member() })
    }
}

#[cfg(test)]
mod tests;
