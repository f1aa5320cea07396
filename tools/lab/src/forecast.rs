//! How long the rest of a long work takes.
//!
//! The work is planned in parts with the seconds that each is meant to take. How much longer or
//! shorter the parts so far have taken is expected of the others, too: a turn has a begin and an
//! end that no plan has, and turns end early where all claims are decided.

use std::time::Duration;

/// Work in parts. Times are seconds since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forecast {
    planned: f64,
    done: f64,
    /// When the last part was done.
    at: f64,
    /// True if the plan has proportions instead of seconds.
    relative: bool,
}

impl Forecast {
    /// Parts that are meant to take this time together.
    pub fn of(work: Duration) -> Forecast {
        Forecast { planned: work.as_secs_f64(), ..Forecast::default() }
    }

    /// Parts of equal length, which nothing is known of.
    pub fn of_parts(parts: usize) -> Forecast {
        Forecast { planned: parts as f64, relative: true, ..Forecast::default() }
    }

    /// At `now` a part is done, of this planned length.
    pub fn did(&mut self, now: f64, work: f64) {
        (self.done, self.at) = (self.done + work, now);
    }

    /// The seconds that are left at `now`, if there is an estimate.
    pub fn left(&self, now: f64) -> Option<f64> {
        let pace = match self.done > 0.0 {
            true => self.at / self.done,
            false if self.relative => return None,
            false => 1.0,
        };
        let left = (self.planned - self.done) * pace - (now - self.at);
        (self.planned > 0.0).then(|| left.max(0.0))
    }
}

/// The seconds that are left of work of which `done` of `total` took `seconds`.
pub(crate) fn at_this_pace(seconds: f64, done: u64, total: u64) -> Option<f64> {
    (done > 0).then(|| seconds * total.saturating_sub(done) as f64 / done as f64)
}

/// A length of time in words, with two units at most.
pub(crate) fn in_words(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) if minutes < 10 => format!("{minutes} min {seconds} s"),
        (0, minutes, _) => format!("{minutes} min"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_much_longer_as_the_parts_so_far() {
        let mut forecast = Forecast::of(Duration::from_secs(100));
        assert_eq!((forecast.left(0.0), forecast.left(30.0)), (Some(100.0), Some(70.0)));
        // A fifth of the work took twice as long as it was meant to.
        forecast.did(40.0, 20.0);
        assert_eq!((forecast.left(40.0), forecast.left(50.0)), (Some(160.0), Some(150.0)));
        // The rest was decided early.
        forecast.did(60.0, 80.0);
        assert_eq!(forecast.left(70.0), Some(0.0));
    }

    #[test]
    fn of_parts_without_a_length_the_first_one_tells() {
        let mut forecast = Forecast::of_parts(4);
        assert_eq!((forecast.left(5.0), Forecast::default().left(5.0)), (None, None));
        forecast.did(10.0, 1.0);
        assert_eq!(forecast.left(12.0), Some(28.0));
        assert_eq!((at_this_pace(10.0, 0, 8), at_this_pace(10.0, 2, 8)), (None, Some(30.0)));
    }

    #[test]
    fn a_time_in_words_is_as_exact_as_an_estimate() {
        let words = [0.2, 59.0, 61.0, 599.5, 660.0, 7_260.0].map(in_words);
        assert_eq!(words, ["1 s", "59 s", "1 min 1 s", "10 min", "11 min", "2 h 1 min"]);
    }
}
