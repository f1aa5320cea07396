//! The name of InnoDB in a file of the suites, replaced where it names the engine of a table.
//!
//! `InnoDB` is kept in names of files, options, variables and tables (`have_innodb.inc`,
//! `--innodb`, `innodb_page_size`), and before a colon, where it begins a line of the error log.
//! Some of InnoDB's variables and tables are replaced by a counterpart of the same meaning.

/// The name in `SHOW CREATE TABLE`.
const ENGINE: &[u8] = b"HOLDFAST";
const INNODB: &[u8] = b"innodb";

/// What this engine has as well: the rest of the name, behind `innodb_`, of variables also
/// `innodb-`.
const VARIABLES: [&str; 2] = ["lock_wait_timeout", "snapshot_isolation"];
const TABLES: [&str; 3] = ["trx", "locks", "lock_waits"];

/// The text with the engine replaced, and whether it was there at all.
pub fn rewrite(text: &[u8]) -> (Vec<u8>, bool) {
    let mut to = Vec::with_capacity(text.len() + text.len() / 16);
    let mut names_engine = false;
    let mut rest = 0;
    while let Some(found) = find(text, rest) {
        to.extend_from_slice(&text[rest..found]);
        let (before, after) = (&text[..found], &text[found + INNODB.len()..]);
        rest = found + INNODB.len();
        let word = &text[found..rest];
        if is_engine(before, after) {
            names_engine = true;
            to.extend_from_slice(ENGINE);
        } else if has_counterpart(before, after) {
            let lower = word.iter().all(u8::is_ascii_lowercase);
            to.extend_from_slice(if lower { b"holdfast" } else { ENGINE });
        } else {
            to.extend_from_slice(word);
        }
    }
    to.extend_from_slice(&text[rest..]);
    (to, names_engine)
}

fn find(text: &[u8], from: usize) -> Option<usize> {
    text[from..].windows(INNODB.len()).position(|w| w.eq_ignore_ascii_case(INNODB)).map(|at| from + at)
}

fn ends_with_word(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text[text.len() - word.len()..].eq_ignore_ascii_case(word)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// True if the word between the two is an engine.
fn is_engine(before: &[u8], after: &[u8]) -> bool {
    let line_begins = before.last().is_none_or(|b| *b == b'\n');
    let line_ends = after.first().is_none_or(|b| matches!(b, b'\n' | b'\r'));
    // In a file of options this switches InnoDB on.
    if line_begins && line_ends {
        return false;
    }
    // The name of a combination.
    if (before == b"[" || before.ends_with(b"\n[")) && after.starts_with(b"]") {
        return false;
    }
    // InnoDB's monitor, and what tests show of it: they wait until InnoDB has purged.
    if ends_with_word(before, b"engine ") && after.get(..7).is_some_and(|w| w.eq_ignore_ascii_case(b" status"))
        || line_begins && after.starts_with(b"\t\t")
    {
        return false;
    }
    // The server makes the name of this table from that of the engine.
    if before.ends_with(b"gtid_slave_pos_") {
        return true;
    }
    let part_of_name = before.last().is_some_and(|b| is_of_name(*b) || matches!(b, b'/' | b'.' | b'-' | b'$' | b'@'));
    let goes_on = match after {
        [b'-' | b':', ..] => true,
        [b'/', second, ..] => *second != b'*',
        [b'.', second, ..] => is_of_name(*second),
        [first, ..] => is_of_name(*first),
        [] => false,
    };
    !part_of_name && !goes_on
}

/// True if the name that begins between the two is one of those that this engine has.
fn has_counterpart(before: &[u8], after: &[u8]) -> bool {
    let [separator @ (b'_' | b'-'), rest @ ..] = after else { return false };
    let len = rest.iter().take_while(|b| is_of_name(**b) || **b == b'-').count();
    let name = String::from_utf8_lossy(&rest[..len]).to_ascii_lowercase().replace('-', "_");
    let is_variable = VARIABLES.contains(&name.as_str());
    // Elsewhere the names of tables are those of options, which switch InnoDB's on, and of views of
    // the schema sys.
    let is_table =
        *separator == b'_' && TABLES.contains(&name.as_str()) && ends_with_word(before, b"information_schema.");
    is_table || is_variable && !before.last().is_some_and(|b| is_of_name(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        String::from_utf8(rewrite(text.as_bytes()).0).unwrap()
    }

    #[test]
    fn the_engine_of_a_table_is_replaced() {
        assert_eq!(rewritten("create table t (a int) ENGINE=InnoDB;"), "create table t (a int) ENGINE=HOLDFAST;");
        assert_eq!(rewritten("mysql.gtid_slave_pos_InnoDB"), "mysql.gtid_slave_pos_HOLDFAST");
        assert_eq!(rewritten("let $engine= innodb;\n"), "let $engine= HOLDFAST;\n");
        assert_eq!(rewritten("/*!50100 engine=innodb*/"), "/*!50100 engine=HOLDFAST*/");
        assert_eq!(rewritten("default-storage-engine=innodb\n"), "default-storage-engine=HOLDFAST\n");
    }

    #[test]
    fn names_of_files_options_and_variables_stay() {
        for text in [
            "--source include/have_innodb.inc",
            "--source suite/innodb/include/x.inc",
            "[innodb]\ninnodb\n--innodb\n[innodb]\n",
            "--innodb-trx\n",
            "set global innodb_page_size=1;",
            "2020 InnoDB: started",
            "source innodb.inc;",
            "SHOW ENGINE INNODB STATUS",
            "InnoDB\t\t0 transactions not purged",
        ] {
            assert_eq!(rewritten(&format!("\n{text}")), format!("\n{text}"));
        }
    }

    #[test]
    fn what_this_engine_has_as_well_is_named_by_its_own_name() {
        assert_eq!(rewritten("set innodb_lock_wait_timeout=1"), "set holdfast_lock_wait_timeout=1");
        assert_eq!(rewritten("--innodb-lock-wait-timeout=1"), "--holdfast-lock-wait-timeout=1");
        assert_eq!(rewritten("from INFORMATION_SCHEMA.INNODB_TRX"), "from INFORMATION_SCHEMA.HOLDFAST_TRX");
        assert_eq!(
            rewritten("innodb_trx_weight.inc innodb_lock_wait_timeout_basic"),
            "innodb_trx_weight.inc innodb_lock_wait_timeout_basic"
        );
    }
}
