//! What sessions have said, and what is known of them then.

use super::*;

fn say(sql: &str) -> Statement {
    Statement { session: 0, sql: sql.into(), ordered: false }
}

#[test]
fn a_prepared_statement_means_its_text_with_the_values() {
    let mut meanings = Meanings::new(1);
    let text = "INSERT INTO t (a, b) VALUES (?, 'x''\\\\?'), (?, NULL)";
    meanings.succeeded(&say(&format!("PREPARE p FROM {}", quoted(text))));
    let meant = meanings.of(&say("EXECUTE p USING 1, 23")).sql;
    assert_eq!(meant, "INSERT INTO t (a, b) VALUES (1, 'x''\\\\?'), (23, NULL)");
    let at_once = format!("SET STATEMENT sql_mode = '' FOR EXECUTE IMMEDIATE {} USING 1, 23", quoted(text));
    assert_eq!(meanings.of(&say(&at_once)).sql, meant);
    assert_eq!(meanings.of(&say("EXECUTE q")).sql, "EXECUTE q");
}

#[test]
fn an_insert_that_is_refused_undoes_no_change_of_another_row() {
    let answer = |success| Answer {
        outcome: match success {
            true => Outcome::Done(0, String::new()),
            false => Outcome::Refused(1062, "Duplicate entry '1' for key 'PRIMARY'".into()),
        },
        warnings: Vec::new(),
    };
    let ended = |sql: &str, success| {
        let mut meanings = Meanings::new(2);
        meanings.ended(&say("BEGIN"), &answer(true));
        meanings.said(&say(sql));
        meanings.ended(&say(sql), &answer(success));
        let inserts = sql.starts_with("INSERT");
        assert_eq!(meanings.refusing(0) == [("t".into(), "1".into())], inserts && !success);
        meanings.others_are_partly_undone(1)
    };
    assert!(!ended("INSERT INTO t VALUES (1)", false));
    assert!(!ended("UPDATE t SET a = 1", true));
    assert!(ended("UPDATE t SET a = 1", false));
    assert!(ended("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", false));
}

#[test]
fn a_transaction_of_xa_ends_as_its_state_asks_for() {
    let mut meanings = Meanings::new(1);
    assert_eq!(meanings.ending(0), ["COMMIT"]);
    meanings.succeeded(&say("XA START 'x'"));
    assert_eq!(meanings.ending(0), ["XA END 'x'", "XA ROLLBACK 'x'"]);
    meanings.succeeded(&say("XA END 'x'"));
    meanings.succeeded(&say("XA PREPARE 'x'"));
    meanings.killed();
    assert_eq!(meanings.ending(0), ["XA COMMIT 'x'"]);
    meanings.succeeded(&say("XA COMMIT 'x'"));
    assert_eq!(meanings.ending(0), ["COMMIT"]);
}

#[test]
fn a_handler_stays_at_the_end_of_an_index_that_was_empty() {
    let mut meanings = Meanings::new(2);
    let next = say("HANDLER h READ k NEXT LIMIT 2");
    let mut stays = |said: &[(&str, usize)]| {
        for (sql, found) in said {
            meanings.ended(&say(sql), &answered(*found));
        }
        meanings.handler_stays_at_end(&next)
    };
    let (first, insert) = (("HANDLER h READ k FIRST LIMIT 2", 0), ("INSERT INTO t VALUES (2)", 0));
    assert!(stays(&[first, insert]));
    assert!(stays(&[("HANDLER h READ k NEXT LIMIT 2", 0)]));
    assert!(!stays(&[("HANDLER h READ k PREV", 1)]), "it has turned round");
    assert!(!stays(&[first, insert, ("HANDLER h READ k NEXT", 1)]));
    assert!(!stays(&[("HANDLER h READ k FIRST LIMIT 2", 1)]));
    assert!(!stays(&[("HANDLER h READ k LAST", 0)]));
    assert!(!stays(&[("HANDLER h READ j FIRST", 0)]), "another index");
    assert!(!stays(&[("HANDLER h READ FIRST", 0)]), "no index");
    assert!(!stays(&[first, ("ALTER TABLE t FORCE", 0)]), "it begins anew");
}

