//! Replays a trace through one of the engine's policies, with the calls that the buffer pool makes.

use std::cell::Cell;

use holdfast_policy::{
    AnyPolicy, Policy, PolicyKind, ScanHint, ScanHistory, ScanPlan, Slot, Touch, TouchEffect, Words,
};

use crate::classic::Cache;
use crate::trace::{Declared, Request, Trace};

const ABSENT: Slot = Slot::MAX;

struct Frames(Vec<Cell<u64>>);

impl Words for Frames {
    fn load(&self, s: Slot) -> u64 {
        self.0[s as usize].get()
    }
    fn store(&self, s: Slot, word: u64) {
        self.0[s as usize].set(word);
    }
}

/// The hints that the policy gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Scans and statements, as from the engine.
    All(Declared),
    /// No hints.
    Nothing,
}

/// A pool of frames without content.
pub(crate) struct Pool<'a> {
    keys: &'a [u64],
    policy: AnyPolicy,
    words: Frames,
    slot_of: Vec<Slot>,
    page_in: Vec<u32>,
    used: usize,
    told: Told,
    scan: Scan,
}

/// The declared scan in progress. (A trace has one at a time.)
struct Scan {
    table_pages: u64,
    history: ScanHistory,
    plan: ScanPlan,
    last_key: u64,
    /// The pages that other accesses brought in.
    others_read: u64,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(kind: PolicyKind, frames: usize, trace: &'a Trace, told: Told) -> Pool<'a> {
        let mut scanned = vec![false; trace.pages()];
        for r in &trace.requests {
            scanned[r.page as usize] |= told == Told::All(Declared::Whole) || r.scan != ScanHint::None;
        }
        let table_pages = scanned.iter().filter(|&&s| s).count() as u64;
        let mut history = ScanHistory::default();
        let plan = history.begin(table_pages, frames, 0);
        Pool {
            keys: &trace.keys,
            policy: holdfast_policy::build(kind, frames),
            words: Frames(vec![Cell::new(0); frames]),
            slot_of: vec![ABSENT; trace.pages()],
            page_in: vec![0; frames],
            used: 0,
            told,
            scan: Scan { table_pages, history, plan, last_key: 0, others_read: 0 },
        }
    }

    fn hint(&mut self, r: &Request) -> ScanHint {
        let declared = match self.told {
            Told::All(Declared::Whole) => true,
            Told::All(Declared::AsTraced) => r.scan != ScanHint::None,
            Told::Nothing => false,
        };
        if !declared {
            return ScanHint::None;
        }
        let key = self.keys[r.page as usize];
        let scan = &mut self.scan;
        if key < scan.last_key {
            scan.history.end();
            scan.plan = scan.history.begin(scan.table_pages, self.page_in.len(), scan.others_read);
        }
        scan.last_key = key;
        scan.plan.hint(key)
    }

    fn free_slot(&mut self) -> Slot {
        if self.used < self.page_in.len() {
            self.used += 1;
            return self.used as Slot - 1;
        }
        let s = self.policy.victim(&self.words, &mut |_| true).expect("every page may be evicted");
        self.slot_of[self.page_in[s as usize] as usize] = ABSENT;
        s
    }

    fn touch(&mut self, s: Slot, t: &Touch) {
        match self.policy.touch(self.words.load(s), self.policy.clock(), t) {
            TouchEffect::None | TouchEffect::NotYoung => {}
            TouchEffect::Store(word) => self.words.store(s, word),
            TouchEffect::Locked => self.policy.touch_locked(s, t, &self.words),
        }
    }
}

impl Cache for Pool<'_> {
    fn request(&mut self, _: usize, r: &Request, tick: u32) -> bool {
        let scan = self.hint(r);
        let statement = if self.told == Told::Nothing { 0 } else { r.statement };
        let mut t = Touch { scan, statement, tick };
        let mut s = self.slot_of[r.page as usize];
        let hit = s != ABSENT;
        if !hit {
            s = self.free_slot();
            self.slot_of[r.page as usize] = s;
            self.page_in[s as usize] = r.page;
            self.scan.others_read += u64::from(scan == ScanHint::None);
            self.policy.insert(s, self.keys[r.page as usize], &t, &self.words);
        }
        for _ in 0..r.touches {
            self.touch(s, &t);
            t.tick = t.tick.wrapping_add(1);
        }
        hit
    }
}
