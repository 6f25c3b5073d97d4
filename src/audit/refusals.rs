//! Refusals without a line of their own. A client without credentials can cause any number of them, and must not fill
//! the disk. So they are counted, and written as one line for each client and interval.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem;
use std::time::Duration;

use parking_lot::Mutex;

use super::line::{Client, Line, LineSampling, RefusalCounts};

/// How often the sums are written.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// How many clients have a sum of their own in one interval. Those of all others are added up.
const CLIENTS_MAX: usize = 100;

/// How many refusals have a line of their own in one interval.
const LINES_MAX: usize = 100;

/// The refusals of the current interval.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Interval>);

#[derive(Default)]
struct Interval {
    /// How many refusals got a line.
    lines: usize,
    /// By the identifier of the client; `None`: the clients beyond [`CLIENTS_MAX`].
    clients: BTreeMap<Option<String>, (Client, RefusalCounts)>,
}

impl Refusals {
    /// Whether the line is written. Counts it if not.
    pub(super) fn is_written(&self, line: &Line) -> bool {
        let Some(reason) = line.reason.filter(|_| line.sampling != LineSampling::Each) else {
            return true;
        };
        let mut interval = self.0.lock();
        let Interval { lines, clients } = &mut *interval;
        let key = line.client.network.clone();
        let has_room = clients.len() < CLIENTS_MAX || clients.contains_key(&key);
        let (key, client) = if has_room {
            (key, line.client.clone())
        } else {
            (None, Client::default())
        };
        let (_, counts) = clients
            .entry(key)
            .or_insert_with(|| (client, BTreeMap::new()));
        let may_have_line = line.sampling == LineSampling::First && has_room && *lines < LINES_MAX;
        match counts.entry(line.event).or_default().entry(reason) {
            Entry::Vacant(first) if may_have_line => {
                *lines += 1;
                first.insert(0);
                true
            }
            entry => {
                *entry.or_default() += 1;
                false
            }
        }
    }

    /// The sums of the interval, which ends.
    pub(super) fn take(&self) -> impl Iterator<Item = Line> {
        let mut interval = self.0.lock();
        let Interval { clients, .. } = mem::take(&mut *interval);
        clients.into_values().filter_map(|(client, mut refused)| {
            refused.retain(|_, reasons| {
                reasons.retain(|_, count| *count > 0);
                !reasons.is_empty()
            });
            let count = refused.values().flat_map(BTreeMap::values).sum();
            (count > 0).then(|| Line::refusals(client, count, &refused))
        })
    }
}
