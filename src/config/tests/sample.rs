//! A kind of IAM for unit tests: it needs no settings, has built-in accounts, and never responds.

use std::any::Any;
use std::future::pending;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::registry::{AdapterKind, IamSettings};
use iam_adapters::settings::AdapterSettings;
use iam_adapters::{
    Authenticated, Capabilities, ClientContext, Clock, Credentials, IamAdapter, IamError,
    Introspection, SetupError, UpstreamSession,
};
use serde::{Deserialize, Serialize};

use crate::config::Registry;

const NAME: &str = "sample";

/// The registry of unit tests. Where a test names no IAM, it gets the sample.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.kinds.push(AdapterKind::of::<SampleSettings>(NAME));
    registry.default = IamSettings::new(SampleSettings::default());
    registry
}

/// The settings of an adapter, if they are of this type.
pub(crate) fn of_kind<S: AdapterSettings>(settings: &IamSettings) -> Option<&S> {
    let settings: &dyn Any = &**settings;
    settings.downcast_ref()
}

/// `[iam.sample]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SampleSettings {
    pub(crate) users_file: Option<PathBuf>,
}

impl AdapterSettings for SampleSettings {
    fn claims(&self) -> &iam_adapters::ClaimSources {
        const { &iam_adapters::ClaimSources::NONE }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn problems(&self, production: bool) -> Vec<String> {
        let problem = production.then(|| "iam.sample: is for development".to_owned());
        problem.into_iter().collect()
    }

    fn connect(&self, _: Arc<dyn Clock>, _: Duration) -> Result<Arc<dyn IamAdapter>, SetupError> {
        Ok(Arc::new(Sample))
    }

    fn logins_per_second(&self) -> Option<NonZeroU32> {
        None
    }

    fn sessions_per_minute(&self) -> u32 {
        0
    }
}

/// An IAM that accepts every call and never responds.
#[derive(Debug)]
pub(crate) struct Sample;

#[async_trait]
impl IamAdapter for Sample {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &'static str {
        "urn:sample"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            back_channel_logout: false,
            ..Capabilities::FULL
        }
    }

    async fn authenticate(
        &self,
        _: &Credentials,
        _: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        pending().await
    }

    async fn introspect(&self, _: &UpstreamSession) -> Result<Introspection, IamError> {
        pending().await
    }

    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        pending().await
    }

    fn logout_audience(&self) -> Option<&str> {
        None
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        pending().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        pending().await
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        pending().await
    }
}
