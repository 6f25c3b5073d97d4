//! How many files the system lets the process open: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes all that the system gives; many shells and service managers begin with less. Returns how
/// many that is; none: any number.
fn most() -> Option<u64> {
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

/// The connections that each of so many workers can take, of those that it may; tells where they
/// are fewer.
pub(super) fn connections(wanted: usize, workers: usize) -> usize {
    let files = most();
    let max_connections = half_of(files, wanted, workers);
    if max_connections < wanted {
        tracing::info!(
            wanted,
            max_connections,
            files,
            "fewer connections than http.max_connections, for want of files that may be open"
        );
    }
    max_connections
}

/// At most half of the files, because the IAM, the logs and health need some while clients take
/// all they can get.
fn half_of(files: Option<u64>, wanted: usize, workers: usize) -> usize {
    let files = files.map_or(usize::MAX, |files| files.try_into().unwrap_or(usize::MAX));
    wanted.min(files / 2 / workers.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_half_of_the_files_to_others() {
        for (wanted, workers, files, taken) in [
            (10_000, 2, None, 10_000),
            (10_000, 2, Some(65_536), 10_000),
            (10_000, 2, Some(1_024), 256),
            (100, 2, Some(1_024), 100),
            (10_000, 64, Some(16), 1),
            (10_000, 1, Some(u64::MAX), 10_000),
        ] {
            assert_eq!(half_of(files, wanted, workers), taken, "{files:?}");
        }
    }
}
