//! What a run consists of, drawn from its seed within limits.

use clap::Args;
use holdfast::ReplacementPolicy;
use holdfast_testkit::SplitMix64;

/// Limits of a run; a failing run is made smaller by lowering them.
#[derive(Args, Clone, Debug)]
pub struct Limits {
    /// At most so many sessions
    #[arg(long, default_value_t = 64)]
    pub sessions: u64,
    /// At most so many transactions of each session
    #[arg(long, default_value_t = 40)]
    pub transactions: u64,
    /// At most so many lives of the database
    #[arg(long, default_value_t = 3)]
    pub lives: u64,
    /// No failing operations of the disk
    #[arg(long)]
    pub no_faults: bool,
    /// No power cuts
    #[arg(long)]
    pub no_cuts: bool,
    /// No operator: tables, cache and log stay as they are
    #[arg(long)]
    pub no_operator: bool,
    /// No keeper: no backups, no second opens, no damage
    #[arg(long)]
    pub no_keeper: bool,
    /// No changes of definitions beside the sessions
    #[arg(long)]
    pub no_definitions: bool,
    /// No stalls of threads
    #[arg(long)]
    pub no_stalls: bool,
    /// Plant this fault, which the simulation is to find
    #[arg(long)]
    pub plant: Option<String>,
}

impl Limits {
    /// True if a run may have all that there is.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        let at_least = self.sessions >= 64 && self.transactions >= 40 && self.lives >= 3;
        at_least && self.arguments().len() == 3
    }

    /// As arguments of a command line.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let Limits { sessions, transactions, lives, .. } = self;
        let mut all = vec![
            format!("--sessions={sessions}"),
            format!("--transactions={transactions}"),
            format!("--lives={lives}"),
        ];
        let flags = [
            (self.no_faults, "--no-faults"),
            (self.no_cuts, "--no-cuts"),
            (self.no_operator, "--no-operator"),
            (self.no_keeper, "--no-keeper"),
            (self.no_definitions, "--no-definitions"),
            (self.no_stalls, "--no-stalls"),
        ];
        all.extend(self.plant.iter().map(|name| format!("--plant={name}")));
        all.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_string()));
        all
    }
}

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Dice(SplitMix64);

impl Dice {
    /// Begins a sequence.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(SplitMix64::new(seed))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// What becomes of pages of tables in the last life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    None,
    /// Bits flip.
    Flipped,
    /// Bits flip, and the checksum fits.
    Forged,
}

/// Extents of a bitmap in most runs: a file of some hundred pages has several.
pub(super) const BITMAP_EXTENTS: usize = 2;

/// Bytes of a cache that has several partitions of small pages.
const WIDE: u64 = 48 << 20;

/// What a run consists of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Sessions.
    pub sessions: u64,
    /// Transactions of each session in a life.
    pub transactions: u64,
    /// Lives of the database.
    pub lives: u64,
    /// Bytes of a page.
    pub page_size: usize,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// The most microseconds that the write of a page takes.
    pub page_micros: u64,
    /// Processor cores that the engine believes in.
    pub cores: usize,
    /// See [`holdfast_base::sim::Plan`].
    pub bitmap_extents: usize,
    /// See [`holdfast_base::sim::Plan`].
    pub switches_ppm: u32,
    /// See [`holdfast_base::sim::Plan`].
    pub stalls_ppm: u32,
    /// See [`holdfast_base::sim::Plan`].
    pub stall_points: u64,
    /// True if the database resolves write conflicts as snapshot isolation does, unless a
    /// transaction says otherwise.
    pub snapshot_isolation: bool,
    /// Bytes of old versions.
    pub version_limit: u64,
    /// Bytes for row locks.
    pub lock_bytes: usize,
    /// Which pages leave the cache first.
    pub policy: ReplacementPolicy,
    /// True if the pages worth having are listed at a close and loaded by the next open.
    pub warm_up: bool,
    /// True if pages leave a small cache that has several partitions.
    pub evicts: bool,
    /// The most microseconds between two transactions of a session, and between two acts of the
    /// operator.
    pub idle_micros: u64,
    /// Keys of each table.
    pub keys: u64,
    /// Tables.
    pub tables: usize,
    /// True if sessions use temporary tables.
    pub temporary: bool,
    /// Of 100 values, how many are long.
    pub long_values: u64,
    /// Bytes of the longest of these, but for a few.
    pub longest_value: u64,
    /// See [`Damage`].
    pub damage: Damage,
    /// What may happen.
    pub limits: Limits,
}

