//! Which lines go from one thread to another while threads do operations in turns, each thread as
//! if on a core of its own.
//!
//! A line of memory is held by the cores that have a copy. A core that writes to it has to hold it
//! alone, one that reads has to hold a copy. Whatever a core lacks another one sends: the line
//! *moves*. (This is the protocol of all caches that are kept coherent. Whether a line is clean,
//! and which level of a cache has it, does not matter here.)

use std::collections::HashMap;

use crate::trace::Event;

/// Bytes of a line.
const LINE: u64 = 64;
/// Instructions between two accesses to a line after which another core may have taken it: the
/// second access is another *visit*.
const APART: u64 = 64;

/// Where the program under trace marks its operations: it stores to element `t` when thread `t`
/// begins one, and to the last element when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub address: u64,
    pub count: u64,
}

impl Marks {
    /// The element that the access stores to.
    fn hit(&self, event: Event) -> Option<u64> {
        match event {
            Event::Access { address, writes: true, .. } if address >= self.address => {
                let element = (address - self.address) / 8;
                (element < self.count).then_some(element)
            }
            _ => None,
        }
    }
}

/// What is known of one line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Threads that have a copy; bit `t` for thread `t`.
    holders: u64,
    /// Threads that have accessed it.
    pub threads: u64,
    /// Times that a thread had to get it.
    pub moves: u64,
    /// Times that a thread came to it, with or without a move.
    pub visits: u64,
    /// Visits that write.
    pub writes: u64,
    /// Instructions that made it move, and how often.
    pub sites: HashMap<u64, u64>,
    last_visit: u64,
    visit_writes: bool,
}

/// Follows a trace.
#[derive(Debug)]
pub struct Sharing {
    marks: Marks,
    /// Operations at the beginning that are not counted: caches fill in them.
    warm_up: u64,
    /// Operations that have ended, those of the warm-up among them.
    ended: u64,
    pub lines: HashMap<u64, Line>,
    thread: Option<u64>,
    code: u64,
    /// A load of the present instruction, of this line. An atomic instruction that changes memory
    /// is traced as a load and a store, but the core gets the line once, to write to it.
    loaded: Option<u64>,
    instructions: u64,
    /// Instructions when the operation began.
    began: u64,
    /// Instructions before counting began.
    passed_over: u64,
}

impl Sharing {
    #[must_use]
    pub fn new(marks: Marks, warm_up: u64) -> Sharing {
        let (lines, thread) = (HashMap::new(), None);
        Sharing {
            marks,
            warm_up,
            ended: 0,
            lines,
            thread,
            code: 0,
            loaded: None,
            instructions: 0,
            began: 0,
            passed_over: 0,
        }
    }

