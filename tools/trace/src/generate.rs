//! Generated traces: an OLTP load with or without a dump, and loops.
//!
//! The OLTP model: a point lookup touches the root, an inner page, the leaf, and the leaf again.
//! Leaves are chosen by a Zipf distribution and are in random order in the table. A fifth of the
//! lookups come back to their leaf 8 to 32 touches later, in another statement. The dump reads a
//! table from end to end, again and again, and touches each page once per row, all in one statement
//! per pass.

use holdfast_base::{Error, Result};
use holdfast_policy::ScanHint;
use holdfast_testkit::SplitMix64;

use crate::rng::{Zipf, permutation};
use crate::trace::{Builder, Class, Request, Trace};

/// Leaves that share an inner page.
const FANOUT: u32 = 500;
/// The first page numbers of the OLTP table's inner pages, of its leaves, and of the dumped table.
const INNER: u64 = 1;
const LEAVES: u64 = 1 << 20;
const DUMPED: u64 = 1 << 32;
/// The most touches of a trace, the dump's left out.
const TOUCHES_MAX: u64 = 1 << 32;
/// One lookup in this many comes back to its leaf.
const COME_BACK: u64 = 5;

/// Parameters of the OLTP + dump model.
#[derive(Clone, Debug, PartialEq)]
pub struct OltpDump {
    /// Leaf pages of the OLTP table.
    pub leaves: u32,
    /// Exponent of the Zipf distribution over the leaves.
    pub theta: f64,
    /// OLTP touches before the measurement.
    pub warm_up: u64,
    /// OLTP touches measured.
    pub touches: u64,
    /// OLTP touches per page of the dump; 0: no dump.
    pub dump_every: u32,
    /// Pages of the dumped table.
    pub dump_pages: u32,
    /// Touches of each page by the dump.
    pub dump_touches: u16,
    /// The dump walks the OLTP table's leaves instead of a table of its own.
    pub dump_hot_table: bool,
    /// In the middle of the measurement other leaves become popular.
    pub shift: bool,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for OltpDump {
    fn default() -> OltpDump {
        OltpDump {
            leaves: 60_000,
            theta: 0.8,
            warm_up: 2_000_000,
            touches: 1_000_000,
            dump_every: 3,
            dump_pages: 200_000,
            dump_touches: 60,
            dump_hot_table: false,
            shift: false,
            seed: 1,
        }
    }
}

/// The kind of trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// OLTP, with or without a dump.
    OltpDump(OltpDump),
    /// `0 .. pages`, `laps` times.
    Loop {
        /// Pages of the loop.
        pages: u32,
        /// Rounds.
        laps: u32,
    },
}

/// Generates a trace. The same parameters give the same trace on every machine.
///
/// # Errors
/// [`Error::InvalidArgument`] if a size is 0, the exponent is not a finite number from 0 up, or
/// there are more than 2^32 touches.
pub fn generate(name: &str, kind: &Kind) -> Result<Trace> {
    match kind {
        Kind::OltpDump(o) => {
            check_length(o.warm_up.saturating_add(o.touches))?;
            Generator::new(name, o)?.run()
        }
        &Kind::Loop { pages, laps } => {
            check_length(u64::from(pages) * u64::from(laps))?;
            let mut builder = Builder::new(name);
            for _ in 0..laps {
                (0..u64::from(pages)).try_for_each(|page| builder.push(page, Request::PLAIN))?;
            }
            Ok(builder.finish())
        }
    }
}

/// Refuses a trace that nothing can read, and one that no memory holds.
fn check_length(touches: u64) -> Result<()> {
    if (1..=TOUCHES_MAX).contains(&touches) {
        return Ok(());
    }
    Err(Error::invalid(format!("a trace has 1 to {TOUCHES_MAX} touches, warm-up included; asked for are {touches}")))
}

struct Generator<'a> {
    o: &'a OltpDump,
    builder: Builder,
    rng: SplitMix64,
    zipf: Zipf,
    /// Leaf of each rank.
    leaf_of: Vec<u32>,
    statement: u32,
    /// The number of OLTP touches so far.
    made: u64,
    /// The leaves to come back to: (at which OLTP touch, leaf), a ring indexed by touch.
    later: Vec<Option<u32>>,
    dump: Dump,
}

