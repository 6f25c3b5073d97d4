//! A Redis server, as far as the gateway uses it, and a server that takes over from it.

use std::collections::BTreeMap;
use std::time::Duration;

use auth_gateway_core::revocations::RevocationIndex;

use crate::clock::{START, TrueTime, ahead};
use crate::resp::Reply;
use crate::script::Scripts;

/// The id of an entry of a stream.
type EntryId = (u64, u64);

/// A change of the data, and its true time.
#[derive(Debug, Clone)]
struct Write {
    at: Duration,
    change: Change,
}

#[derive(Debug, Clone)]
enum Change {
    Add {
        key: Vec<u8>,
        id: EntryId,
        fields: Vec<Vec<u8>>,
    },
    Remove {
        key: Vec<u8>,
        id: EntryId,
    },
    Set {
        key: Vec<u8>,
        value: Vec<u8>,
        /// By the clock of the server, since 1970.
        expires_at: Duration,
    },
    Delete(Vec<u8>),
}

#[derive(Debug, Default)]
struct Stream {
    entries: BTreeMap<EntryId, Vec<Vec<u8>>>,
    last: EntryId,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    time: TrueTime,
    /// How far its clock is ahead, in milliseconds.
    pub(crate) clock_ahead: i64,
    streams: BTreeMap<Vec<u8>, Stream>,
    values: BTreeMap<Vec<u8>, (Vec<u8>, Duration)>,
    writes: Vec<Write>,
    /// It refuses writes until then.
    pub(crate) refuses_until: Duration,
    /// Its connections end then.
    pub(crate) ends_at: Duration,
}

impl Server {
    pub(crate) fn new(time: TrueTime, clock_ahead: i64) -> Self {
        Self {
            time,
            clock_ahead,
            streams: BTreeMap::new(),
            values: BTreeMap::new(),
            writes: Vec::new(),
            refuses_until: Duration::ZERO,
            ends_at: Duration::MAX,
        }
    }

    /// A server that takes over, without the writes of the last time.
    pub(crate) fn successor(&self, lost: Duration, clock_ahead: i64) -> Self {
        let mut successor = Self::new(self.time, clock_ahead);
        let until = self.time.now().saturating_sub(lost);
        for write in self.writes.iter().filter(|write| write.at <= until) {
            successor.apply(write.clone());
        }
        successor
    }

    /// Loses a key.
    pub(crate) fn delete(&mut self, key: &str) {
        let at = self.time.now();
        let change = Change::Delete(key.as_bytes().to_vec());
        self.apply(Write { at, change });
    }

    /// The latest time of a revocation in the stream, in milliseconds since 1970.
    pub(crate) fn begun_until(&self, stream: &str, (kind, id): RevocationIndex) -> Option<u64> {
        let stream = self.streams.get(stream.as_bytes())?;
        let entries = stream.entries.values().map(|fields| fields[1].as_slice());
        let found =
            entries.filter(|entry| entry[17] == kind as u8 && entry[18..34] == *id.as_bytes());
        let until = |entry: &[u8]| u64::from_be_bytes(entry[9..17].try_into().expect("8 bytes"));
        found.map(until).max()
    }

    fn unix(&self) -> Duration {
        ahead(START + self.time.now(), self.clock_ahead)
    }

    fn apply(&mut self, write: Write) {
        match write.change.clone() {
            Change::Add { key, id, fields } => {
                let stream = self.streams.entry(key).or_default();
                stream.entries.insert(id, fields);
                stream.last = id;
            }
            Change::Remove { key, id } => {
                if let Some(stream) = self.streams.get_mut(&key) {
                    stream.entries.remove(&id);
                }
            }
            Change::Set {
                key,
                value,
                expires_at,
            } => {
                self.values.insert(key, (value, expires_at));
            }
            Change::Delete(key) => {
                self.streams.remove(&key);
                self.values.remove(&key);
            }
        }
        self.writes.push(write);
    }

    fn write(&mut self, change: Change) {
        let at = self.time.now();
        self.apply(Write { at, change });
    }

