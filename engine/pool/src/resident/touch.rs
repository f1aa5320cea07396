//! What an access tells the replacement policy.

use std::sync::atomic::Ordering;

use holdfast_base::PageId;
use holdfast_policy::{Policy, TouchEffect, TouchRules};

use crate::core::Core;
use crate::read::request::Access;
use crate::resident::header::{FrameHeader, READ_AHEAD};
use crate::resident::partition::HeaderWords;

impl Core {
    /// Tells the policy of an access to the page in a frame, and counts it. For a hot page that is
    /// a look at its header.
    #[inline]
    pub(crate) fn touch(&self, frame: u32, header: &FrameHeader, id: PageId, acc: &Access<'_>) {
        acc.count_request();
        // A page that was read ahead is not settled before its first touch.
        if !TouchRules::is_settled(header.policy.load(Ordering::Relaxed)) {
            self.touch_unsettled(frame, header, id, acc);
        }
    }

    #[cold]
    #[inline(never)]
    fn touch_unsettled(&self, frame: u32, header: &FrameHeader, id: PageId, acc: &Access<'_>) {
        if header.has(READ_AHEAD) {
            header.clear(READ_AHEAD);
        }
        let (partition, touch) = (self.partition(id), acc.touch(id));
        let word = header.policy.load(Ordering::Relaxed);
        match partition.rules().touch(word, || partition.clock(), &touch) {
            TouchEffect::None => {}
            TouchEffect::Store(new) => {
                let _ = header.policy.compare_exchange(word, new, Ordering::Relaxed, Ordering::Relaxed);
            }
            TouchEffect::NotYoung => acc.count_not_young(),
            TouchEffect::Locked => {
                partition.with_policy(|p| p.touch_locked(frame, &touch, &HeaderWords(&self.frames)));
            }
        }
    }
}
