//! The log of revocations.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;

use super::format::{self, ENTRY_LEN, RevocationEntry};
use super::log::Codec;
use super::outbox::Outbox;
use auth_gateway_core::Keys;
use auth_gateway_core::event::EntryOutcome;
use auth_gateway_core::revocations::{
    RemoteOutcome, Revocation, RevocationIndex, RevocationKey, Revocations,
};
use auth_gateway_core::stream_mac_key::{KEY_ID_LEN, StreamMacKey};

/// The revocations of a gateway, and those of the others, which its table gets.
#[derive(Debug)]
pub(super) struct RevocationCodec {
    pub(super) revocations: Arc<Revocations>,
    pub(super) keys: Arc<Keys>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Codec<ENTRY_LEN> for RevocationCodec {
    type Item = RevocationIndex;
    type Content = Revocation;

    const READ_PAUSE: Duration = Duration::from_millis(25);

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        let keys = self.keys.sealing.key_set();
        let keys = keys.iter().map(|key| RevocationKey::of(key).entries());
        keys.map(StreamMacKey::id).collect()
    }

    fn load(&self, index: &RevocationIndex) -> Option<Revocation> {
        self.revocations.get(index)
    }

    fn encode(&self, batch: &[(RevocationIndex, Revocation)]) -> Vec<RevocationEntry> {
        let keys = self.keys.sealing.key_set();
        let key = RevocationKey::of(keys.current(self.clock.now())).entries();
        let entries = batch.iter();
        entries
            .map(|(_, content)| format::write(content, key))
            .collect()
    }

    fn apply(
        &self,
        entry: &RevocationEntry,
        outbox: &Outbox<RevocationIndex>,
    ) -> Option<EntryOutcome> {
        let keys = self.keys.sealing.key_set();
        let revocation = match format::read(entry, &keys) {
            Ok(revocation) => revocation,
            Err(why) => return Some(EntryOutcome::Ignored(why)),
        };
        let learned = self.revocations.apply_remote(&revocation, self.clock.now());
        let is_current = || self.revocations.is_latest(&revocation);
        outbox.found(&revocation.index(), is_current);
        (learned == RemoteOutcome::New).then_some(EntryOutcome::Received)
    }

    fn initial_sync_done(&self) {
        self.revocations.initial_sync_done(self.clock.now());
    }

    fn missing(&self, is_missing: &dyn Fn(&RevocationIndex) -> bool) -> Vec<RevocationIndex> {
        self.revocations.shared(self.clock.now(), is_missing)
    }

    fn is_catching_up(&self) -> bool {
        self.revocations.is_catching_up()
    }
}