#[derive(Default)]
struct Dump {
    page: u32,
    statement: u32,
    /// The number of touches of the present page so far.
    done: u32,
}

impl<'a> Generator<'a> {
    fn new(name: &str, o: &'a OltpDump) -> Result<Generator<'a>> {
        if o.leaves == 0 || o.dump_pages == 0 || o.dump_touches == 0 || !(o.theta >= 0.0 && o.theta.is_finite()) {
            return Err(Error::invalid("leaves, dump pages and dump touches must not be 0, theta a number from 0 up"));
        }
        let mut rng = SplitMix64::new(o.seed);
        let leaf_of = permutation(&mut rng, o.leaves);
        let zipf = Zipf::new(o.leaves, o.theta);
        let dump = Dump { statement: 1, ..Dump::default() };
        let builder = Builder::new(name);
        Ok(Generator { o, builder, rng, zipf, leaf_of, statement: 1, made: 0, later: vec![None; 64], dump })
    }

    fn run(mut self) -> Result<Trace> {
        let end = self.o.warm_up + self.o.touches;
        let shift_at = if self.o.shift { self.o.warm_up + self.o.touches / 2 } else { u64::MAX };
        let (mut measuring, mut shifted) = (false, false);
        while self.made < end {
            if !measuring && self.made >= self.o.warm_up {
                measuring = true;
                self.builder.start_measuring();
            }
            if !shifted && self.made >= shift_at {
                shifted = true;
                let half = self.leaf_of.len() / 2;
                self.leaf_of.rotate_left(half);
            }
            let rank = self.zipf.sample(&mut self.rng);
            let leaf = self.leaf_of[rank as usize];
            self.statement += 1;
            for key in [0, INNER + u64::from(leaf / FANOUT), LEAVES + u64::from(leaf), LEAVES + u64::from(leaf)] {
                self.oltp(key)?;
            }
            if self.rng.below(COME_BACK) == 0 {
                let at = (self.made + 8 + self.rng.below(25)) as usize % self.later.len();
                self.later[at] = Some(leaf);
            }
        }
        Ok(self.builder.finish())
    }

    /// The table that the dump walks: its first page and its length.
    fn dumped(&self) -> (u64, u32) {
        if self.o.dump_hot_table { (LEAVES, self.o.leaves) } else { (DUMPED, self.o.dump_pages) }
    }

    /// Makes one OLTP touch, before it one that is due, and after each the dump's share.
    fn oltp(&mut self, key: u64) -> Result<()> {
        let slot = self.made as usize % self.later.len();
        if let Some(leaf) = self.later[slot].take() {
            let own = self.statement;
            self.statement = own | 1 << 31;
            self.touch(LEAVES + u64::from(leaf))?;
            self.statement = own;
        }
        self.touch(key)
    }

    fn touch(&mut self, key: u64) -> Result<()> {
        self.builder.push(key, Request { statement: self.statement, ..Request::PLAIN })?;
        self.made += 1;
        if self.o.dump_every == 0 {
            return Ok(());
        }
        let step = self.made % u64::from(self.o.dump_every);
        let step = if step == 0 { u64::from(self.o.dump_every) } else { step };
        let due = (u64::from(self.o.dump_touches) * step).div_ceil(u64::from(self.o.dump_every)) as u32;
        let touches = (due - self.dump.done) as u16;
        self.dump.done = due;
        if touches > 0 {
            let key = self.dumped().0 + u64::from(self.dump.page);
            let statement = self.dump.statement | 1 << 30;
            let scan = ScanHint::Ring;
            self.builder.push(key, Request { page: 0, statement, touches, class: Class::Background, scan })?;
        }
        if step == u64::from(self.o.dump_every) {
            self.dump.done = 0;
            self.dump.page = (self.dump.page + 1) % self.dumped().1;
            self.dump.statement += u32::from(self.dump.page == 0);
        }
        Ok(())
    }
}
