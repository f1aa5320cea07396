//! The progress of an experiment: a spinner line with the current figures and what is left on a
//! terminal, with the picture of the runs under it if the experiment draws one, and plain lines
//! elsewhere.
//!
//! Everything goes to standard error, since standard output is for results.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

pub(crate) use holdfast_server::run::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::forecast::{Forecast, at_this_pace, in_words};
use crate::picture::Picture;

/// Live progress of an experiment.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    terminal: bool,
    /// What is drawn under the line.
    pub picture: Picture,
    last_line: Option<Instant>,
    began: Instant,
    step_began: Instant,
    /// What is planned, and when that began.
    planned: (Forecast, Instant),
}

/// Pause between two plain lines about the same step.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

impl Progress {
    /// Progress on standard error.
    pub fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>4} {prefix:.bold} {msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        Progress {
            bar,
            terminal,
            picture: Picture::default(),
            last_line: None,
            began: now,
            step_began: now,
            planned: (Forecast::default(), now),
        }
    }

    /// Progress without output, for tests.
    pub fn hidden() -> Progress {
        let mut progress = Progress::new();
        progress.bar.set_draw_target(ProgressDrawTarget::hidden());
        progress.terminal = true;
        progress
    }

    /// What the experiment is going to do from now on takes at most this time, as far as that is
    /// known.
    pub fn plan(&mut self, work: Duration) {
        self.planned = (Forecast::of(work), Instant::now());
    }

    /// What the experiment is going to do from now on are so many parts, each about as long as the
    /// others.
    pub fn plan_parts(&mut self, parts: usize) {
        self.planned = (Forecast::of_parts(parts), Instant::now());
    }

    /// A part of the plan is done, which was planned with this time.
    pub fn did(&mut self, work: Duration) {
        let (forecast, began) = &mut self.planned;
        forecast.did(began.elapsed().as_secs_f64(), work.as_secs_f64());
    }

    /// A part of [`Progress::plan_parts`] is done.
    pub fn did_part(&mut self) {
        self.did(Duration::from_secs(1));
    }

    /// Begins a new step.
    pub fn step(&mut self, name: &str) {
        self.bar.set_prefix(name.to_owned());
        self.bar.set_message(self.left().unwrap_or_default());
        self.bar.tick();
        (self.last_line, self.step_began) = (None, Instant::now());
    }

    /// Shows the current figures of the step, and how long the rest of the plan takes.
    pub fn show(&mut self, figures: &str) {
        self.say_now(&[figures, &self.left().unwrap_or_default()]);
    }

    /// Shows that `done` of the step's `total` are done, of what `of` names, and how long the rest
    /// of the step takes.
    pub fn show_part(&mut self, (done, total): (u64, u64), of: &str) {
        let left = at_this_pace(self.step_began.elapsed().as_secs_f64(), done, total);
        let left = left.map_or_else(String::new, |seconds| format!("about {} left", in_words(seconds)));
        self.say_now(&[&format!("{done} of {total} {of}"), &left]);
    }

    fn left(&self) -> Option<String> {
        let (forecast, began) = &self.planned;
        let seconds = forecast.left(began.elapsed().as_secs_f64()).filter(|seconds| *seconds >= 1.0)?;
        Some(format!("up to about {} left", in_words(seconds)))
    }

    fn say_now(&mut self, parts: &[&str]) {
        let figures = &parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        if self.terminal {
            let drawn = self.picture.lines(coloured()).into_iter();
            self.bar.set_message(std::iter::once(figures.to_owned()).chain(drawn).collect::<Vec<_>>().join("\n"));
            self.bar.tick();
        } else if self.last_line.is_none_or(|at| at.elapsed() >= LINE_INTERVAL) {
            self.last_line = Some(Instant::now());
            say(&format!("{:>5.1}s {}  {figures}", self.began.elapsed().as_secs_f64(), self.bar.prefix()));
        }
    }

    /// Prints a line that stays.
    pub fn line(&mut self, text: &str) {
        if self.terminal {
            self.bar.suspend(|| say(text));
        } else {
            say(text);
        }
    }

    /// Removes the live line; the picture stays.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
        let picture = std::mem::take(&mut self.picture);
        if self.terminal && !self.bar.is_hidden() {
            picture.lines(coloured()).iter().for_each(|line| say(line));
        }
    }
}

/// True unless the user asked for no colours.
fn coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none()
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_plan_is_said() {
        let mut progress = Progress::hidden();
        assert_eq!(progress.left(), None, "nothing is planned");
        progress.plan(Duration::from_secs(3_630));
        assert_eq!(progress.left().as_deref(), Some("up to about 1 h 0 min left"));
        progress.did(Duration::from_secs(3_630));
        assert_eq!(progress.left(), None, "all is done");
        progress.plan_parts(2);
        assert_eq!(progress.left(), None, "no part is done");
    }

    #[test]
    fn the_rest_of_a_step_is_said_beside_its_figures() {
        let mut progress = Progress::hidden();
        progress.step("loading");
        progress.step_began -= Duration::from_secs(1_800);
        progress.show_part((1, 4), "rows");
        let said = progress.bar.message();
        assert_eq!(said, "1 of 4 rows; about 1 h 30 min left");
        progress.plan(Duration::from_secs(7_230));
        progress.show("5 tps");
        assert_eq!(progress.bar.message(), "5 tps; up to about 2 h 0 min left");
    }
}
