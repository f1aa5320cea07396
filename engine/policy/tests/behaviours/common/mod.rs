//! A cache of numbered pages around a policy, as the pool has one.
#![allow(dead_code, reason = "each test uses its part")]

use std::cell::Cell;
use std::collections::HashMap;

use holdfast_policy::{AnyPolicy, Policy, PolicyKind, Queue, Slot, Touch, TouchEffect, TouchRules, Words, build};

pub struct Table(pub Vec<Cell<u64>>);

impl Words for Table {
    fn load(&self, s: Slot) -> u64 {
        self.0[s as usize].get()
    }
    fn store(&self, s: Slot, word: u64) {
        self.0[s as usize].set(word);
    }
}

pub struct Cache {
    pub policy: AnyPolicy,
    pub words: Table,
    pub slot_of: HashMap<u64, Slot>,
    pub free: Vec<Slot>,
    pub not_young: u64,
}

impl Cache {
    pub fn new(kind: PolicyKind, frames: usize) -> Cache {
        Cache {
            policy: build(kind, frames),
            words: Table(vec![Cell::new(0); frames]),
            slot_of: HashMap::new(),
            free: (0..frames as Slot).rev().collect(),
            not_young: 0,
        }
    }

    /// One access; loads the page if it is not resident.
    pub fn access(&mut self, key: u64, t: Touch) {
        if !self.slot_of.contains_key(&key) {
            self.load(key, t);
        }
        self.touch(key, t);
    }

    /// Brings a page in without touching it, as read-ahead does.
    pub fn load(&mut self, key: u64, t: Touch) {
        if self.free.is_empty() {
            self.evict();
        }
        let s = self.free.pop().expect("a free slot");
        self.policy.insert(s, key, &t, &self.words);
        self.slot_of.insert(key, s);
    }

    pub fn touch(&mut self, key: u64, t: Touch) {
        let s = self.slot_of[&key];
        let rules = TouchRules::from_bits(self.policy.rules().to_bits());
        match rules.touch(self.words.load(s), || self.policy.clock(), &t) {
            TouchEffect::None => {}
            TouchEffect::NotYoung => self.not_young += 1,
            TouchEffect::Store(word) => self.words.store(s, word),
            TouchEffect::Locked => self.policy.touch_locked(s, &t, &self.words),
        }
    }

    pub fn evict(&mut self) -> u64 {
        let s = self.policy.victim(&self.words, &mut |_| true).expect("a page that may be evicted");
        self.free.push(s);
        let key = *self.slot_of.iter().find(|(_, slot)| **slot == s).expect("a resident page").0;
        self.slot_of.remove(&key);
        key
    }

    pub fn dirty(&mut self, key: u64) {
        let s = self.slot_of[&key];
        if let TouchEffect::Store(word) = self.policy.rules().dirtied(self.words.load(s)) {
            self.words.store(s, word);
        }
    }

    pub fn queue(&self, key: u64) -> Queue {
        self.slot_of.get(&key).map_or(Queue::None, |&s| TouchRules::queue(self.words.load(s)))
    }

    pub fn holds(&self, keys: impl IntoIterator<Item = u64>) -> usize {
        keys.into_iter().filter(|k| self.slot_of.contains_key(k)).count()
    }
}
