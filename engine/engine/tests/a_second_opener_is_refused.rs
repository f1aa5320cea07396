//! One process, one handle: the second open gets a clear error.

#[expect(dead_code, reason = "it is for the tests of the folder, too")]
#[path = "behaviours/common/mod.rs"]
mod common;

use std::process::Command;

use holdfast::{Database, Error};

const DIRECTORY: &str = "HOLDFAST_TEST_DIRECTORY";

#[test]
fn in_the_same_process() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path()).unwrap();
    for error in [
        common::small().open(dir.path()).unwrap_err(),
        common::small().open_read_only(dir.path()).unwrap_err(),
        common::small().create(dir.path()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::AlreadyOpen(_)), "{error}");
    }
    db.close().unwrap();
    assert!(matches!(common::small().create(dir.path()), Err(Error::AlreadyExists(_))));
    common::small().open(dir.path()).unwrap();
}

/// The other process of the test below; passes when it is run by itself.
#[test]
fn other_process() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let error = common::small().open(dir).unwrap_err();
    assert!(matches!(error, Error::AlreadyOpen(_)), "{error}");
    assert!(error.to_string().contains("one process at a time"), "{error}");
}

#[test]
fn in_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let _db = common::small().create(dir.path()).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_process", "--nocapture"])
        .env(DIRECTORY, dir.path())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn no_database_is_no_database() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Database::open(dir.path()), Err(Error::NotADatabase(_))));
    assert!(matches!(Database::open(dir.path().join("missing")), Err(Error::NotADatabase(_))));
    assert!(matches!(Database::open_read_only(dir.path()), Err(Error::NotADatabase(_))));
}
