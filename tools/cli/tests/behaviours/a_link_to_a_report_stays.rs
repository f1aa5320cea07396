//! `--report` or `--json` may be a link to a file that is not there yet. The look whether it can be
//! written removed the link, and the report was put in its place.

use std::process::Command;

#[test]
fn that_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("later.html", dir.path().join("link")).unwrap();
    for option in ["--report", "--json"] {
        // An experiment that is refused after the look.
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let out = command.args(["lab", "flush", "--workload", "dbt2", option, "link"]).current_dir(dir.path()).output();
        assert_eq!(out.unwrap().status.code(), Some(1));
        assert_eq!(std::fs::read_link(dir.path().join("link")).unwrap().to_str(), Some("later.html"), "{option}");
    }
}
