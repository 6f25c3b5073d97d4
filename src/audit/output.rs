//! Writes the lines to a file or to standard output. A line that cannot be written is kept, and tried
//! again, until the process stops.

use std::borrow::Cow;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::mem;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use iam_adapters::{Clock, files};
use rustix::fs::{Access, OFlags};
use rustix::io::Errno;
use tokio::sync::watch;

use super::line::Line;
use crate::telemetry::json_lines::{LineQueue, STDOUT_DEADLINE, Sink, lines_in, write_from};
use crate::telemetry::metrics::Metrics;

/// The pause before the next attempt to write.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The permissions of users other than owner and group, which the file never has.
const OTHERS: u32 = 0o007;

/// Where the lines go.
#[derive(Debug, Clone)]
pub(super) enum Destination {
    Stdout,
    /// The file with this name. If it is renamed, a new file is made.
    File(PathBuf),
}

/// What has been written, for the operations that wait for it.
pub(super) struct Progress {
    written: watch::Sender<u64>,
    failing: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Progress {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            written: watch::Sender::new(0),
            failing: AtomicBool::new(false),
            metrics,
        }
    }

    /// Whether the last attempt to write failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Waits until this number of bytes is written.
    pub(super) async fn reaches(&self, position: u64) {
        let mut written = self.written.subscribe();
        // The sender is not dropped meanwhile.
        let _ = written.wait_for(|written| *written >= position).await;
    }

    fn succeeded(&self, batch: &[u8]) {
        self.written
            .send_modify(|written| *written += batch.len() as u64);
        self.metrics.families.audit_lines.inc_by(lines_in(batch));
        self.metrics.families.audit_unwritable.set(0);
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the audit log can be written again");
        }
    }

    fn failed(&self, error: &io::Error) {
        self.metrics.families.audit_unwritable.set(1);
        if !self.failing.swap(true, Ordering::Relaxed) {
            let error = files::reason(error);
            tracing::error!(error, "the audit log cannot be written");
        }
    }
}

/// The file or standard output.
pub(super) struct Output {
    destination: Destination,
    file: File,
    /// Whether the file ends in a line that a process before this one did not finish. It is ended before the first line of
    /// this one, and not when the file is opened, so that a full disk does not prevent a start.
    is_in_line: bool,
    /// Whether a line counts as written only when it is on the disk.
    durable: bool,
    clock: Arc<dyn Clock>,
    progress: Arc<Progress>,
    /// The number of lost lines that were reported by a line.
    reported: u64,
}

impl Output {
    /// The error names the file.
    pub(super) fn open(
        destination: Destination,
        durable: bool,
        clock: Arc<dyn Clock>,
        progress: Arc<Progress>,
    ) -> anyhow::Result<Self> {
        let opened = match &destination {
            Destination::Stdout => io::stdout()
                .as_fd()
                .try_clone_to_owned()
                .map(|file| (file.into(), false)),
            Destination::File(path) => open(path, durable),
        };
        let (file, is_in_line) = opened.with_context(|| match &destination {
            Destination::Stdout => "audit.destination: standard output cannot be used".to_owned(),
            Destination::File(path) => {
                format!("audit.file: {} cannot be opened", path.display())
            }
        })?;
        Ok(Self {
            destination,
            file,
            is_in_line,
            durable,
            clock,
            progress,
            reported: 0,
        })
    }

