//! `check --online --explain`: where each scope of the test account comes from, or why it is not
//! granted.

use std::io;

use iam_adapters::client::within;
use iam_adapters::permission_source::PermissionSource;
use iam_adapters::{
    AllowedScopes, Claims, IamAdapter, IamError, Introspection, Permission, Permissions,
    UpstreamSession,
};
use serde_json::Value;

use super::CheckReport;
use crate::config::IamSection;
use auth_gateway_core::iams::Iam;

/// The rights of a user.
pub(super) struct Rights {
    /// The permissions that the IAM states.
    at_iam: Permissions,
    /// The groups that the IAM states.
    groups: Option<Vec<String>>,
    /// The permissions of the source in the settings.
    effective: Permissions,
    /// The claims that the IAM states.
    claims: Claims,
}

/// The rights of a user, and the settings on which they depend.
pub(super) struct Explanation<'a> {
    pub(super) rights: Rights,
    pub(super) iam: &'a Iam,
    pub(super) section: &'a IamSection,
    pub(super) source: Option<&'a PermissionSource>,
}

impl Explanation<'_> {
    /// Writes two lines for each scope and each claim.
    pub(super) fn write(&self, scopes: &[String], report: &mut CheckReport<'_>) -> io::Result<()> {
        self.write_nothing_stated(report)?;
        let policy = &self.iam.policy;
        let allowed = policy.allowed_scopes.as_ref();
        for scope in scopes {
            writeln!(report.0, "  {scope}")?;
            let explained = line(scope, &self.rights, allowed, self.iam.name(), self.source);
            report.line("", explained)?;
        }
        let claims = self.rights.claims.to_json();
        for (name, source) in policy.claims.iter() {
            let member = &source.member;
            writeln!(report.0, "  claim {name}")?;
            match claims.get(name) {
                Some(value) => report.line("", format_args!("{value}, from {member}"))?,
                None => report.line(
                    "",
                    format_args!("left out: the IAM does not state {member}"),
                )?,
            }
        }
        Ok(())
    }

    /// The line about rights that the IAM does not state, with the setting that may be the cause, unless it
    /// states some or needs to state none.
    fn write_nothing_stated(&self, report: &mut CheckReport<'_>) -> io::Result<()> {
        let groups = self.rights.groups.as_ref();
        let (what, names): (_, &[_]) = match self.source {
            None if self.rights.at_iam.is_empty() => {
                let members = &[
                    "permissions_client",
                    "permissions_claim",
                    "permissions_member",
                ];
                ("permissions", members)
            }
            Some(_) if groups.is_none_or(Vec::is_empty) => {
                ("groups", &["groups_claim", "groups_base", "groups_member"])
            }
            _ => return Ok(()),
        };
        let adapter = &self.section.adapter;
        let cause = names.iter().find_map(|name| {
            let value = adapter.json().get(name).and_then(Value::as_str);
            let value = value.filter(|value| !value.is_empty())?;
            let key = format!("{}.{name}", self.section.key());
            Some(match *name {
                "permissions_client" => format!(
                    ": {key}: there is no client {value:?}, or the account has none of its roles"
                ),
                "groups_base" => format!(
                    ": {key}: no group below {value:?} that groups_filter selects has the account"
                ),
                _ => format!(": {key}: the IAM states no {value:?}, or the account has none"),
            })
        });
        match (cause, self.source) {
            // A policy server need not use groups.
            (None, Some(PermissionSource::Http(..))) => Ok(()),
            (cause, _) => {
                let cause = cause.unwrap_or_default();
                report.line(what, format_args!("none of the test account{cause}"))
            }
        }
    }
}

/// The rights of the user of a session, within the deadlines of the settings. The adapter is that of the IAM, without
/// deadlines.
///
/// # Errors
///
/// Those of the IAM and of the permission source.
pub(super) async fn rights(
    iam: &Iam,
    section: &IamSection,
    adapter: &dyn IamAdapter,
    source: Option<&PermissionSource>,
    session: &UpstreamSession,
) -> Result<Rights, IamError> {
    let Introspection::Active {
        subject,
        permissions: at_iam,
        groups,
        claims,
    } = within(
        section.upstream.introspection_deadline,
        adapter.introspect(session),
    )
    .await?
    else {
        return Err(IamError::Unreadable(
            "a new session is reported as inactive".into(),
        ));
    };
    let effective = match source {
        None => at_iam.clone(),
        Some(source) => {
            let decision = source.permissions(iam.name(), &subject, &at_iam, groups.as_deref());
            // Boxed, because the future of a policy server is large.
            let decided = within(source.limit().deadline, Box::pin(decision)).await;
            decided.map_err(IamError::of_permission_source)?
        }
    };
    Ok(Rights {
        at_iam,
        groups,
        effective,
        claims,
    })
}

