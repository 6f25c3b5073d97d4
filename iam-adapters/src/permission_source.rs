//! Where the permissions of users come from, if not from the IAM itself: a table of groups, or a
//! decision of a policy server.
//!
//! A missing or unclear answer is a fault, never "no permissions".

mod distinguished_name;
mod group_table;
mod policy_server;

use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::IamError;
use crate::resilient::Limit;
use crate::scope::Permissions;
use crate::types::Subject;

pub use group_table::{GroupRule, GroupTable, InvalidGroup};
pub use policy_server::{PolicyServer, PolicyServerSettings};

/// The limit of a look-up in the table, which takes no time.
const UNLIMITED: Limit = Limit {
    deadline: Duration::from_secs(1),
    concurrency: Semaphore::MAX_PERMITS,
};

/// Another source of permissions than the IAM.
#[derive(Debug)]
pub enum PermissionSource {
    /// A table of groups in the configuration.
    Groups(GroupTable),
    /// A policy server, and the limit of calls to it.
    Http(Box<PolicyServer>, Limit),
}

impl PermissionSource {
    /// The limit of its calls.
    pub(crate) const fn limit(&self) -> Limit {
        match self {
            Self::Groups(_) => UNLIMITED,
            Self::Http(_, limit) => *limit,
        }
    }

    /// The permissions of a user of the IAM with this name, who has these permissions and groups
    /// there.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn permissions(
        &self,
        iam: &str,
        subject: &Subject,
        at_iam: &Permissions,
        groups: Option<&[String]>,
    ) -> Result<Permissions, IamError> {
        match self {
            Self::Groups(table) => match groups {
                Some(groups) => Ok(table.permissions(iam, groups)),
                None => Err(IamError::Unreadable(
                    "the IAM does not state the groups of its users".to_owned(),
                )),
            },
            Self::Http(server, _) => server.permissions(iam, subject, at_iam, groups).await,
        }
    }
}
