//! LATEST DETECTED DEADLOCK and TRANSACTIONS.

use std::fmt::{self, Write as _};
use std::time::Duration;

use holdfast_base::TxnId;
use holdfast_txn::{DeadlockParty, DeadlockReport, Session, TrxInfo};

use super::format::{section, utc};
use crate::observe::names::Names;
use crate::observe::stats::TransactionStats;

/// The latest deadlock, if there was one.
pub(super) fn deadlock(out: &mut String, report: Option<&DeadlockReport>, names: &Names) -> fmt::Result {
    let Some(report) = report else { return Ok(()) };
    section(out, "LATEST DETECTED DEADLOCK")?;
    writeln!(out, "{}", utc(report.at))?;
    for (i, party) in report.cycle.iter().enumerate() {
        let n = i + 1;
        writeln!(out, "*** ({n}) TRANSACTION:")?;
        write_party(out, party)?;
        // What it holds is what the one before it waits for.
        let before = &report.cycle[(i + report.cycle.len() - 1) % report.cycle.len()];
        if let Some(held) = &before.wanted {
            writeln!(out, "*** ({n}) HOLDS THE LOCK(S):\n{}", names.held(party.serial, held))?;
        }
        match &party.wanted {
            Some(wanted) => {
                let wanted = names.wanted(party.serial, wanted);
                writeln!(out, "*** ({n}) WAITING FOR THIS LOCK TO BE GRANTED:\n{wanted}")?;
            }
            None => writeln!(out, "*** ({n}) HAS BEEN GRANTED ITS LOCK MEANWHILE")?,
        }
    }
    let victim = report.cycle.iter().position(|p| p.serial == report.victim).unwrap_or(0) + 1;
    writeln!(out, "*** WE ROLL BACK TRANSACTION ({victim})")
}

fn write_party(out: &mut String, party: &DeadlockParty) -> fmt::Result {
    head(out, "TRANSACTION", party.serial, party.txn, party.age)?;
    locks(out, true, party.row_locks, party.undo_records)?;
    session(out, party.session.as_ref())
}

/// Numbers, then the transactions one by one.
pub(super) fn transactions(
    out: &mut String,
    numbers: &TransactionStats,
    open: &[TrxInfo],
    names: &Names,
) -> fmt::Result {
    section(out, "TRANSACTIONS")?;
    writeln!(out, "History list length {}", numbers.history_length)?;
    writeln!(out, "{} transactions active, {} read views open", numbers.active, numbers.read_views)?;
    writeln!(out, "{} old versions kept, {} bytes; {} locks", numbers.versions, numbers.version_bytes, numbers.locks)?;
    writeln!(out, "{} commits, {} rollbacks, {} deadlocks", numbers.commits, numbers.rollbacks, numbers.deadlocks)?;
    if numbers.recovering > 0 {
        writeln!(out, "{} transactions found unfinished at open are being rolled back", numbers.recovering)?;
    }
    writeln!(out, "LIST OF TRANSACTIONS FOR EACH SESSION:")?;
    open.iter().try_for_each(|trx| transaction(out, trx, names))
}

fn transaction(out: &mut String, trx: &TrxInfo, names: &Names) -> fmt::Result {
    head(out, "---TRANSACTION", trx.serial, trx.txn, trx.age)?;
    locks(out, trx.waiting.is_some(), trx.row_locks, trx.undo_records)?;
    session(out, trx.session.as_ref())?;
    if let Some((wanted, waited)) = &trx.waiting {
        writeln!(out, "------- TRX HAS BEEN WAITING {} SEC FOR THIS LOCK TO BE GRANTED:", waited.as_secs())?;
        writeln!(out, "{}\n------------------", names.wanted(trx.serial, wanted))?;
    }
    Ok(())
}

fn head(out: &mut String, word: &str, serial: u64, txn: TxnId, age: Duration) -> fmt::Result {
    write!(out, "{word} {serial}, ACTIVE {} sec", age.as_secs())?;
    if txn != TxnId::NONE {
        write!(out, ", its rows carry id {}", txn.0)?;
    }
    out.write_char('\n')
}

fn locks(out: &mut String, waits: bool, row_locks: usize, undo_records: u64) -> fmt::Result {
    let wait = if waits { "LOCK WAIT " } else { "" };
    writeln!(out, "{wait}{row_locks} row lock(s), undo log entries {undo_records}")
}

fn session(out: &mut String, session: Option<&Session>) -> fmt::Result {
    match session.map(|s| s.description.trim_end()) {
        Some(text) if !text.is_empty() => writeln!(out, "{text}"),
        _ => Ok(()),
    }
}
