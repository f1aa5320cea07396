//! A seeded scheduler for the simulation of the whole engine, compiled only under `--cfg sim`.
//!
//! The threads of a run are threads of the operating system, but only one of them runs at a time:
//! the one that holds the *baton*. It passes the baton on at *points*. Each call of a primitive of
//! [`sync`](crate::sync), [`blocking`](crate::blocking), [`thread`](crate::thread) and each
//! operation of a simulated disk is a point. The seed alone decides which thread gets the baton
//! next, so the same seed gives the same run.
//!
//! **Time** is simulated: a point takes some nanoseconds, and when no thread can run the clock
//! jumps to the earliest deadline.
//!
//! **Stalls.** A point may stall its thread: the thread does not run again for a while, unless no
//! other thread can.
//!
//! **A run in which no thread can go on** ends with a report: no thread is ready and none waits
//! with a deadline, or there were too many points since the last call of [`progress`]. Each thread
//! adds its name, what it waits for, and its stack.
//!
//! A thread outside a run, such as one of a unit test, uses the primitives without the scheduler.
//!
//! Lock order: the world's mutex is innermost; it is not held while a baton is passed. A point that
//! does not pass the baton on takes no lock: what it counts and draws is in `course`.
//!
//! # Invariants
//! - `one runs`: at most one thread of a run holds the baton, and no other touches the course.
//! - `blocked is released`: a thread that blocks on a primitive is made ready by every release of
//!   it.

mod course;
mod primitives;

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use course::Course;
pub use primitives::*;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of everything random.
    pub seed: u64,
    /// The number of points, of a million, that pass the baton on.
    pub switches_ppm: u32,
    /// The number of passes, of a million, that stall the thread that passes the baton on.
    pub stalls_ppm: u32,
    /// The most points that a stall lasts.
    pub stall_points: u64,
    /// Points without [`progress`] after which a run counts as stuck.
    pub patience: u64,
    /// The number of processor cores that the engine is told.
    pub cores: usize,
    /// The extents that a bitmap page of a space covers at most. It belongs to the format of the
    /// run's files.
    pub bitmap_extents: usize,
    /// The planted fault: a name that the code queries with [`planted!`](crate::planted).
    pub planted: Option<String>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// A hash of all decisions of the scheduler: equal for two runs with the same decisions.
    pub trace: u64,
    /// The number of points.
    pub points: u64,
    /// How often another thread got the baton.
    pub switches: u64,
    /// The number of stalls.
    pub stalls: u64,
    /// Simulated time.
    pub time: Duration,
}

/// The exit status of a process whose run got stuck.
pub const STUCK: i32 = 86;

/// What a thread waits for. Two waits for the same thing have equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// The primitive of this type at this address.
    Address(usize, &'static str),
    /// The end of a thread.
    End(usize),
    /// [`unpark`] of a thread.
    Park(usize),
    /// The clock.
    Time,
}

impl Key {
    /// Equal for equal keys.
    #[inline]
    fn hash(self) -> usize {
        match self {
            // Neighbours have addresses that are some words apart.
            Key::Address(address, _) => address >> 4 ^ address >> 10,
            Key::End(number) | Key::Park(number) => number,
            Key::Time => 0,
        }
    }
}

#[derive(Debug)]
enum State {
    Ready,
    Blocked { key: Key, until: Option<u64> },
    Ended,
}

struct Thread {
    name: String,
    state: State,
    timed_out: bool,
    /// True if a wake-up came before its thread parked.
    token: bool,
    stalled_until: u64,
    baton: Arc<Baton>,
}

#[derive(Default)]
struct Baton {
    here: parking_lot::Mutex<bool>,
    came: parking_lot::Condvar,
}

impl Baton {
    fn give(&self) {
        *self.here.lock() = true;
        self.came.notify_one();
    }

    fn await_it(&self) {
        let mut here = self.here.lock();
        while !std::mem::take(&mut *here) {
            self.came.wait(&mut here);
        }
    }
}

struct World {
    course: Arc<Course>,
    threads: Vec<Thread>,
    /// The numbers of those that have not ended, ascending.
    live: Vec<usize>,
    /// Memory for [`World::next`]: threads that are ready, and are not stalled.
    fit: Vec<usize>,
    /// The same: threads that are ready, and are stalled.
    stalled: Vec<usize>,
    switches: u64,
    stalls: u64,
    trace: u64,
    /// Why the run is stuck. Each thread that gets the baton then reports and passes it on.
    stuck: Option<&'static str>,
    reported: usize,
}

struct Shared {
    plan: Plan,
    course: Arc<Course>,
    world: parking_lot::Mutex<World>,
    /// The baton of the thread that called [`run`]; it is passed on when the first thread of the
    /// run ends.
    over: Baton,
}

