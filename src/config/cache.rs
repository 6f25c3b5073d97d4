//! `[cache]`: the caches of data from the IAM.

use super::section::section;

section! {
    pub struct CacheSettings {
        /// The bound of the caches of liveness and of permissions together, in bytes. With less than the
        /// least, entries are evicted before they are used again. The most, 1 TiB, is more than is useful, and a
        /// number of TOML.
        pub max_bytes: usize = 64 * 1024 * 1024, in 1024 * 1024..=1024 * 1024 * 1024 * 1024;
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load_tests::problems;

    #[test]
    fn number_that_toml_cannot_represent_is_refused() {
        for number in [
            "1099511627777",
            "9223372036854775808",
            "18446744073709551615",
        ] {
            let found = problems("", &[("CACHE__MAX_BYTES", number)]);
            let range = "is not within 1048576 and 1099511627776";
            let place = "(set in AUTH_GATEWAY__CACHE__MAX_BYTES)";
            assert_eq!(
                found,
                [format!("cache.max_bytes: {number} {range} {place}")]
            );
        }
        assert_eq!(
            problems("", &[("CACHE__MAX_BYTES", "1099511627776")]),
            [""; 0]
        );
    }
}
