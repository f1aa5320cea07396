//! The progress of an experiment: a spinner line with the current figures on a terminal, with the
//! picture of the runs under it if the experiment draws one, and plain lines elsewhere.
//!
//! Everything goes to standard error, since standard output is for results.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        Progress { bar, terminal, picture: Picture::default(), last_line: None, began: Instant::now() }
    }

    /// Progress without output, for tests.
    pub fn hidden() -> Progress {
        let mut progress = Progress::new();
        progress.bar.set_draw_target(ProgressDrawTarget::hidden());
        progress.terminal = true;
        progress
    }

    /// Begins a new step.
    pub fn step(&mut self, name: &str) {
        self.bar.set_prefix(name.to_owned());
        self.bar.set_message("");
        self.bar.tick();
        self.last_line = None;
    }

    /// Shows the current figures of the step.
    pub fn show(&mut self, figures: &str) {
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

/// Prints a line on standard error. A reader that goes away (`2>&1 | head`) does not end the
/// experiment, as it would with `eprintln!`.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
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