// What has no destructor is found without a look at whether it was made.
thread_local!(static ME: Cell<Option<(&'static Shared, usize)>> = const { Cell::new(None) });

impl World {
    /// Returns the thread that runs next. The clock jumps if all threads wait for it. `None` if no
    /// thread can go on.
    fn next(&mut self) -> Option<usize> {
        loop {
            let (mut fit, mut stalled) = (std::mem::take(&mut self.fit), std::mem::take(&mut self.stalled));
            fit.clear();
            stalled.clear();
            for &number in &self.live {
                let thread = &self.threads[number];
                if matches!(thread.state, State::Ready) {
                    if thread.stalled_until <= self.course.points() { &mut fit } else { &mut stalled }.push(number);
                }
            }
            let choices = if fit.is_empty() { &stalled } else { &fit };
            let count = choices.len() as u64;
            let chosen = (count > 0).then(|| choices[(self.course.draw() % count) as usize]);
            (self.fit, self.stalled) = (fit, stalled);
            if chosen.is_some() || !self.pass_time() {
                return chosen;
            }
        }
    }

    /// Lets the clock jump to the earliest deadline; false if there is none.
    fn pass_time(&mut self) -> bool {
        let until = |t: &Thread| match t.state {
            State::Blocked { until, .. } => until,
            _ => None,
        };
        let Some(at) = self.live.iter().filter_map(|&number| until(&self.threads[number])).min() else {
            return false;
        };
        self.course.jump_to(at);
        let now = self.course.now();
        for nth in 0..self.live.len() {
            let number = self.live[nth];
            if until(&self.threads[number]).is_some_and(|until| until <= now) {
                self.make_ready(number, true);
            }
        }
        true
    }

    fn make_blocked(&mut self, number: usize, key: Key, until: Option<u64>) {
        self.course.block(key.hash());
        self.threads[number].state = State::Blocked { key, until };
    }

    /// Makes a blocked thread ready.
    fn make_ready(&mut self, number: usize, timed_out: bool) {
        let thread = &mut self.threads[number];
        if let State::Blocked { key, .. } = thread.state {
            self.course.release(key.hash());
        }
        (thread.state, thread.timed_out) = (State::Ready, timed_out);
    }

    fn wake(&mut self, key: Key, all: bool) {
        let waits = |t: &Thread| matches!(t.state, State::Blocked { key: k, .. } if k == key);
        let count = self.live.iter().filter(|&&number| waits(&self.threads[number])).count();
        if count == 0 {
            return;
        }
        let chosen = if all { 0 } else { (self.course.draw() % count as u64) as usize };
        let mut passed = 0;
        for nth in 0..self.live.len() {
            let number = self.live[nth];
            if !waits(&self.threads[number]) {
                continue;
            }
            if all || passed == chosen {
                self.make_ready(number, false);
            }
            passed += 1;
        }
    }

    fn count_switch(&mut self, to: usize) {
        self.switches += 1;
        self.trace = (self.trace ^ self.course.points()).wrapping_mul(0x100_0000_01b3).rotate_left(17) ^ to as u64;
    }

    fn run(&self) -> Run {
        let World { trace, switches, stalls, .. } = *self;
        let (points, time) = (self.course.points(), Duration::from_nanos(self.course.now()));
        Run { trace, points, switches, stalls, time }
    }
}

impl Shared {
    /// Counts a point of thread `me`, and lets its time pass. Does not return if the run counts as
    /// stuck.
    #[inline]
    fn count_point(&self, me: usize) {
        if self.course.count_point() > self.plan.patience {
            self.world.lock().stuck = Some("no session makes progress");
            self.report(me);
        }
    }

    /// Passes the baton from thread `me` on at a point, after which the thread may be stalled.
    #[cold]
    fn switch(&self, me: usize) {
        let mut world = self.world.lock();
        if self.course.chance(self.plan.stalls_ppm) {
            world.stalls += 1;
            let length = self.course.draw() % self.plan.stall_points.max(1);
            world.threads[me].stalled_until = self.course.points() + length;
        }
        self.pass(world, me);
    }

    /// Passes the baton from thread `me` on, and returns when it is back.
    fn pass(&self, mut world: parking_lot::MutexGuard<'_, World>, me: usize) {
        let next = world.next();
        if next == Some(me) {
            return;
        }
        let own = Arc::clone(&world.threads[me].baton);
        match next {
            Some(next) => {
                world.count_switch(next);
                let baton = Arc::clone(&world.threads[next].baton);
                drop(world);
                baton.give();
            }
            None => {
                world.stuck = Some("no thread can go on");
                drop(world);
                self.report(me);
            }
        }
        own.await_it();
        if self.world.lock().stuck.is_some() {
            self.report(me);
        }
    }

    /// Adds thread `me` to the report of a stuck run, and passes the baton to the next. The last
    /// thread ends the process.
    fn report(&self, me: usize) -> ! {
        let mut world = self.world.lock();
        let thread = &world.threads[me];
        if world.reported == 0 {
            eprintln!("STUCK: {}, after {:?}", world.stuck.unwrap_or_default(), world.run());
        }
        let what = match thread.state {
            State::Blocked { key: Key::Park(_), .. } => "parked".to_string(),
            State::Blocked { key: Key::End(of), .. } => format!("waits for the end of {}", world.threads[of].name),
            State::Blocked { until: Some(_), .. } => "waits with a deadline".to_string(),
            State::Blocked { .. } => "waits".to_string(),
            _ => "runs".to_string(),
        };
        eprintln!("-- {} {what}\n{}", thread.name, frames_of_interest(&Backtrace::force_capture().to_string()));
        world.reported += 1;
        let live = |t: &Thread| !matches!(t.state, State::Ended);
        let count = world.threads.iter().filter(|t| live(t)).count();
        if world.reported >= count {
            std::process::exit(STUCK);
        }
        // In a circle, so that each live thread gets its turn.
        let n = world.threads.len();
        let next = (1..=n).map(|i| (me + i) % n).find(|&i| live(&world.threads[i])).unwrap_or(me);
        let baton = Arc::clone(&world.threads[next].baton);
        drop(world);
        baton.give();
        loop {
            std::thread::park();
        }
    }
}

/// Returns the lines of a backtrace that name functions of this project, with their positions.
fn frames_of_interest(backtrace: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let lines: Vec<&str> = backtrace.lines().collect();
    let mut out = String::new();
    for pair in lines.windows(2) {
        let place = pair[1].trim().strip_prefix("at ").and_then(|place| place_in_project(place, &here));
        if let Some(place) = place.filter(|place| !place.starts_with("engine/base/src/sim")) {
            out += &format!("     {} at {place}\n", pair[0].trim());
        }
    }
    out
}

/// Returns where a position of a backtrace is in the folder of the project; `None` if it is
/// elsewhere. A backtrace gives paths below `here`, the current folder, relative to that.
fn place_in_project(place: &str, here: &Path) -> Option<String> {
    let project = project()?;
    let place = place.strip_prefix("./").map_or_else(|| PathBuf::from(place), |below| here.join(below));
    place.strip_prefix(project).ok()?.to_str().map(str::to_owned)
}

fn project() -> Option<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)
}