    /// A command of a client.
    pub(crate) fn command(&mut self, scripts: &mut Scripts, parts: &[Vec<u8>]) -> Reply {
        match parts[0].as_slice() {
            b"HELLO" => Reply::Map(vec![(Reply::text("proto"), Reply::Number(3))]),
            b"EVAL" => scripts.eval(self, &parts[1..]),
            _ => self.execute(parts),
        }
    }

    /// A command of a client or of a script.
    pub(crate) fn execute(&mut self, parts: &[Vec<u8>]) -> Reply {
        let text = |number: usize| String::from_utf8_lossy(&parts[number]).into_owned();
        let number = |of: usize| text(of).parse::<u64>().expect("a number");
        let key = || parts[1].clone();
        let refuses = self.time.now() < self.refuses_until;
        match parts[0].as_slice() {
            b"TIME" => {
                let now = self.unix();
                let parts = [now.as_secs(), u64::from(now.subsec_micros())];
                Reply::Array(parts.map(|part| Reply::text(&part.to_string())).to_vec())
            }
            b"XADD" | b"SET" | b"XDEL" if refuses => {
                Reply::Error("OOM command not allowed when used memory > 'maxmemory'.")
            }
            b"XADD" => {
                let fields = parts.iter().skip_while(|part| *part != b"*").skip(1);
                let fields = fields.cloned().collect();
                let now = u64::try_from(self.unix().as_millis()).expect("a time");
                let last = self
                    .streams
                    .get(&key())
                    .map_or((0, 0), |stream| stream.last);
                let id = (now, 0).max((last.0, last.1 + 1));
                let key = key();
                self.write(Change::Add { key, id, fields });
                Reply::text(&shown(id))
            }
            b"XRANGE" => {
                let (from, count) = (
                    text(2),
                    parts
                        .get(5)
                        .map_or(usize::MAX, |_| text(5).parse().expect("a number")),
                );
                let (excluded, from) = match from.strip_prefix('(') {
                    Some(from) => (true, parsed(from)),
                    None => (false, parsed(&from)),
                };
                let until = match text(3).as_str() {
                    "+" => (u64::MAX, u64::MAX),
                    until => parsed(until),
                };
                let Some(stream) = self.streams.get(&key()) else {
                    return Reply::Array(Vec::new());
                };
                let entries = stream.entries.range(from..=until);
                let entries = entries
                    .filter(|(id, _)| !excluded || **id != from)
                    .take(count);
                let entries = entries.map(|(id, fields)| {
                    let fields = fields.iter().cloned().map(Reply::Bulk).collect();
                    Reply::Array(vec![Reply::text(&shown(*id)), Reply::Array(fields)])
                });
                Reply::Array(entries.collect())
            }
            b"XDEL" => {
                let (key, id) = (key(), parsed(&text(2)));
                self.write(Change::Remove { key, id });
                Reply::Number(1)
            }
            b"SET" => {
                assert_eq!(parts[3], b"PX", "a lifetime");
                let (key, value) = (key(), parts[2].clone());
                let expires_at = self.unix() + Duration::from_millis(number(4));
                self.write(Change::Set {
                    key,
                    value,
                    expires_at,
                });
                Reply::Ok
            }
            b"PTTL" => Reply::Number(self.value(&key()).map_or(-2, |(_, remaining)| {
                i64::try_from(remaining.as_millis()).expect("a lifetime")
            })),
            b"GETRANGE" => {
                let value = self.value(&key()).map(|(value, _)| value);
                Reply::Bulk(value.map(<[u8]>::to_vec).unwrap_or_default())
            }
            other => panic!("unknown command {}", String::from_utf8_lossy(other)),
        }
    }

    /// A value, and how long it remains.
    fn value(&self, key: &[u8]) -> Option<(&[u8], Duration)> {
        let (value, expires_at) = self.values.get(key)?;
        let remaining = expires_at.checked_sub(self.unix())?;
        (!remaining.is_zero()).then_some((value, remaining))
    }
}

fn shown((millis, number): EntryId) -> String {
    format!("{millis}-{number}")
}

fn parsed(id: &str) -> EntryId {
    let (millis, number) = id.split_once('-').expect("an id");
    let parsed = |text: &str| text.parse().expect("a number");
    (parsed(millis), parsed(number))
}