    /// Operations that have ended, those of the warm-up among them.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Operations that were counted.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.ended.saturating_sub(self.warm_up)
    }

    /// Instructions of the operations that were counted.
    #[must_use]
    pub fn instructions_counted(&self) -> u64 {
        self.instructions - self.passed_over
    }

    pub fn follow(&mut self, event: Event) {
        if let Some(element) = self.marks.hit(event) {
            self.mark(element);
            return;
        }
        let Some(thread) = self.thread else { return };
        match event {
            Event::Instruction(address) => {
                self.end_load(thread);
                self.code = address;
                self.instructions += 1;
            }
            Event::Access { address, bytes, writes } => {
                let last = address + bytes.max(1) - 1;
                for line in address / LINE..=last / LINE {
                    if writes && self.loaded == Some(line) {
                        self.loaded = None;
                    }
                    self.end_load(thread);
                    match writes {
                        true => self.access(thread, line, true),
                        false => self.loaded = Some(line),
                    }
                }
            }
        }
    }

    fn end_load(&mut self, thread: u64) {
        if let Some(line) = self.loaded.take() {
            self.access(thread, line, false);
        }
    }

    fn mark(&mut self, element: u64) {
        if element + 1 < self.marks.count {
            (self.thread, self.began) = (Some(element), self.instructions);
            return;
        }
        if let Some(thread) = self.thread.take() {
            self.end_load(thread);
            self.ended += 1;
            if self.ended == self.warm_up {
                self.passed_over = self.instructions;
            }
        }
    }

    fn access(&mut self, thread: u64, number: u64, writes: bool) {
        let me = 1 << thread;
        let line = self.lines.entry(number).or_insert_with(|| Line { holders: me, ..Line::default() });
        let moves = if writes { line.holders != me } else { line.holders & me == 0 };
        line.holders = if writes { me } else { line.holders | me };
        line.threads |= me;
        if self.ended < self.warm_up {
            return;
        }
        if moves {
            line.moves += 1;
            *line.sites.entry(self.code).or_default() += 1;
        }
        let apart = line.last_visit <= self.began || self.instructions - line.last_visit > APART;
        if apart {
            (line.visits, line.visit_writes) = (line.visits + 1, false);
        }
        if writes && !line.visit_writes {
            (line.writes, line.visit_writes) = (line.writes + 1, true);
        }
        line.last_visit = self.instructions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks { address: 0x1000, count: 65 };

    fn store(address: u64) -> Event {
        Event::Access { address, bytes: 8, writes: true }
    }

    fn load(address: u64) -> Event {
        Event::Access { address, bytes: 8, writes: false }
    }

    /// Thread `t` does `events` in one operation.
    fn operation(sharing: &mut Sharing, t: u64, events: &[Event]) {
        sharing.follow(store(0x1000 + 8 * t));
        for event in events {
            sharing.follow(Event::Instruction(0x42));
            sharing.follow(*event);
        }
        sharing.follow(store(0x1000 + 8 * 64));
    }

    fn in_turns(events: impl Fn(u64) -> Vec<Event>) -> Sharing {
        let mut sharing = Sharing::new(MARKS, 4);
        for turn in 0..6 {
            for t in [0, 1] {
                operation(&mut sharing, t, &events(t));
            }
            assert_eq!(sharing.operations(), [0, 0, 2, 4, 6, 8][turn]);
        }
        sharing
    }

    #[test]
    fn what_one_thread_alone_writes_does_not_move() {
        let own = in_turns(|t| vec![store(0x8000 + 64 * t), load(0x8000 + 64 * t)]);
        assert!(own.lines.values().all(|line| line.moves == 0 && line.threads.count_ones() == 1));
    }

    #[test]
    fn what_all_read_does_not_move() {
        let read = in_turns(|_| vec![load(0x8000)]);
        assert_eq!((read.lines[&0x200].moves, read.lines[&0x200].visits), (0, 8));
    }

    #[test]
    fn what_all_write_moves_once_in_each_operation_whatever_the_place_in_the_line() {
        let written = in_turns(|t| vec![store(0x8000 + 8 * t), load(0x8000)]);
        let line = &written.lines[&0x200];
        assert_eq!((line.moves, line.visits, line.writes, line.threads), (8, 8, 8, 3));
        assert_eq!(line.sites, HashMap::from([(0x42, 8)]));
    }

    #[test]
    fn what_one_writes_moves_to_the_reader_and_back() {
        let events = |t| if t == 0 { vec![store(0x8000)] } else { vec![load(0x8000)] };
        assert_eq!(in_turns(events).lines[&0x200].moves, 8);
    }

    #[test]
    fn an_instruction_that_loads_and_stores_gets_the_line_once() {
        let line = &in_turns(|_| vec![load(0x8000)]).lines[&0x200];
        assert_eq!((line.moves, line.visits), (0, 8));
        let mut sharing = Sharing::new(MARKS, 2);
        for t in [0, 1, 0, 1] {
            sharing.follow(store(0x1000 + 8 * t));
            [Event::Instruction(1), load(0x8000), store(0x8000)].into_iter().for_each(|event| sharing.follow(event));
            sharing.follow(store(0x1000 + 8 * 64));
        }
        let line = &sharing.lines[&0x200];
        assert_eq!((line.moves, line.visits, line.writes), (2, 2, 2));
    }

    #[test]
    fn an_access_across_two_lines_is_one_to_each() {
        let across = in_turns(|_| vec![store(0x803c)]);
        assert_eq!((across.lines[&0x200].moves, across.lines[&0x201].moves), (8, 8));
    }

    #[test]
    fn accesses_far_apart_are_visits_of_their_own() {
        let far = |_| {
            let filler = std::iter::repeat_n(load(0x9000), 100);
            std::iter::once(store(0x8000)).chain(filler).chain([store(0x8000)]).collect()
        };
        let line = &in_turns(far).lines[&0x200];
        assert_eq!((line.moves, line.visits, line.writes), (8, 16, 16));
    }

    #[test]
    fn what_happens_between_operations_is_not_followed() {
        let mut sharing = Sharing::new(MARKS, 0);
        sharing.follow(store(0x8000));
        operation(&mut sharing, 0, &[load(0x8000)]);
        sharing.follow(store(0x8000));
        operation(&mut sharing, 1, &[load(0x8000)]);
        assert_eq!(sharing.lines[&0x200].moves, 1);
    }
}