/// Calls `act` with the calling thread's run and its number in it. `None` if the thread belongs to
/// no run.
#[inline]
fn within<T>(act: impl FnOnce(&'static Shared, usize) -> T) -> Option<T> {
    ME.get().map(|(shared, number)| act(shared, number))
}

/// Runs `main` as the first thread of a run, and returns how the run went when `main` returns.
///
/// Threads that `main` leaves behind never run again, and what all threads share stays in memory; a
/// process is meant to be used for one run.
///
/// # Panics
/// If `main` does.
pub fn run<T: Send + 'static>(plan: Plan, main: impl FnOnce() -> T + Send + 'static) -> (T, Run) {
    let course = Arc::new(Course::new(plan.seed));
    let world = World {
        course: Arc::clone(&course),
        threads: Vec::new(),
        live: Vec::new(),
        fit: Vec::new(),
        stalled: Vec::new(),
        switches: 0,
        stalls: 0,
        trace: 0,
        stuck: None,
        reported: 0,
    };
    let world = parking_lot::Mutex::new(world);
    let shared: &'static Shared = Box::leak(Box::new(Shared { plan, course, world, over: Baton::default() }));
    let (first, _) = start(shared, "main", main);
    let baton = Arc::clone(&shared.world.lock().threads[first.number].baton);
    baton.give();
    shared.over.await_it();
    let run = shared.world.lock().run();
    match first.result.lock().take() {
        Some(Ok(value)) => (value, run),
        Some(Err(panic)) => std::panic::resume_unwind(panic),
        None => unreachable!("the first thread has ended"),
    }
}

type Outcome<T> = Arc<parking_lot::Mutex<Option<std::thread::Result<T>>>>;

struct Started<T> {
    number: usize,
    result: Outcome<T>,
}

/// Adds a thread to the world, ready to run, and starts it. The thread waits for the baton.
fn start<T: Send + 'static>(
    shared: &'static Shared,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> (Started<T>, std::io::Result<()>) {
    let baton = Arc::new(Baton::default());
    let number = {
        let mut world = shared.world.lock();
        let (state, baton) = (State::Ready, Arc::clone(&baton));
        let thread = Thread { name: name.into(), state, timed_out: false, token: false, stalled_until: 0, baton };
        let number = world.threads.len();
        world.threads.push(thread);
        world.live.push(number);
        number
    };
    let result: Outcome<T> = Arc::default();
    let of_thread = Arc::clone(&result);
    let spawned = std::thread::Builder::new().name(name.into()).spawn(move || {
        ME.set(Some((shared, number)));
        baton.await_it();
        if shared.world.lock().stuck.is_some() {
            shared.report(number);
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        *of_thread.lock() = Some(outcome);
        ME.set(None);
        end(shared, number);
    });
    (Started { number, result }, spawned.map(drop))
}

