//! AntiDEAD: the formulas by which dbSTRESS keeps its sessions from waiting for each other's rows.
//!
//! Every session draws a REF and moves it to one that no other session takes. The first formula
//! gives each session a slice of the table. The older two give each session its own position in
//! every block of REFs: sessions share pages, so that they contend for latches and not for rows.
//! The width of the block decides how many OBJECTs a session visits (REFs / width), and so how many
//! pages all sessions touch.

use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;

/// The rule by which a session chooses its OBJECTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AntiDead {
    /// Any OBJECT: sessions contend for rows.
    Off,
    /// `[5, N/sessions - 5] + session * N/sessions`.
    Slices,
    /// `ref - ref mod width + session + 1`; the width of the reports is 2000.
    Blocks(u32),
    /// The same with a width of twice the sessions.
    TwiceSessions,
}

impl AntiDead {
    /// The OBJECT that session `session` of `sessions` takes next, in `0..objects`.
    ///
    /// # Panics
    /// If there are no objects.
    pub fn draw(self, rng: &mut Rng, objects: u32, session: u32, sessions: u32) -> u32 {
        let uniform = |rng: &mut Rng| rng.below(u64::from(objects)) as u32;
        match self {
            AntiDead::Off => uniform(rng),
            AntiDead::Slices => {
                let slice = objects / sessions.max(1);
                let (first, last) = if slice > 10 { (5u32, slice - 5) } else { (0, slice.max(1) - 1) };
                let place = rng.between(u64::from(first), u64::from(last)) as u32;
                (place + session * slice).min(objects - 1)
            }
            AntiDead::Blocks(width) => in_block(uniform(rng), width, session, objects),
            AntiDead::TwiceSessions => in_block(uniform(rng), sessions.saturating_mul(2), session, objects),
        }
    }
}

/// The session's REF in the block of `width` REFs that contains `reference`. If the end of the
/// table cuts the block short, the block before it is used.
fn in_block(reference: u32, width: u32, session: u32, objects: u32) -> u32 {
    let width = width.max(1);
    let mine = reference - reference % width + session + 1;
    if mine < objects { mine } else { mine.saturating_sub(width).min(objects - 1) }
}

impl FromStr for AntiDead {
    type Err = String;

    fn from_str(text: &str) -> Result<AntiDead, String> {
        match text {
            "off" => Ok(AntiDead::Off),
            "slices" => Ok(AntiDead::Slices),
            "twice-sessions" => Ok(AntiDead::TwiceSessions),
            width => match width.parse() {
                Ok(width) if width > 0 => Ok(AntiDead::Blocks(width)),
                _ => {
                    Err(format!("`{text}` is no AntiDEAD; choose off, slices, twice-sessions or a width such as 2000"))
                }
            },
        }
    }
}

impl fmt::Display for AntiDead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AntiDead::Off => f.write_str("off"),
            AntiDead::Slices => f.write_str("slices"),
            AntiDead::Blocks(width) => write!(f, "{width}"),
            AntiDead::TwiceSessions => f.write_str("twice-sessions"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn taken(rule: AntiDead, session: u32, sessions: u32) -> BTreeSet<u32> {
        let mut rng = Rng::for_part(3, u64::from(session));
        (0..4000).map(|_| rule.draw(&mut rng, 10_000, session, sessions)).collect()
    }

    #[test]
    fn no_two_sessions_take_the_same_object() {
        for rule in [AntiDead::Slices, AntiDead::Blocks(2000), AntiDead::Blocks(200), AntiDead::TwiceSessions] {
            let mut all = BTreeSet::new();
            for session in 0..32 {
                for object in taken(rule, session, 32) {
                    assert!(object < 10_000);
                    assert!(all.insert(object), "{rule}: {object} is taken by session {session} and by one before");
                }
            }
        }
    }

    #[test]
    fn a_block_a_tenth_as_wide_means_ten_times_the_objects() {
        assert_eq!(taken(AntiDead::Blocks(2000), 3, 32).len(), 5);
        assert_eq!(taken(AntiDead::Blocks(200), 3, 32).len(), 50);
        assert_eq!(
            taken(AntiDead::TwiceSessions, 3, 32).len(),
            10_000 / 64 + 1,
            "the last block is cut short behind session 3"
        );
    }

    #[test]
    fn switched_off_sessions_meet() {
        assert!(!taken(AntiDead::Off, 1, 2).is_disjoint(&taken(AntiDead::Off, 2, 2)));
    }

    #[test]
    fn names_round_trip() {
        for name in ["off", "slices", "2000", "twice-sessions"] {
            assert_eq!(name.parse::<AntiDead>().unwrap().to_string(), name);
        }
        assert!("0".parse::<AntiDead>().unwrap_err().contains("choose"));
    }
}
