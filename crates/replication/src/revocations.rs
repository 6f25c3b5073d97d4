//! The log of revocations.

use std::sync::Arc;
use std::time::Duration;

use super::format::{self, ENTRY_LEN, RevocationEntry};
use super::log::Codec;
use super::outbox::Outbox;
use auth_gateway_core::event::EntryOutcome;
use auth_gateway_core::replica_state::ReplicaState;
use auth_gateway_core::revocations::{Revocation, RevocationIndex, RevocationKey};
use auth_gateway_core::stream_mac_key::{KEY_ID_LEN, StreamMacKey};

/// The revocations of a gateway, and those of the others, which its table gets.
#[derive(Debug)]
pub(super) struct RevocationCodec(pub(super) Arc<ReplicaState>);

impl Codec<ENTRY_LEN> for RevocationCodec {
    type Item = RevocationIndex;
    type Content = Revocation;

    const READ_PAUSE: Duration = Duration::from_millis(25);
    const ADDS_AGAIN: bool = true;

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        let keys = self.0.keys.sealing.key_set();
        let keys = keys.iter().map(|key| RevocationKey::of(key).entries());
        keys.map(StreamMacKey::id).collect()
    }

    fn load(&self, index: &RevocationIndex) -> Option<Revocation> {
        self.0.revocations.get(index)
    }

    fn encode(&self, batch: &[(RevocationIndex, Revocation)]) -> Vec<RevocationEntry> {
        let keys = self.0.keys.sealing.key_set();
        let key = RevocationKey::of(keys.current(self.0.clock.now())).entries();
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
        let keys = self.0.keys.sealing.key_set();
        let revocation = match format::read(entry, &keys) {
            Ok(revocation) => revocation,
            Err(why) => return Some(EntryOutcome::Ignored(why)),
        };
        let is_new = (self.0.revocations).apply_remote(&revocation, self.0.clock.now());
        let is_current = || self.0.revocations.is_latest(&revocation);
        outbox.found(&revocation.index(), is_current);
        is_new.then_some(EntryOutcome::Received)
    }

    fn initial_sync_done(&self) {
        self.0.revocations.initial_sync_done(self.0.clock.now());
    }

    fn live(&self) -> Vec<RevocationIndex> {
        self.0.revocations.shared(self.0.clock.now())
    }

    fn is_catching_up(&self) -> bool {
        self.0.revocations.is_catching_up()
    }
}
