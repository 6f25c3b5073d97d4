//! Whether tokens are signed on what was known before the IAM fell silent. Told once at the
//! beginning and once at the end, and not with each token: in an outage every client comes.

use std::time::Duration;

use iam_adapters::Moment;

/// How long after the last such token it is over. Longer than the IAM takes to be asked again, so
/// that one that answers every other time is told of once.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Spell {
    began: Moment,
    last: Moment,
    tokens: u64,
}

/// The time over which `stale_if_error` is made use of.
#[derive(Debug, Default)]
pub(super) struct Stale(Option<Spell>);

impl Stale {
    /// A token was signed on stale knowledge.
    pub(super) fn served(&mut self, now: Moment) {
        self.look(now);
        let spell = self.0.get_or_insert_with(|| {
            tracing::warn!("the IAM does not answer: tokens are signed on stale knowledge");
            Spell {
                began: now,
                last: now,
                tokens: 0,
            }
        });
        spell.last = now;
        spell.tokens += 1;
    }

    /// Finds out whether it is over.
    pub(super) fn look(&mut self, now: Moment) {
        let over = |spell: &mut Spell| now.since(spell.last) >= QUIET;
        if let Some(spell) = self.0.take_if(over) {
            tracing::info!(
                tokens = spell.tokens,
                duration_s = spell.last.since(spell.began).as_secs(),
                "no token is signed on stale knowledge any more"
            );
        }
    }

    /// Whether it goes on.
    pub(super) fn goes_on(&self, now: Moment) -> bool {
        self.0
            .as_ref()
            .is_some_and(|spell| now.since(spell.last) < QUIET)
    }
}
