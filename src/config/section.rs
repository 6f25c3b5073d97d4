//! The forms in which settings are described, each setting once.

/// Defines a section: a setting is `name: Type = default;`, or `name: Type = default, in least..=most;`.
///
/// A setting that is not in the file and not in the environment has its default.
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
                problems: &mut $crate::config::Problems,
            ) {
                $($(problems.within(&key(stringify!($name)), self.$name, &$range);)?)*
            }
        }
    };
}

/// Defines an enum whose variants have names in the settings.
macro_rules! choice {
    (
        $(#[$choice_attribute:meta])*
        pub enum $choice:ident {
            $(
                $(#[$attribute:meta])*
                $variant:ident = $name:literal,
            )*
        }
    ) => {
        $(#[$choice_attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum $choice {
            $(
                $(#[$attribute])*
                $variant,
            )*
        }

        impl $choice {
            /// The name, as in the configuration.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl From<$choice> for &'static str {
            fn from(choice: $choice) -> Self {
                choice.name()
            }
        }

        impl TryFrom<String> for $choice {
            type Error = String;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                match text.as_str() {
                    $($name => Ok(Self::$variant),)*
                    _ => Err($crate::config::section::expected(&[$($name),*])),
                }
            }
        }
    };
}

pub(super) use {choice, section};

/// The problem of a text that is none of these names.
pub(super) fn expected(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("expected {} or {last}", others.join(", "))
        }
        _ => format!("expected {}", names.concat()),
    }
}