/// In a quarter of the runs the locks of a few rows use up their memory.
fn lock_bytes(seed: u64) -> usize {
    match seed % 16 {
        3 => 0,
        7 => 1 << 10,
        11 => 4 << 10,
        15 => 16 << 10,
        _ => 64 << 20,
    }
}

impl Plan {
    /// Draws the run of `seed`.
    #[must_use]
    pub fn draw(seed: u64, limits: &Limits) -> Plan {
        let mut dice = Dice::new(seed);
        let page_size = dice.one_of(&[4096, 4096, 8192, 16384, 32768, 65536]);
        let wide = dice.percent(10);
        let cores = dice.one_of(&[1, 2, 4, 8, 16, 64]);
        // The smallest pool in most runs; a large one of small pages has several partitions.
        let cache_bytes = if wide { WIDE } else { dice.one_of(&[5 << 20, 5 << 20, 6 << 20, 8 << 20]) };
        let sessions = dice.one_of(&[1, 2, 2, 3, 4, 4, 6, 8, 12, 24, 64]).min(limits.sessions);
        let transactions = (dice.below(limits.transactions.max(1)) + 1).min(400 / sessions + 2);
        let damage =
            dice.one_of(&[Damage::None, Damage::None, Damage::None, Damage::None, Damage::Flipped, Damage::Forged]);
        let damage = if limits.no_keeper { Damage::None } else { damage };
        let plan = Plan {
            seed,
            sessions,
            transactions,
            lives: (dice.below(limits.lives.max(1)) + 1).min(limits.lives),
            page_size: if wide { 4096 } else { page_size },
            cache_bytes,
            log_bytes: dice.one_of(&[4 << 20, 4 << 20, 6 << 20, 16 << 20]),
            cores: if wide { 64 } else { cores },
            bitmap_extents: if seed.is_multiple_of(4) { usize::MAX } else { BITMAP_EXTENTS },
            page_micros: super::disk::WRITE_MICROS,
            switches_ppm: dice.one_of(&[1_000, 10_000, 50_000, 200_000]),
            stalls_ppm: if limits.no_stalls { 0 } else { dice.one_of(&[0, 1_000, 10_000]) },
            stall_points: dice.one_of(&[1_000, 30_000, 500_000]),
            snapshot_isolation: dice.percent(50),
            version_limit: dice.one_of(&[4 << 20, 64 << 20]),
            lock_bytes: lock_bytes(seed),
            policy: if dice.percent(70) { ReplacementPolicy::default() } else { ReplacementPolicy::Lru },
            warm_up: dice.percent(75),
            evicts: false,
            idle_micros: 0,
            keys: dice.one_of(&[4, 16, 64, 200]),
            tables: dice.below(3) as usize + 1,
            temporary: dice.percent(40),
            long_values: dice.one_of(&[0, 3, 30]),
            longest_value: 40_000,
            damage,
            limits: limits.clone(),
        };
        match (damage, dice.below(100)) {
            (Damage::Flipped | Damage::Forged, _) => plan.larger_than_its_cache(&mut dice),
            (Damage::None, 0..12) => plan.crowds_its_log(&mut dice),
            (Damage::None, 12..18) => plan.evicts_from_partitions(&mut dice),
            (Damage::None, 18..24) => plan.often_idles(&mut dice),
            (Damage::None, _) if plan.lacks_lock_memory() => plan.crowds_its_locks(&mut dice),
            (Damage::None, _) => plan,
        }
    }

