//! An operation of a disk that fails.

use holdfast_testkit::{Fault, FaultKind, FaultOp};

use super::plan::Dice;

/// One operation that fails.
pub(super) fn draw(dice: &mut Dice) -> Fault {
    let op = dice.one_of(&[
        FaultOp::Read,
        FaultOp::Read,
        FaultOp::Write,
        FaultOp::Write,
        FaultOp::Write,
        FaultOp::Sync,
        FaultOp::Sync,
        FaultOp::SetLen,
        FaultOp::Open,
        FaultOp::SyncDir,
        FaultOp::Remove,
        FaultOp::Rename,
    ]);
    let kind = match op {
        FaultOp::Write => dice.one_of(&[FaultKind::Eio, FaultKind::Enospc, FaultKind::Torn]),
        FaultOp::SetLen => FaultKind::Enospc,
        _ => FaultKind::Eio,
    };
    let within = match op {
        FaultOp::Read | FaultOp::Write => dice.one_of(&[20, 100, 400]),
        FaultOp::Sync => dice.one_of(&[5, 20, 100]),
        _ => dice.one_of(&[1, 3, 10]),
    };
    Fault::nth(op, dice.below(within) + 1).kind(kind)
}
