//! Read-only opens share a database with each other and exclude those that write, whether there is
//! a lock file or not, and whether the user that reads may write to the directory or not.

#[expect(dead_code, reason = "it is for the tests of the folder, too")]
#[path = "behaviours/common/mod.rs"]
mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use holdfast::{Error, io};

fn is_refused<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::AlreadyOpen(_)))
}

#[test]
fn two_readers_are_no_hindrance_to_each_other_and_keep_writers_out() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path()).unwrap();
    common::fill(&db, 0, 100);
    db.close().unwrap();
    for _ in 0..2 {
        let readers = [(); 2].map(|()| common::small().open_read_only(dir.path()).unwrap());
        assert!(is_refused(common::small().open(dir.path())));
        readers.iter().for_each(|db| common::assert_filled(db, 0, 100));
        let [first, last] = readers;
        first.close().unwrap();
        assert!(is_refused(common::small().open(dir.path())));
        last.close().unwrap();
        let db = common::small().open(dir.path()).unwrap();
        assert!(is_refused(common::small().open_read_only(dir.path())));
        db.close().unwrap();
        // The second time as on a fresh copy.
        std::fs::remove_file(dir.path().join(io::LOCK_FILE)).unwrap();
    }
    let reader = common::small().open_read_only(dir.path()).unwrap();
    assert!(is_refused(common::small().open(dir.path())));
    assert!(!dir.path().join(io::LOCK_FILE).exists(), "neither a reader nor a refused writer makes a lock file");
    drop(reader);
}

const DIRECTORY: &str = "HOLDFAST_TEST_DIRECTORY";
const EXPECTED: &str = "HOLDFAST_TEST_EXPECTED";

/// The other user's part of the test below; passes when it is run by itself.
#[test]
fn other_user() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    assert!(std::fs::write(Path::new(&dir).join("mine"), "x").is_err(), "the user may not write there");
    let opened = common::small().open_read_only(&dir);
    if std::env::var(EXPECTED).unwrap() == "refused" {
        assert!(is_refused(opened));
    } else {
        common::assert_filled(&opened.unwrap(), 0, 100);
        assert!(common::small().open(&dir).is_err(), "it cannot be opened for writing");
    }
}

/// Runs [`other_user`] as the user `nobody`.
fn as_nobody(dir: &Path, expected: &str) -> std::io::Result<bool> {
    let status = Command::new(std::env::current_exe()?)
        .args(["--exact", "other_user", "--nocapture"])
        .env(DIRECTORY, dir)
        .env(EXPECTED, expected)
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .status()?;
    Ok(status.success())
}

#[test]
fn a_user_who_may_not_write_is_refused_while_a_writer_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let readable = || {
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            std::fs::set_permissions(entry.unwrap().path(), PermissionsExt::from_mode(0o644)).unwrap();
        }
    };
    let db = common::small().create(dir.path()).unwrap();
    common::fill(&db, 0, 100);
    readable();
    match as_nobody(dir.path(), "refused") {
        Ok(refused) => assert!(refused),
        Err(error) => return eprintln!("skipped: no program can be run as another user here ({error})"),
    }
    db.close().unwrap();
    readable();
    assert!(as_nobody(dir.path(), "opened").unwrap());
    std::fs::remove_file(dir.path().join(io::LOCK_FILE)).unwrap();
    assert!(as_nobody(dir.path(), "opened").unwrap());
    let db = common::small().open_read_only(dir.path()).unwrap();
    assert!(as_nobody(dir.path(), "opened").unwrap(), "readers share it");
    drop(db);
    let _db = common::small().open(dir.path()).unwrap();
    readable();
    assert!(as_nobody(dir.path(), "refused").unwrap());
}
