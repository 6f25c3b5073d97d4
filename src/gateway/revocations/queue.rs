//! The order in which revocations are offered to Redis. Each is in at most one of the three lists:
//! [`super::entry::Entry`] has its state.

use std::collections::VecDeque;

use super::Key;
use super::entry::Resend;

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Not yet offered over this connection.
    fresh: VecDeque<Key>,
    /// Refused.
    refused: VecDeque<Key>,
    /// Being offered.
    offered: Vec<Key>,
    /// Whether the refused ones may be offered again.
    retry: bool,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.refused.len() + self.offered.len()
    }

    pub(super) fn push(&mut self, key: Key) {
        self.fresh.push_back(key);
    }

    /// The next ones to offer, at most `max`, of those that have to be.
    pub(super) fn offer(&mut self, max: usize, mut has_to_be: impl FnMut(&Key) -> bool) -> &[Key] {
        let from = if self.fresh.is_empty() && std::mem::take(&mut self.retry) {
            &mut self.refused
        } else {
            &mut self.fresh
        };
        while self.offered.len() < max
            && let Some(key) = from.pop_front()
        {
            if has_to_be(&key) {
                self.offered.push(key);
            }
        }
        &self.offered
    }

    /// The results of the last offer are known.
    pub(super) fn settled(&mut self) {
        self.offered.clear();
    }

    /// Queues an offered one again, if it must be.
    pub(super) fn requeue(&mut self, key: Key, again: Option<Resend>) {
        match again {
            None => {}
            Some(Resend::AtOnce) => self.fresh.push_back(key),
            Some(Resend::Later) => self.refused.push_back(key),
        }
    }

    /// Puts all of them into one list, in the order of their offers, and returns them.
    pub(super) fn requeue_all(&mut self) -> impl Iterator<Item = &Key> {
        let mut all = VecDeque::from(std::mem::take(&mut self.offered));
        all.append(&mut self.refused);
        all.append(&mut self.fresh);
        self.fresh = all;
        self.retry = false;
        self.fresh.iter()
    }

    pub(super) fn retry_refused(&mut self) {
        self.retry = true;
    }

    /// Removes those for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        self.fresh.retain(&keep);
        self.refused.retain(&keep);
        self.offered.retain(&keep);
    }
}
