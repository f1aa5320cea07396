//! What a transaction read with a lock last: mostly it is changed next.

use holdfast_base::IndexId;
use holdfast_tree::Spot;

use crate::entry::index::TableIndex;
use crate::system::OpenView;

/// The entry that the transaction, or a cursor of it, read with a lock last, and the buffer for its
/// payload.
#[derive(Debug, Default)]
pub(crate) struct LastRead {
    at: Option<(IndexId, Spot)>,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl LastRead {
    /// Where `key` was read, if that is what was read last. The payload is what it was there.
    pub fn spot_of(&self, index: &TableIndex, key: &[u8]) -> Option<Spot> {
        let (id, spot) = self.at?;
        (id == index.id() && self.key == key).then_some(spot)
    }

    /// Takes the buffer, and forgets what was read.
    pub fn take_payload(&mut self) -> Vec<u8> {
        self.at = None;
        std::mem::take(&mut self.payload)
    }

    /// Gives the buffer back.
    pub fn give_buffer(&mut self, buffer: Vec<u8>) {
        self.payload = buffer;
    }

    pub fn remember(&mut self, index: &TableIndex, key: &[u8], spot: Spot, payload: Vec<u8>) {
        self.at = Some((index.id(), spot));
        self.key.clear();
        self.key.extend_from_slice(key);
        self.payload = payload;
    }
}

/// What a transaction shares with its locking cursors.
#[derive(Default)]
pub(crate) struct ForCursors {
    /// What one of them read last.
    pub read: LastRead,
    /// The transaction's view, once it has one, if the first updater wins.
    pub view: Option<OpenView>,
}
