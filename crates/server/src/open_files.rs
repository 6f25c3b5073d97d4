//! The limit of open files: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to the most that the system allows, and returns it; `None`: any number.
/// Many shells and service managers start programs with less.
#[must_use]
pub fn raise_open_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum;
    }
    limit.current
}

/// How many of the `wanted` connections clients can have: at most half of the files. Connections to
/// other servers, logs and management need some even when clients use all that they can get.
#[must_use]
pub fn connections_within(files: Option<u64>, wanted: usize) -> usize {
    let files = usize::try_from(files.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    wanted.min(files / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_use_at_most_half_of_the_files() {
        for (wanted, files, connections) in [
            (10_000, None, 10_000),
            (10_000, Some(65_536), 10_000),
            (10_000, Some(1_024), 512),
            (100, Some(1_024), 100),
            (10_000, Some(1), 1),
            (10_000, Some(u64::MAX), 10_000),
        ] {
            let available = connections_within(files, wanted);
            assert_eq!(available, connections, "{files:?}");
        }
    }
}
