//! A backup, or what is salvaged, was put into the database's own directory if that was named,
//! although these commands change nothing there.

use std::process::Command;

use holdfast::Database;

#[test]
fn whatever_leads_there() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    Database::create(&data).unwrap().close().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("data.hf", &link).unwrap();
    let files = || data.read_dir().unwrap().count();
    let before = files();
    for target in [data.join("copy"), data.join("a/b"), link.join("copy"), dir.path().join("link/../data.hf/copy")] {
        for args in [&["backup"][..], &["check", "--salvage"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
            command.arg(args[0]).arg(&data).args(&args[1..]).arg(&target);
            let out = command.output().unwrap();
            let message = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(1), "{args:?} {}: {message}", target.display());
            assert!(message.contains("is in the database's own directory"), "{message}");
        }
    }
    assert_eq!(files(), before);
}