#[test]
fn a_transaction_beside_a_session_is_prepared_or_not() {
    let mut meanings = Meanings::new(3);
    let nothing_waits = |_| false;
    assert!(!meanings.only_prepared_are_beside(1, nothing_waits));
    for sql in ["XA START 'x'", "XA END 'x'"] {
        meanings.succeeded(&say(sql));
        assert!(!meanings.only_prepared_are_beside(1, nothing_waits));
    }
    meanings.succeeded(&say("XA PREPARE 'x'"));
    assert!(meanings.only_prepared_are_beside(1, nothing_waits));
    assert!(!meanings.only_prepared_are_beside(0, nothing_waits));
    assert!(!meanings.only_prepared_are_beside(1, |other| other == 2));
    meanings.succeeded(&Statement { session: 2, ..say("BEGIN") });
    assert!(!meanings.only_prepared_are_beside(1, nothing_waits));
}

#[test]
fn a_change_of_a_definition_ends_a_transaction_but_not_one_of_xa() {
    let locked = |begin: &str| {
        let mut meanings = Meanings::new(1);
        for sql in [begin, "UPDATE t SET a = 1", "ALTER TABLE t FORCE"] {
            meanings.said(&say(sql));
            meanings.ended(&say(sql), &answered(0));
        }
        meanings.in_transactions().any(|sql| sql.starts_with("UPDATE"))
    };
    assert!(locked("XA START 'x'") && !locked("BEGIN"));
}

fn answered(rows: usize) -> Answer {
    Answer { outcome: Outcome::Rows(vec![vec!["1".into()]; rows]), warnings: Vec::new() }
}

#[test]
fn reads_are_kept_by_a_transaction_whose_level_promises_it() {
    let mut meanings = Meanings::new(1);
    let read = |meanings: &mut Meanings, level: &str| {
        let all = [level, "BEGIN", "SELECT a FROM t", "SELECT NEXTVAL(s)", "DELETE FROM t"];
        for statement in all.map(say) {
            meanings.said(&statement);
            meanings.ended(&statement, &answered(1));
        }
        meanings.kept_reads(0)
    };
    assert_eq!(
        read(&mut meanings, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
        ["SELECT a FROM t LOCK IN SHARE MODE"]
    );
    meanings.ended(&say("COMMIT"), &answered(0));
    assert_eq!(read(&mut meanings, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"), ["SELECT a FROM t"]);
    meanings.ended(&say("COMMIT"), &answered(0));
    assert_eq!(meanings.kept_reads(0), Vec::<String>::new());
    assert!(read(&mut meanings, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").is_empty());
}

#[test]
fn indexes_are_younger_than_a_transaction_that_was_there_before_them() {
    let mut meanings = Meanings::new(2);
    for statement in [say("BEGIN"), say("SELECT 1")] {
        meanings.ended(&statement, &answered(1));
    }
    let alter = say("ALTER TABLE t ADD KEY k7 (c), ADD COLUMN d INT, ADD UNIQUE KEY k8 (d)");
    meanings.ended(&Statement { session: 1, ..alter }, &answered(0));
    assert_eq!(meanings.younger_keys(0), ["k7", "k8"]);
    assert!(meanings.younger_keys(1).is_empty());
    meanings.ended(&say("COMMIT"), &answered(0));
    assert!(meanings.younger_keys(0).is_empty());
}

#[test]
fn a_transaction_keeps_the_snapshot_that_a_handler_took() {
    let keeps = |said: &[&str]| {
        let mut meanings = Meanings::new(1);
        for sql in said {
            meanings.said(&say(sql));
            meanings.ended(&say(sql), &answered(0));
        }
        meanings.keeps_snapshot_of_handler(0)
    };
    assert!(keeps(&["BEGIN", "HANDLER h READ FIRST", "SELECT 1"]));
    assert!(!keeps(&["HANDLER h READ FIRST", "SELECT 1"]), "its transaction is over");
    assert!(!keeps(&["BEGIN", "HANDLER h OPEN", "SELECT 1"]), "it has not read");
}

#[test]
fn a_handler_that_found_less_than_it_wanted_stands_beside_what_changes_then() {
    let mut meanings = Meanings::new(2);
    let change = Statement { session: 1, ..say("INSERT INTO t VALUES (2)") };
    let mut stands_beside = |read: &str, found| {
        meanings.ended(&say(read), &answered(found));
        assert!(!meanings.handler_stands_beside_changes(0));
        meanings.ended(&change, &answered(0));
        meanings.handler_stands_beside_changes(0)
    };
    assert!(stands_beside("HANDLER h READ k = (1)", 0));
    assert!(!stands_beside("HANDLER h READ k NEXT", 1));
    assert!(stands_beside("HANDLER h READ k FIRST LIMIT 2", 1));
    assert!(!stands_beside("HANDLER h READ k PREV LIMIT 2", 2));
    assert!(stands_beside("HANDLER h READ NEXT LIMIT 3", 0));
    assert!(!stands_beside("HANDLER h CLOSE", 0));
}
