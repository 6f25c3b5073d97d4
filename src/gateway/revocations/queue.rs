//! The order in which ends are offered to Redis. Each is in one of the three lists at most, which
//! [`super::entry::Entry`] keeps track of.

use std::collections::VecDeque;

use super::Key;
use super::entry::Again;

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Not yet offered over this connection.
    fresh: VecDeque<Key>,
    /// Offered, and refused.
    refused: VecDeque<Key>,
    /// Being offered.
    offered: Vec<Key>,
    /// The refused may be offered again.
    retry: bool,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.refused.len() + self.offered.len()
    }

    pub(super) fn push(&mut self, key: Key) {
        self.fresh.push_back(key);
    }

    /// The next ones, up to so many.
    pub(super) fn offer(&mut self, most: usize) -> impl Iterator<Item = Key> {
        let from = if self.fresh.is_empty() && std::mem::take(&mut self.retry) {
            &mut self.refused
        } else {
            &mut self.fresh
        };
        let count = from.len().min(most);
        self.offered.extend(from.drain(..count));
        self.offered.iter().copied()
    }

    /// What was offered is offered no longer.
    pub(super) fn settled(&mut self) {
        self.offered.clear();
    }

    /// Queues one again that was offered, where it has to be.
    pub(super) fn take_back(&mut self, key: Key, again: Option<Again>) {
        match again {
            None => {}
            Some(Again::AtOnce) => self.fresh.push_back(key),
            Some(Again::Later) => self.refused.push_back(key),
        }
    }

    /// Puts all of them into one list, what was offered first; returns them.
    pub(super) fn all_again(&mut self) -> impl Iterator<Item = &Key> {
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

    /// Removes all others.
    pub(super) fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        self.fresh.retain(&keep);
        self.refused.retain(&keep);
        self.offered.retain(&keep);
    }
}
