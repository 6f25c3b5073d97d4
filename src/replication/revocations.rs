//! The log of revocations.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;

use super::format::{self, ENTRY_LEN, Entry};
use super::log::Codec;
use super::outbox::Outbox;
use auth_gateway_core::Gateway;
use auth_gateway_core::entry_key::{EntryKey, KEY_ID_LEN};
use auth_gateway_core::event::EntryOutcome;
use auth_gateway_core::revocations::{Learned, Revocation, RevocationIndex, RevocationKey};

/// Sends the revocations of a gateway, and applies those of the others to it.
#[derive(Debug)]
pub(super) struct RevocationCodec {
    pub(super) gateway: Arc<Gateway>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Codec<ENTRY_LEN> for RevocationCodec {
    type Item = RevocationIndex;
    type Content = Revocation;

    const READ_PAUSE: Duration = Duration::from_millis(25);

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        let keys = self.gateway.keys().sealing.key_set();
        let keys = keys.iter().map(|key| RevocationKey::of(key).entries());
        keys.map(EntryKey::id).collect()
    }

    fn load(&self, index: &RevocationIndex) -> Option<Revocation> {
        self.gateway.session_revoker().revocations().get(index)
    }

    fn encode(&self, batch: &[(RevocationIndex, Revocation)]) -> Vec<Entry> {
        let keys = self.gateway.keys().sealing.key_set();
        let key = RevocationKey::of(keys.current(self.clock.now())).entries();
        let entries = batch.iter();
        entries
            .map(|(_, content)| format::write(content, key))
            .collect()
    }

    fn apply(&self, entry: &Entry, outbox: &Outbox<RevocationIndex>) -> Option<EntryOutcome> {
        let keys = self.gateway.keys().sealing.key_set();
        let revocation = match format::read(entry, &keys) {
            Ok(revocation) => revocation,
            Err(why) => return Some(EntryOutcome::Ignored(why)),
        };
        let revoker = self.gateway.session_revoker();
        let learned = revoker.learn(&revocation);
        let is_current = || revoker.revocations().is_latest(&revocation);
        outbox.found(&revocation.index(), is_current);
        (learned == Learned::New).then_some(EntryOutcome::Received)
    }

    fn caught_up(&self) {
        self.gateway.caught_up();
    }

    fn missing(&self, is_missing: &dyn Fn(&RevocationIndex) -> bool) -> Vec<RevocationIndex> {
        let revocations = self.gateway.session_revoker().revocations();
        revocations.shared(self.clock.now(), is_missing)
    }

    fn is_catching_up(&self) -> bool {
        let revocations = self.gateway.session_revoker().revocations();
        revocations.is_catching_up()
    }
}
