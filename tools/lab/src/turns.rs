//! The runner in turns: subjects that are compared run one after the other on the same machine,
//! round by round. The order changes from round to round, so a machine that gets slower or faster
//! favours none, and figures are compared within a round.

use anyhow::Result;

/// How many rounds are run; by default one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// So many in any case.
    pub least: usize,
    /// No more than this, whatever is still undecided.
    pub most: usize,
}

impl Rounds {
    /// Up to four times as many as `least`: for turns of a second or less.
    pub fn up_to_four_times(least: usize) -> Rounds {
        Rounds { least, most: least * 4 }
    }

    /// Up to twice as many as `least`.
    pub fn up_to_twice(least: usize) -> Rounds {
        Rounds { least, most: least * 2 }
    }
}

/// Gives each of `sides` subjects a turn in every round, until `decided` says that more would not
/// change what is said of them. Returns the turns by subject.
///
/// `decided` is asked after `least` rounds and then whenever there are a quarter more: the more
/// often noise is looked at, the more often it looks like a result.
pub fn in_turns<T>(
    sides: usize,
    rounds: Rounds,
    mut turn: impl FnMut(usize) -> Result<T>,
    mut decided: impl FnMut(&[Vec<T>]) -> bool,
) -> Result<Vec<Vec<T>>> {
    let mut turns: Vec<Vec<T>> = (0..sides).map(|_| Vec::new()).collect();
    let mut look = rounds.least.max(1);
    for round in 1..=rounds.most.max(1) {
        for n in 0..sides {
            let side = if round % 2 == 1 { n } else { sides - 1 - n };
            turns[side].push(turn(side)?);
        }
        if round == look {
            if decided(&turns) {
                break;
            }
            look += (look / 4).max(1);
        }
    }
    Ok(turns)
}

/// Gives one subject turns, each with its references beside it, as [`in_turns`] does.
pub fn alone<T>(
    rounds: Rounds,
    turn: impl FnMut(usize) -> Result<T>,
    mut decided: impl FnMut(&[T]) -> bool,
) -> Result<Vec<T>> {
    let mut turns = in_turns(1, rounds, turn, |turns| decided(&turns[0]))?;
    Ok(turns.remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_changes_and_the_turns_end_when_nothing_is_undecided() {
        let mut order = Vec::new();
        let rounds = Rounds { least: 2, most: 9 };
        let turn = |side| {
            order.push(side);
            Ok(side)
        };
        let turns = in_turns(2, rounds, turn, |turns| turns[0].len() >= 3).unwrap();
        assert_eq!((turns[0].len(), turns[1].len()), (3, 3));
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn what_stays_undecided_ends_too() {
        let turns = in_turns(1, Rounds { least: 4, most: 16 }, |_| Ok(()), |_| false).unwrap();
        assert_eq!(turns[0].len(), 16);
        assert!(in_turns(1, Rounds::up_to_twice(1), |_| anyhow::bail!("no"), |_: &[Vec<()>]| true).is_err());
    }
}
