//! What purge has looked at of the chains that it frees in parts ([`crate::purge::parts`]).

use holdfast_base::blocking::Mutex;
use holdfast_base::{HashMap, IndexId, PageNo};
use holdfast_tree::OverflowRef;
use holdfast_tree::overflow::Proof;

/// Of the chains that are being freed in parts, how much has been looked at. Those of an index that
/// is dropped meanwhile stay here.
#[derive(Debug, Default)]
pub(crate) struct Proofs(Mutex<HashMap<(IndexId, PageNo), Proof>>);

impl Proofs {
    pub fn take(&self, index: IndexId, chain: OverflowRef) -> Proof {
        let found = self.0.lock().remove(&(index, chain.first));
        found.filter(|proof| proof.chain() == chain).unwrap_or_else(|| Proof::begin(chain))
    }

    pub fn put(&self, index: IndexId, proof: Proof) {
        self.0.lock().insert((index, proof.chain().first), proof);
    }
}
