//! Named and random sequences of calls to both servers.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join;
use futures_util::stream;
use serde_json::Value;
use test_support::rng::Rng;

use super::deviations::DEVIATIONS;
use super::keycloak_server::KeycloakServer;
use super::mock_server::MockServer;
use super::named;
use super::observed::{Difference, differences, now};
use super::sequence::{PHASES, Run, Sequence, random, until_next_otp};
use super::server::RealmServer;

/// The sequences that run at the same time.
const BATCH: usize = 25;
/// The connections to one server.
const LANES: usize = 6;

/// How far the time advances between two parts: to another one-time password, past a lock-out of five minutes, within
/// the lifetime of sessions of eight hours, and past it. The sums are not near one of these bounds.
const ADVANCES: [u64; 4] = [60, 420, 10_000, 29_000];

/// Both servers, with the same time.
pub(super) struct Servers {
    pub(super) keycloak: KeycloakServer,
    pub(super) mock: MockServer,
    ahead: Duration,
    batches: usize,
}

/// A difference without a statement in the table, and the call where it was seen.
type Found = Option<(String, Difference)>;

impl Servers {
    pub(super) const fn new(keycloak: KeycloakServer, mock: MockServer) -> Self {
        Self {
            keycloak,
            mock,
            ahead: Duration::ZERO,
            batches: 0,
        }
    }

    /// Compares the named sequences, and adds the stated deviations that were seen.
    pub(super) async fn compare_named(&mut self, seen: &mut BTreeSet<&'static str>) {
        let (rules, sequences): (Vec<_>, Vec<_>) = named::sequences().into_iter().unzip();
        let found = self.run(&sequences, named::ADVANCES, seen).await;
        let differing = rules.iter().zip(found);
        let differing: Vec<_> = differing.filter(|(_, found)| found.is_some()).collect();
        assert!(differing.is_empty(), "{differing:#?}");
    }

    /// Compares random sequences, and adds the stated deviations that were seen. `MOCK_EQUALITY_SEED` repeats a run, and
    /// `MOCK_EQUALITY_SEQUENCES` is their number.
    pub(super) async fn compare_random(
        &mut self,
        count: usize,
        stated: &mut BTreeSet<&'static str>,
    ) {
        let seed = Rng::from_env("MOCK_EQUALITY_SEED").seed();
        println!("MOCK_EQUALITY_SEED={seed}");
        let mut calls = 0;
        for batch in 0..count.div_ceil(BATCH) {
            // Each batch can be repeated without the others.
            let seed = seed.wrapping_add(batch as u64);
            let mut rng = Rng::new(seed);
            let advances = [(); PHASES].map(|()| *rng.one_of(&ADVANCES));
            let size = BATCH.min(count - batch * BATCH);
            let sequences: Vec<_> = (0..size).map(|_| random(&mut rng)).collect();
            calls += sequences.iter().flatten().map(Vec::len).sum::<usize>();
            let found = self.run(&sequences, advances, stated).await;
            if let Some(at) = found.iter().position(Option::is_some) {
                let (sequence, found) = (&sequences[at], &found[at]);
                let minimal = self.reduced(sequence.clone(), advances, found).await;
                let number = batch * BATCH + at + 1;
                panic!(
                    "MOCK_EQUALITY_SEED={seed}: sequence {number} differs: {found:?}\n\
                     seconds before its parts: {advances:?}\nreduced to {minimal:?}"
                );
            }
        }
        println!("{count} random sequences with {calls} steps");
    }

    /// Removes steps as long as the same value differs.
    async fn reduced(
        &mut self,
        mut sequence: Sequence,
        advances: [u64; PHASES],
        wanted: &Found,
    ) -> Sequence {
        let path = |found: &Found| {
            let found = found.as_ref();
            found.map(|(_, difference)| difference.path.clone())
        };
        loop {
            let mut candidates = Vec::new();
            for phase in 0..PHASES {
                for step in 0..sequence[phase].len() {
                    let mut candidate = sequence.clone();
                    candidate[phase].remove(step);
                    candidates.push(candidate);
                }
            }
            let found = self.run(&candidates, advances, &mut BTreeSet::new()).await;
            let same = |found: &Found| path(found) == path(wanted);
            match found.iter().position(same) {
                Some(smaller) => sequence = candidates.swap_remove(smaller),
                None => return sequence,
            }
        }
    }

    /// Runs sequences at both servers; returns the first unstated difference of each.
    async fn run(
        &mut self,
        sequences: &[Sequence],
        advances: [u64; PHASES],
        seen: &mut BTreeSet<&'static str>,
    ) -> Vec<Found> {
        self.batches += 1;
        let servers: [&dyn RealmServer; 2] = [&self.keycloak, &self.mock];
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        for number in 0..sequences.len() {
            let name = format!("batch-{}-{number}", self.batches);
            let runs = join(Run::new(servers[0], &name), Run::new(servers[1], &name)).await;
            one.push(runs.0);
            other.push(runs.1);
        }
        for (phase, advance) in advances.into_iter().enumerate() {
            // A part begins with the 30 s of a one-time password.
            let by = Duration::from_secs(advance) + until_next_otp(self.ahead);
            for server in servers {
                server.advance(by).await;
            }
            self.ahead += by;
            let times = (self.ahead, now(self.ahead));
            join(
                part(&mut one, sequences, phase, times),
                part(&mut other, sequences, phase, times),
            )
            .await;
        }
        join(ends(&mut one), ends(&mut other)).await;
        let pairs = one.iter().zip(&other);
        pairs
            .map(|(one, other)| unstated(&one.observed, &other.observed, seen))
            .collect()
    }
}

async fn part(
    runs: &mut [Run<'_>],
    sequences: &[Sequence],
    phase: usize,
    (ahead, began): (Duration, Duration),
) {
    let runs = stream::iter(runs.iter_mut().zip(sequences));
    runs.for_each_concurrent(LANES, async |(run, sequence)| {
        run.phase(&sequence[phase], ahead, began).await;
    })
    .await;
}

async fn ends(runs: &mut [Run<'_>]) {
    let runs = stream::iter(runs);
    runs.for_each_concurrent(LANES, async |run| run.end().await)
        .await;
}

/// The first difference that is not stated. Notes those that are.
fn unstated(
    keycloak: &[(String, Value)],
    mock: &[(String, Value)],
    seen: &mut BTreeSet<&'static str>,
) -> Found {
    for ((name, keycloak), (of_mock, mock)) in keycloak.iter().zip(mock) {
        let mut all = Vec::new();
        differences("", keycloak, mock, &mut all);
        if name != of_mock {
            differences(
                "name",
                &name.as_str().into(),
                &of_mock.as_str().into(),
                &mut all,
            );
        }
        for difference in all {
            let mut stated = DEVIATIONS.iter();
            match stated.find(|deviation| (deviation.is)(name, &difference)) {
                Some(deviation) => {
                    seen.insert(deviation.id);
                }
                None => return Some((name.clone(), difference)),
            }
        }
    }
    None
}
