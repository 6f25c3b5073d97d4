//! Reads the settings from their sources, checks them, and sets what depends on others.

use super::effective::EffectiveSettings;
use super::errors::ConfigErrors;
use super::layers::Layers;
use super::source::SettingsSource;
use super::{InvalidSettings, Settings, reading, safety};

impl SettingsSource {
    /// Reads the settings as [`load`](super::load) does, and calls `prepare` with them. The error has
    /// the problems of both. A setting that cannot be read has its default in `prepare`.
    pub(crate) fn load_with<T>(
        &self,
        prepare: impl FnOnce(&Settings, &Layers, &mut ConfigErrors) -> Option<T>,
    ) -> Result<(Settings, T), InvalidSettings> {
        let mut problems = ConfigErrors::default();
        // Without the file, everything that it sets would be a problem too.
        let layers = Layers::gather(self, &mut problems).map_err(|unreadable| InvalidSettings {
            problems: vec![unreadable],
        })?;
        let settings = reading::settings(&layers, &self.registry, &mut problems);
        let loaded = settings.and_then(|mut settings| {
            settings.check(&mut problems);
            if let Some(Ok(file)) = &self.file {
                safety::check_file(&settings, file, &layers.secrets_in_file, &mut problems);
            }
            settings.derive_defaults();
            settings.files = layers.files.clone();
            let prepared = prepare(&settings, &layers, &mut problems)?;
            Some((settings, prepared))
        });
        let place = |key: &str| Some(layers.origin(key)?.place().into_owned());
        problems.into_result(loaded, place)
    }

    /// Reads the settings as [`load`](super::load) does, with the origin of each.
    pub fn effective(&self) -> Result<EffectiveSettings, InvalidSettings> {
        let loaded =
            self.load_with(|settings, layers, _| Some(EffectiveSettings::new(settings, layers)))?;
        Ok(loaded.1)
    }
}