/// The line for one scope. Without a source, the permissions are those that the IAM states.
fn line(
    scope: &str,
    rights: &Rights,
    allowed: Option<&AllowedScopes>,
    iam: &str,
    source: Option<&PermissionSource>,
) -> String {
    if let Err(invalid) = Permission::parse(scope) {
        return format!("not granted: a scope {invalid}");
    }
    if allowed.is_some_and(|allowed| !allowed.contains(scope)) {
        return "not granted: not among the allowed_scopes of the IAM".to_owned();
    }
    let granted = rights.effective.contains(scope);
    let groups = rights.groups.as_deref().unwrap_or_default();
    match (granted, source) {
        (true, None) => "granted: the IAM states it".to_owned(),
        (true, Some(PermissionSource::Http(..))) => {
            "granted: the policy server decided it".to_owned()
        }
        (true, Some(PermissionSource::Groups(table))) => {
            let giving: Vec<_> = table.groups_with(iam, groups, scope).collect();
            format!("granted: to the group {}", giving.join(", "))
        }
        (false, None) => match rights.at_iam.len() {
            0 => "not granted: the IAM states no permission of this user".to_owned(),
            count => format!("not granted: not among the {count} permissions that the IAM states"),
        },
        (false, Some(PermissionSource::Http(..))) => {
            let count = rights.effective.len();
            format!("not granted: not among the {count} scopes of the policy server's decision")
        }
        (false, Some(PermissionSource::Groups(_))) if groups.is_empty() => {
            "not granted: the IAM states no group of this user".to_owned()
        }
        (false, Some(PermissionSource::Groups(_))) => format!(
            "not granted: permissions.groups gives it to none of the user's groups: {}",
            groups.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use iam_adapters::client::UpstreamClient;
    use iam_adapters::clock::SystemClock;
    use iam_adapters::permission_source::{GroupRule, GroupTable, PolicyServer};
    use iam_adapters::resilient::CallLimit;

    use super::*;

    fn policy_server() -> PermissionSource {
        let (deadline, clock) = (Duration::from_secs(1), Arc::new(SystemClock::default()));
        let server = PolicyServer {
            url: "http://127.0.0.1:1/".parse().unwrap(),
            token: None,
            client: UpstreamClient::new(deadline, None, None, clock).unwrap(),
        };
        let limit = CallLimit {
            deadline: Duration::from_secs(1),
            concurrency: 1,
        };
        PermissionSource::Http(Box::new(server), limit)
    }

    fn permissions(names: &[&str]) -> Permissions {
        let parse = |name: &&str| Permission::parse(name).unwrap();
        names.iter().map(parse).collect()
    }

    #[test]
    fn line_has_the_origin_of_a_scope_or_the_reason_that_it_is_not_granted() {
        let rule = GroupRule {
            iam: None,
            group: "/team/*".to_owned(),
            scopes: vec!["read".to_owned()],
        };
        let table = PermissionSource::Groups(GroupTable::try_from(vec![rule]).unwrap());
        let server = policy_server();
        let (table, server) = (Some(&table), Some(&server));
        let groups = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let rights = |at_iam, groups, effective| Rights {
            at_iam: permissions(at_iam),
            groups,
            effective: permissions(effective),
            claims: Claims::NONE,
        };
        for (scope, rights, source, expected) in [
            (
                "a b",
                rights(&[], None, &[]),
                None,
                "not granted: a scope must be scope names",
            ),
            (
                "read",
                rights(&["read"], None, &["read"]),
                None,
                "granted: the IAM states it",
            ),
            (
                "read",
                rights(&["x"], None, &["x"]),
                None,
                "not granted: not among the 1 permissions",
            ),
            (
                "read",
                rights(&[], None, &[]),
                None,
                "not granted: the IAM states no permission",
            ),
            (
                "read",
                rights(&[], None, &["read"]),
                server,
                "granted: the policy server",
            ),
            (
                "read",
                rights(&["read"], None, &[]),
                server,
                "not granted: not among the 0 scopes",
            ),
            (
                "read",
                rights(&[], groups(&["/team/a", "/b"]), &["read"]),
                table,
                "granted: to the group /team/a",
            ),
            (
                "read",
                rights(&["read"], groups(&["/b", "/c"]), &[]),
                table,
                "not granted: permissions.groups gives it to none of the user's groups: /b, /c",
            ),
            (
                "read",
                rights(&["read"], groups(&[]), &[]),
                table,
                "not granted: the IAM states no group of this user",
            ),
        ] {
            let line = line(scope, &rights, None, "corp", source);
            assert!(line.starts_with(expected), "{expected}: {line}");
        }
        let allowed = AllowedScopes::parse(&["x"]).unwrap();
        let rights = rights(&["read"], None, &["read"]);
        let line = line("read", &rights, Some(&allowed), "corp", None);
        assert!(line.contains("not among the allowed_scopes"), "{line}");
    }
}
