//! The query of a control call: every parameter known, and there once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use humantime_serde::re::humantime;
use url::form_urlencoded;

use super::refused::Refused;

/// A call's parameters.
pub(super) trait Query: Sized {
    /// The parameters that the call takes.
    const NAMES: &'static [&'static str];

    /// Reads those that were given.
    ///
    /// # Errors
    ///
    /// [`Refused`], by the parameter's name.
    fn read(given: &Given<'_>) -> Result<Self, Refused>;
}

/// A call that takes no parameters.
impl Query for () {
    const NAMES: &'static [&'static str] = &[];

    fn read(_: &Given<'_>) -> Result<Self, Refused> {
        Ok(())
    }
}

/// What stands in a query.
#[derive(Debug)]
pub(super) struct Given<'a>(HashMap<&'static str, Cow<'a, str>>);

/// Reads a call's query.
///
/// # Errors
///
/// [`Refused`] for a parameter that is unknown, is there twice, or has no such value.
pub(super) fn parse<Q: Query>(query: &str) -> Result<Q, Refused> {
    let mut given = HashMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let known = Q::NAMES.iter().find(|known| **known == name);
        let known = known.ok_or_else(|| unknown(&name, Q::NAMES))?;
        if given.insert(*known, value).is_some() {
            let twice = format!("the query parameter `{known}` is there more than once");
            return Err(Refused::invalid(twice));
        }
    }
    Q::read(&Given(given))
}

fn unknown(name: &str, known: &[&str]) -> Refused {
    let takes = if known.is_empty() {
        "none".to_owned()
    } else {
        format!("`{}`", known.join("`, `"))
    };
    Refused::invalid(format!(
        "unknown query parameter {name:?}; this call takes {takes}"
    ))
}

impl Given<'_> {
    /// A parameter as it stands.
    pub(super) fn text(&self, name: &'static str) -> Option<&str> {
        self.0.get(name).map(AsRef::as_ref)
    }

    /// A parameter of another form; `what` tells which.
    pub(super) fn parsed<T>(
        &self,
        name: &'static str,
        what: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Refused> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let wrong = || Refused::invalid(format!("the query parameter `{name}` must be {what}"));
        parse(text).map(Some).ok_or_else(wrong)
    }

    /// A whole number.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Refused> {
        // `FromStr` would take a sign as well.
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        self.parsed(name, "a whole number", |text| {
            digits(text).then(|| text.parse().ok()).flatten()
        })
    }

    /// Yes or no; no, where nothing is said.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, Refused> {
        let said = self.parsed(name, "`true` or `false`", |text| text.parse().ok())?;
        Ok(said.unwrap_or_default())
    }

    /// A duration, of this length at most.
    pub(super) fn duration(
        &self,
        name: &'static str,
        most: Duration,
    ) -> Result<Option<Duration>, Refused> {
        let longest = humantime::format_duration(most);
        let what = format!("a duration such as `200ms` or `5s`, at most {longest}");
        self.parsed(name, &what, |text| {
            let duration = humantime::parse_duration(text).ok();
            duration.filter(|duration| *duration <= most)
        })
    }
}

/// `?notify=true`.
#[derive(Debug)]
pub(super) struct Notify {
    /// Whether whoever listens for logout tokens shall be told.
    pub(super) notify: bool,
}

impl Query for Notify {
    const NAMES: &'static [&'static str] = &["notify"];

    fn read(given: &Given<'_>) -> Result<Self, Refused> {
        let notify = given.flag("notify")?;
        Ok(Self { notify })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wait(Option<u64>, Option<Duration>);

    impl Query for Wait {
        const NAMES: &'static [&'static str] = &["count", "timeout"];

        fn read(given: &Given<'_>) -> Result<Self, Refused> {
            let timeout = given.duration("timeout", Duration::from_secs(60))?;
            Ok(Self(given.number("count")?, timeout))
        }
    }

    #[track_caller]
    fn refused<Q: Query + std::fmt::Debug>(query: &str) -> String {
        parse::<Q>(query).expect_err(query).to_string()
    }

    #[test]
    fn parameters_are_read_by_their_form() {
        let Wait(count, timeout) = parse("timeout=1m&count=7").expect("fair");
        assert_eq!((count, timeout), (Some(7), Some(Duration::from_secs(60))));
        let Wait(count, timeout) = parse("").expect("fair");
        assert_eq!((count, timeout), (None, None));
        assert!(parse::<Notify>("notify=true").expect("fair").notify);
        assert!(!parse::<Notify>("").expect("fair").notify);
    }

    #[test]
    fn what_is_refused_is_named_with_what_is_allowed() {
        assert_eq!(
            refused::<Wait>("time=1s"),
            "unknown query parameter \"time\"; this call takes `count`, `timeout`"
        );
        assert_eq!(
            refused::<()>("a%20b"),
            "unknown query parameter \"a b\"; this call takes none"
        );
        assert_eq!(
            refused::<Wait>("count=1&count=2"),
            "the query parameter `count` is there more than once"
        );
        assert_eq!(
            refused::<Notify>("notify=yes"),
            "the query parameter `notify` must be `true` or `false`"
        );
        for odd in ["", "-1", "+1", "1.5", "x", "99999999999999999999"] {
            let told = refused::<Wait>(&format!("count={}", odd.replace('+', "%2B")));
            assert_eq!(told, "the query parameter `count` must be a whole number");
        }
        for odd in ["", "5", "61s", "soon"] {
            let told = refused::<Wait>(&format!("timeout={odd}"));
            assert!(
                told.ends_with("such as `200ms` or `5s`, at most 1m"),
                "{told}"
            );
        }
    }
}
