//! A kind of IAM for unit tests: it needs no settings.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::registry::{AdapterKind, IamSettings};
use iam_adapters::settings::AdapterSettings;
use iam_adapters::{Clock, IamAdapter, SetupError};
use serde::{Deserialize, Serialize};
use test_support::scripted_iam::ScriptedIam;

use crate::config::Registry;

const NAME: &str = "sample";

/// The registry of unit tests. Where a test names no IAM, it gets the sample.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry
        .kinds
        .push(AdapterKind::of::<SampleSettings>(NAME, None));
    registry.default = Some(IamSettings::new(SampleSettings::default()));
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

    fn problems(&self, section: &str, production: bool) -> Vec<String> {
        let problem = production.then(|| format!("{section}: is for development"));
        problem.into_iter().collect()
    }

    fn connect(
        &self,
        _: &str,
        _: Arc<dyn Clock>,
        _: Duration,
        _: Option<&Arc<dyn IamAdapter>>,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        Ok(Arc::new(ScriptedIam::default()))
    }

    fn limits_logins(&self) -> bool {
        false
    }
}
