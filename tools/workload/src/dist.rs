//! The distributions of sysbench's `--rand-type`, by which rows are chosen.

use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;

/// A kind of distribution with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Every row with the same probability.
    Uniform,
    /// sysbench's `special`: `share_pct` percent of the accesses go to `hot_pct` percent of the
    /// rows, in the middle of the table. The others are the mean of `iterations` uniform draws.
    Special {
        /// Draws that are averaged.
        iterations: u32,
        /// Percent of the rows that are special.
        hot_pct: u32,
        /// Percent of the accesses that go to special rows.
        share_pct: u32,
    },
    /// A power law: `h` of the accesses go to `1 - h` of the rows (0.2: 80 percent to a fifth).
    Pareto {
        /// The exponent's parameter, between 0 and 1.
        h: f64,
    },
    /// Zipf's law with this exponent.
    Zipf {
        /// The exponent, above 0.
        exponent: f64,
    },
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        match name {
            "uniform" => Ok(Kind::Uniform),
            "special" => Ok(Kind::Special { iterations: 12, hot_pct: 1, share_pct: 75 }),
            "pareto" => Ok(Kind::Pareto { h: 0.2 }),
            "zipf" => Ok(Kind::Zipf { exponent: 0.8 }),
            _ => Err(format!("`{name}` is no distribution; choose uniform, special, pareto or zipf")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Uniform => "uniform",
            Kind::Special { .. } => "special",
            Kind::Pareto { .. } => "pareto",
            Kind::Zipf { .. } => "zipf",
        })
    }
}

/// A distribution over `1..=n`, ready to draw from.
#[derive(Clone, Debug)]
pub struct Distribution {
    kind: Kind,
    n: u64,
    zipf: Option<Zipf>,
}

impl Distribution {
    /// `kind` over the numbers `1..=n`.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    pub fn new(kind: Kind, n: u64) -> Distribution {
        assert!(n > 0, "a distribution over nothing");
        let zipf = match kind {
            Kind::Zipf { exponent } => Some(Zipf::new(n, exponent)),
            _ => None,
        };
        Distribution { kind, n, zipf }
    }

    /// Draws a number in `1..=n`.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self.kind {
            Kind::Uniform => 1 + rng.below(self.n),
            Kind::Special { iterations, hot_pct, share_pct } => self.special(rng, iterations, hot_pct, share_pct),
            Kind::Pareto { h } => {
                let power = h.ln() / (1.0 - h).ln();
                1 + ((self.n as f64 * rng.unit().powf(power)) as u64).min(self.n - 1)
            }
            Kind::Zipf { .. } => self.zipf.as_ref().map_or(1, |z| z.draw(rng)),
        }
    }

    fn special(&self, rng: &mut Rng, iterations: u32, hot_pct: u32, share_pct: u32) -> u64 {
        let hot = (self.n * u64::from(hot_pct) / 100).max(1);
        if rng.below(100) < u64::from(share_pct) {
            return 1 + (self.n - hot) / 2 + rng.below(hot);
        }
        let sum: u64 = (0..iterations.max(1)).map(|_| rng.below(self.n)).sum();
        1 + sum / u64::from(iterations.max(1))
    }
}

/// Zipf's law by rejection-inversion (W. Hoermann, G. Derflinger: "Rejection-inversion to generate
/// variates from monotone discrete distributions", 1996): no table, constant time.
#[derive(Clone, Debug)]
struct Zipf {
    n: u64,
    exponent: f64,
    h_x1: f64,
    h_n: f64,
    s: f64,
}

impl Zipf {
    fn new(n: u64, exponent: f64) -> Zipf {
        let mut z = Zipf { n, exponent, h_x1: 0.0, h_n: 0.0, s: 0.0 };
        z.h_x1 = z.h_integral(1.5) - 1.0;
        z.h_n = z.h_integral(n as f64 + 0.5);
        z.s = 2.0 - z.h_integral_inverse(z.h_integral(2.5) - z.h(2.0));
        z
    }

    fn h(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn h_integral(&self, x: f64) -> f64 {
        let log_x = x.ln();
        let t = (1.0 - self.exponent) * log_x;
        (if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 }) * log_x
    }

    fn h_integral_inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        ((if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 }) * x).exp()
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.h_n + rng.unit() * (self.h_x1 - self.h_n);
            let x = self.h_integral_inverse(u);
            let k = ((x + 0.5) as u64).clamp(1, self.n);
            if k as f64 - x <= self.s || u >= self.h_integral(k as f64 + 0.5) - self.h(k as f64) {
                return k;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_of(kind: Kind, rows: std::ops::RangeInclusive<u64>) -> f64 {
        let dist = Distribution::new(kind, 1000);
        let mut rng = Rng::new(7);
        let hits = (0..20_000)
            .filter(|_| {
                let x = dist.draw(&mut rng);
                assert!((1..=1000).contains(&x), "{x}");
                rows.contains(&x)
            })
            .count();
        hits as f64 / 20_000.0
    }

    #[test]
    fn each_distribution_has_its_shape() {
        assert!((share_of(Kind::Uniform, 1..=100) - 0.1).abs() < 0.02);
        let special = "special".parse().unwrap();
        assert!(share_of(special, 480..=520) > 0.75);
        let pareto = "pareto".parse().unwrap();
        assert!((share_of(pareto, 1..=200) - 0.8).abs() < 0.02);
        let zipf = Kind::Zipf { exponent: 1.0 };
        assert!((share_of(zipf, 1..=1) - 0.1336).abs() < 0.01);
        assert!((share_of(zipf, 1..=10) - 0.391).abs() < 0.015);
    }

    #[test]
    fn names_round_trip() {
        for name in ["uniform", "special", "pareto", "zipf"] {
            assert_eq!(name.parse::<Kind>().unwrap().to_string(), name);
        }
        assert!("normal".parse::<Kind>().unwrap_err().contains("choose"));
    }
}
