//! The forms in which settings are described, each setting once.

/// Defines a section: a setting is `name: Type = default;`, or `name: Type = default, in least..=most;`.
///
/// A setting that is not in the file and not in the environment has its default. A secret can also be in a
/// file (`…_file`), from which [`load`](super::load) reads it.
macro_rules! section {
    (
        $(#[$section_attribute:meta])*
        pub struct $section:ident {
            $(
                $(#[$attribute:meta])*
                pub $name:ident: $type:ty = $default:expr $(, in $range:expr)?;
            )*
        }
    ) => {
        $(#[$section_attribute])*
        #[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
        #[serde(default)]
        pub struct $section {
            $(
                $(#[$attribute])*
                pub $name: $type,
            )*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl $section {
            /// Adds each value that is not within its range. `key` returns the full key of a name.
            pub(super) fn check_ranges(
                &self,
                key: impl Fn(&str) -> String,
                problems: &mut $crate::config::ConfigErrors,
            ) {
                $($(problems.within(&key(stringify!($name)), self.$name, &$range);)?)*
            }
        }
    };
}

pub(super) use section;