fn end(shared: &Shared, me: usize) {
    let mut world = shared.world.lock();
    world.threads[me].state = State::Ended;
    world.live.retain(|number| *number != me);
    if me == 0 {
        drop(world);
        shared.over.give();
        return;
    }
    world.wake(Key::End(me), true);
    match world.next() {
        Some(next) => {
            world.count_switch(next);
            let baton = Arc::clone(&world.threads[next].baton);
            drop(world);
            baton.give();
        }
        None => {
            world.stuck = Some("no thread can go on");
            let live = world.threads.iter().find(|t| !matches!(t.state, State::Ended));
            let baton = live.map(|t| Arc::clone(&t.baton));
            drop(world);
            baton.expect("the first thread has not ended").give();
        }
    }
}

/// A point: the scheduler may let another thread run.
#[inline]
pub fn point() {
    within(|shared, me| {
        shared.count_point(me);
        if shared.course.chance(shared.plan.switches_ppm) {
            shared.switch(me);
        }
    });
}

/// A point that always passes the baton on: the thread can do nothing until another one has run.
pub fn step_aside() {
    within(|shared, me| {
        shared.count_point(me);
        shared.pass(shared.world.lock(), me);
    });
}

/// Blocks the calling thread until a wake-up for `key`, or until `limit` has passed; true if the
/// limit has passed.
pub(crate) fn block(key: Key, limit: Option<Duration>) -> bool {
    within(|shared, me| {
        let mut world = shared.world.lock();
        let nanos = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 4);
        let until = limit.map(|limit| shared.course.now().saturating_add(nanos(limit).min(u64::MAX / 4)));
        world.make_blocked(me, key, until);
        shared.pass(world, me);
        shared.world.lock().threads[me].timed_out
    })
    .expect("only threads of a run block")
}

/// Makes one or all of the threads ready that wait for `key`.
pub(crate) fn wake(key: Key, all: bool) {
    within(|shared, _| {
        if shared.course.may_wait(key.hash()) {
            shared.world.lock().wake(key, all);
        }
    });
}

/// True if the calling thread belongs to a run.
#[must_use]
pub fn is_simulated() -> bool {
    within(|_, _| ()).is_some()
}

/// Tells the scheduler that a session has made progress: the count towards [`Plan::patience`]
/// begins again.
pub fn progress() {
    within(|shared, _| shared.course.progress());
}

/// A random number of the run; `None` outside a run.
#[must_use]
pub fn random() -> Option<u64> {
    within(|shared, _| shared.course.draw())
}

/// The simulated time since the run began; `None` outside a run.
#[must_use]
pub fn now() -> Option<Duration> {
    within(|shared, _| Duration::from_nanos(shared.course.now()))
}

/// True if the run has planted this fault.
#[must_use]
pub fn is_planted(name: &str) -> bool {
    within(|shared, _| shared.plan.planted.as_deref() == Some(name)).unwrap_or(false)
}

/// The number of processor cores of the run; `None` outside a run.
#[must_use]
pub fn cores() -> Option<usize> {
    within(|shared, _| shared.plan.cores)
}

/// The extents that a bitmap page covers at most in the run; `None` outside a run.
#[must_use]
pub fn bitmap_extents() -> Option<usize> {
    within(|shared, _| shared.plan.bitmap_extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_project_are_found_from_every_folder() {
        let crates = project().unwrap().join("engine");
        let whole = crates.join("pool/src/evict.rs:7:9");
        let trace = |place: &str| format!("   3: pool::evict\n             at {place}\n   4: std::rt\n");
        let found = "     3: pool::evict at engine/pool/src/evict.rs:7:9\n";
        assert_eq!(frames_of_interest(&trace(whole.to_str().unwrap())), found);
        assert_eq!(frames_of_interest(&trace("/rustc/0/library/std/src/rt.rs:7:9")), "");
        assert_eq!(
            place_in_project("./src/evict.rs:7:9", &crates.join("pool")).unwrap(),
            "engine/pool/src/evict.rs:7:9"
        );
        assert_eq!(place_in_project("./pool/src/evict.rs:7:9", &crates).unwrap(), "engine/pool/src/evict.rs:7:9");
        // The scheduler's own frames say nothing.
        assert_eq!(frames_of_interest(&trace(crates.join("base/src/sim/mod.rs:1:1").to_str().unwrap())), "");
    }
}
