//! Random sequences of statements, the same on this engine and on InnoDB in one server: the
//! contents of the tables have to be equal.
//!
//! A sequence is a number of steps. At random steps the engines are compared, or the server is
//! killed and started again. A seed determines all steps.

use anyhow::{Context, ensure};
use holdfast_server::server::SOCKET_ONLY;
use holdfast_server::{Cache, Server};
use holdfast_workload::rng::Rng;

const STEPS_BETWEEN_LOOKS: u64 = 10;

/// A kind of stories, and the server that they are told to.
pub struct Stories {
    /// Of the server's folder.
    pub name: &'static str,
    pub options: &'static [&'static str],
    /// How long one is.
    pub steps: u64,
    pub steps_between_kills: u64,
    /// What [`Story::end`] counts, in words.
    pub counted: &'static str,
}

/// What happens, and what it leads to.
pub trait Story {
    /// Goes on by a step.
    fn step(&mut self, rng: &mut Rng);

    /// Carries out on both engines what has come since the last look, and compares.
    fn look(&mut self, server: &Server<'_>) -> anyhow::Result<()>;

    /// What is to be said of it in the end, as a number.
    fn end(self) -> u64;
}

impl Stories {
    /// Tells stories of so many `steps` in all, and stops the server again.
    pub fn run<S: Story>(
        &self,
        cache: &Cache,
        steps: u64,
        seed: u64,
        begin: impl Fn(&mut Rng) -> S,
    ) -> anyhow::Result<()> {
        let server = Server::new(cache, self.name).bound_to_us();
        self.up(&server, true)?;
        let result = self.tell_all(&server, steps, seed, begin).with_context(|| format!("seed {seed}"));
        match &result {
            Ok(()) => server.down()?,
            Err(_) => println!("log of the server:\n{}", server.log_tail()),
        }
        result
    }

    fn up(&self, server: &Server<'_>, fresh: bool) -> anyhow::Result<()> {
        let options: Vec<_> = self.options.iter().map(|o| (*o).to_string()).collect();
        server.up(SOCKET_ONLY, fresh, &options)
    }

    fn tell_all<S: Story>(
        &self,
        server: &Server<'_>,
        all: u64,
        seed: u64,
        begin: impl Fn(&mut Rng) -> S,
    ) -> anyhow::Result<()> {
        server.query("CREATE DATABASE holdfast; CREATE DATABASE innodb")?;
        let (mut done, mut counted) = (0, 0);
        while done < all {
            let mut rng = Rng::for_part(seed, done);
            let steps = self.steps.min(all - done);
            let story = begin(&mut rng);
            counted += self.tell(server, &mut rng, steps, story)?;
            done += steps;
            println!("{done} steps, {counted} of them {}: both engines have the same", self.counted);
        }
        Ok(())
    }

    fn tell(&self, server: &Server<'_>, rng: &mut Rng, steps: u64, mut story: impl Story) -> anyhow::Result<u64> {
        for step in 1..=steps {
            story.step(rng);
            if step % STEPS_BETWEEN_LOOKS != 0 && step != steps {
                continue;
            }
            story.look(server)?;
            if rng.below(self.steps_between_kills / STEPS_BETWEEN_LOOKS) == 0 {
                server.kill()?;
                self.up(server, false)?;
            }
        }
        Ok(story.end())
    }
}

/// The answer of both engines; an error if they differ. `ask` gets the engine and its schema.
pub fn same_on_both(ask: impl Fn(&str, &str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let [ours, theirs] = ["HOLDFAST", "InnoDB"]
        .map(|engine| ask(engine, &engine.to_lowercase()).with_context(|| format!("on {engine}")));
    let (ours, theirs) = (ours?, theirs?);
    let differs = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
    ensure!(ours == theirs, "the tables differ: {differs:?}");
    Ok(ours)
}
