//! Every misconfiguration that an adapter can report.

use iam_adapters::Misconfiguration;

/// All of them.
pub const MISCONFIGURATIONS: [Misconfiguration; 10] = [
    Misconfiguration::UnknownClient,
    Misconfiguration::ClientSecret,
    Misconfiguration::Tenant,
    Misconfiguration::PasswordLogin,
    Misconfiguration::Issuer,
    Misconfiguration::Introspection,
    Misconfiguration::ForeignClient,
    Misconfiguration::Tls,
    Misconfiguration::PermissionSource,
    Misconfiguration::Other,
];
