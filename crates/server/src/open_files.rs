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

/// Files that clients cannot use: for connections to IAMs, Redis and other servers, for logs and for management.
const OTHER_FILES: usize = 4_096;

/// How many of the `wanted` connections clients can have: all files but 4,096, and at least half of a small limit.
#[must_use]
pub fn connections_within(files: Option<u64>, wanted: usize) -> usize {
    let files = usize::try_from(files.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    wanted.min(files - OTHER_FILES.min(files / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (wanted, files, connections) in [
            (10_000, None, 10_000),
            (10_000, Some(65_536), 10_000),
            (10_000, Some(14_096), 10_000),
            (10_000, Some(14_095), 9_999),
            (10_000, Some(8_192), 4_096),
            (10_000, Some(1_024), 512),
            (100, Some(1_024), 100),
            (10_000, Some(1), 1),
            (10_000, Some(0), 1),
            (10_000, Some(u64::MAX), 10_000),
        ] {
            let available = connections_within(files, wanted);
            assert_eq!(available, connections, "{files:?}");
        }
    }
}