    /// Small pages leave a small cache that has several partitions: parts of large values, and
    /// nodes of high trees.
    fn evicts_from_partitions(self, dice: &mut Dice) -> Plan {
        let sessions = dice.one_of(&[2, 4, 6, 8]).min(self.limits.sessions);
        let transactions = (160 / sessions).min(self.limits.transactions);
        let plan =
            Plan { sessions, transactions, keys: 200, tables: 3, long_values: 60, longest_value: 200_000, ..self };
        Plan {
            lives: plan.lives.min(1),
            page_size: 4096,
            cache_bytes: 5 << 20,
            cores: dice.one_of(&[16, 64]),
            policy: ReplacementPolicy::Lru,
            evicts: !plan.limits.no_keeper,
            switches_ppm: dice.one_of(&[10_000, 50_000, 200_000]),
            ..plan
        }
    }

    /// Sessions come to a database that has nothing to do: nothing old is kept, and a compaction
    /// gives lost pages back.
    fn often_idles(self, dice: &mut Dice) -> Plan {
        let sessions = dice.one_of(&[1, 2, 3]).min(self.limits.sessions);
        Plan {
            sessions,
            transactions: 30.min(self.limits.transactions),
            lives: self.lives.min(2),
            long_values: 70,
            longest_value: 200_000,
            idle_micros: 600_000,
            ..self
        }
    }

    /// True if the database often has nothing to do.
    #[must_use]
    pub fn idles(&self) -> bool {
        self.idle_micros > 0
    }

    /// Changes wait for room in the log, which the end of the page writes under way makes.
    fn crowds_its_log(self, dice: &mut Dice) -> Plan {
        let (page_size, longest_value) = (dice.one_of(&[32768, 65536]), dice.one_of(&[100_000, 250_000]));
        let sessions = dice.one_of(&[2, 3, 4, 6, 8]).min(self.limits.sessions);
        let transactions = (160 / sessions).min(self.limits.transactions);
        let plan = Plan { page_size, longest_value, sessions, transactions, long_values: 70, keys: 16, ..self };
        Plan {
            lives: plan.lives.min(1),
            page_micros: dice.one_of(&[3_000, 20_000]),
            cache_bytes: 5 << 20,
            log_bytes: 4 << 20,
            ..plan
        }
    }

    /// Readers that lock rows, and writers, meet in a table, and few locks become one on the table.
    fn crowds_its_locks(self, dice: &mut Dice) -> Plan {
        let sessions = dice.one_of(&[3, 4, 6, 8]).min(self.limits.sessions);
        let transactions = (160 / sessions).min(self.limits.transactions);
        Plan { sessions, transactions, keys: dice.one_of(&[8, 16, 32]), tables: 1, ..self }
    }

    /// True if the locks of a few rows use up their memory.
    #[must_use]
    pub fn lacks_lock_memory(&self) -> bool {
        self.lock_bytes <= 16 << 10
    }

    /// Pages leave the cache, so that they are read again.
    fn larger_than_its_cache(self, dice: &mut Dice) -> Plan {
        let page_size = dice.one_of(&[16384, 32768, 65536]);
        Plan { page_size, lives: 1, cache_bytes: 5 << 20, keys: 200, long_values: 30, ..self }
    }

    /// True if changes wait for room in the log.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.page_micros > super::disk::WRITE_MICROS
    }

    /// True if the cache is so large, for so many cores, that it has several partitions.
    #[must_use]
    pub fn has_partitions(&self) -> bool {
        // As the engine has it under the scheduler: 512 frames each.
        (self.cores / 4).min(self.cache_bytes as usize / self.page_size / 512) > 1
    }

    /// The scheduler's part.
    #[must_use]
    pub fn scheduler(&self) -> holdfast_base::sim::Plan {
        holdfast_base::sim::Plan {
            seed: self.seed ^ 0x5eed_0f5c_4ed0_1e55,
            switches_ppm: self.switches_ppm,
            stalls_ppm: self.stalls_ppm,
            stall_points: self.stall_points,
            patience: 30_000_000,
            cores: self.cores,
            bitmap_extents: self.bitmap_extents,
            planted: self.limits.plant.clone(),
        }
    }
}