    /// Opens the file again if it was renamed or removed. Returns the one from before if it did.
    fn follow_name(&mut self) -> io::Result<Option<File>> {
        let Destination::File(path) = &self.destination else {
            return Ok(None);
        };
        match fs::symlink_metadata(path) {
            Ok(metadata) if id(&metadata) == id(&self.file.metadata()?) => return Ok(None),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let (file, is_in_line) = open(path, self.durable)?;
        self.is_in_line = is_in_line;
        Ok(Some(mem::replace(&mut self.file, file)))
    }

    /// Writes a batch from `written` on, and counts there.
    fn write_rest(&mut self, batch: &[u8], written: &mut usize) -> io::Result<()> {
        // The ordinary log writes to standard output too, whole lines under this lock.
        let _lock = matches!(self.destination, Destination::Stdout).then(|| io::stdout().lock());
        if let Some(file) = self.follow_name()? {
            // The file from before has the beginning of a line at most.
            let before = batch.get(..*written).unwrap_or_default();
            let line = before.iter().rposition(|byte| *byte == b'\n');
            *written = line.map_or(0, |end| end + 1);
            // Its lines of this batch must be on the disk too.
            if self.durable && *written > 0 && file.sync_data().is_err() {
                *written = 0;
            }
        }
        if self.is_in_line {
            self.file.write_all(b"\n")?;
            self.is_in_line = false;
        }
        write_from(&mut self.file, batch, written)?;
        // Not a device.
        if self.durable && self.file.metadata()?.is_file() {
            // After an error it is not known what is on the disk, and a second call may succeed
            // without having written it.
            self.file.sync_data().inspect_err(|_| *written = 0)?;
        }
        Ok(())
    }

    /// A batch, with the line about those of these lost lines that were not reported, if there are any.
    fn with_report<'b>(&self, batch: &'b [u8], lost: u64) -> Cow<'b, [u8]> {
        match lost - self.reported {
            0 => batch.into(),
            count => [batch, &Line::lines_lost(count).to_json(self.clock.now())]
                .concat()
                .into(),
        }
    }
}

impl Sink for Output {
    /// A slow disk loses no line.
    fn final_deadline(&self) -> Option<Duration> {
        match self.destination {
            Destination::Stdout => Some(STDOUT_DEADLINE),
            Destination::File(_) => None,
        }
    }

    fn write(&mut self, batch: &[u8], queue: &LineQueue) {
        // Lines are lost while the queue is full, so those of now came after this batch.
        let lost_until_now = self.progress.metrics.families.audit_lines_lost.get();
        // Written like the lines of the batch, so that an error in the middle of it is followed by its rest.
        let lines = self.with_report(batch, lost_until_now);
        let (mut written, mut is_last) = (0, false);
        while let Err(error) = self.write_rest(&lines, &mut written) {
            self.progress.failed(&error);
            if is_last {
                let lost = lines_in(batch.get(written..).unwrap_or_default());
                self.progress.metrics.families.audit_lines_lost.inc_by(lost);
                tracing::error!(lost, "lines of the audit log are lost");
                return;
            }
            is_last = queue.wait_for_stop(RETRY_INTERVAL);
        }
        self.progress.succeeded(batch);
        self.reported = lost_until_now;
    }
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Opens the file with this name to append to it, or makes it, and tells whether it ends in a line. Only its owner can read
/// a new file. Users other than its owner and its group can never read it. A durable file has its name on the disk.
fn open(path: &Path, durable: bool) -> io::Result<(File, bool)> {
    let file = options().create(true).open(path).map_err(readable)?;
    let metadata = file.metadata()?;
    refuse_other_kinds(&metadata)?;
    let mode = files::mode(&metadata);
    if metadata.is_file() && mode & OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(mode & !OTHERS))?;
    }
    if durable && metadata.is_file() {
        File::open(folder(path))?.sync_all()?;
    }
    Ok((file, ends_in_line(path, &metadata)))
}

/// Whether the last line has no end. Not known of a file that the gateway may only append to.
fn ends_in_line(path: &Path, metadata: &Metadata) -> bool {
    let Some(last) = metadata.len().checked_sub(1) else {
        return false;
    };
    let mut byte = [b'\n'];
    let read = options()
        .append(false)
        .read(true)
        .open(path)
        .and_then(|file| file.read_exact_at(&mut byte, last));
    read.is_ok() && byte != *b"\n"
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// A symbolic link is not followed: a user who may make one could choose the file. Opening a pipe
/// does not block.
fn options() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options
        .append(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed());
    options
}

fn readable(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        return io::Error::other("is a symbolic link");
    }
    error
}

fn refuse_other_kinds(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() || metadata.file_type().is_char_device() {
        Ok(())
    } else {
        Err(io::Error::other("is not a file"))
    }
}

/// Checks whether the file can be opened or made, and changes nothing.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let checked = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err(io::Error::other("is a symbolic link")),
        Ok(metadata) => refuse_other_kinds(&metadata).and_then(|()| options().open(path).map(drop)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let needed = Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::access(folder(path), needed).map_err(io::Error::from)
        }
        Err(error) => Err(error),
    };
    checked.map_err(|error| format!("{}: {}", path.display(), files::reason(&error)))
}
