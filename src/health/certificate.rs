//! When the certificate of the public listener is valid.

use iam_adapters::Moment;
use jiff::Timestamp;

/// The time in which every certificate of a chain is valid (RFC 5280 section 4.1.2.5), in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub not_before: i64,
    /// Its last second.
    pub not_after: i64,
}

impl Validity {
    /// Why clients refuse the certificate now; `None`: it is valid.
    #[must_use]
    pub fn problem(self, now: Moment) -> Option<String> {
        let now = i64::try_from(now.unix_seconds()).unwrap_or(i64::MAX);
        let (what, at) = if now > self.not_after {
            ("expired at", self.not_after)
        } else if now < self.not_before {
            ("is not valid before", self.not_before)
        } else {
            return None;
        };
        let at = Timestamp::from_second(at).unwrap_or_default();
        Some(format!("a certificate {what} {at}"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn certificate_is_valid_from_its_first_to_its_last_second() {
        let validity = Validity {
            not_before: 1_800_000_000,
            not_after: 1_800_000_009,
        };
        for (now, problem) in [
            (
                1_799_999_999,
                Some("a certificate is not valid before 2027-01-15T08:00:00Z"),
            ),
            (1_800_000_000, None),
            (1_800_000_009, None),
            (
                1_800_000_010,
                Some("a certificate expired at 2027-01-15T08:00:09Z"),
            ),
        ] {
            let now = Moment {
                unix: Duration::from_secs(now),
                monotonic: Duration::ZERO,
            };
            assert_eq!(validity.problem(now).as_deref(), problem);
        }
    }
}
