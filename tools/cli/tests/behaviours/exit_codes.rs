//! The exit codes are those that `--help` lists, and an error names the remedy.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn holdfast(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_succeeds_and_lists_the_codes() {
    let out = holdfast(&["--help"]);
    assert_eq!(out.status.code(), Some(0));
    for code in ["3  a claim of an experiment cannot be told", "4  a claim of an experiment fails"] {
        assert!(text(&out.stdout).contains(code), "{code}");
    }
    for command in ["lab", "sim", "check", "stat", "backup", "restore", "compact", "dump-page", "dump-log"] {
        assert_eq!(holdfast(&[command, "--help"]).status.code(), Some(0), "{command}");
    }
}

#[test]
fn wrong_arguments_are_2() {
    let of_lab = [&["lab", "sideload", "--scale", "0"][..], &["lab", "scan", "--disk"]];
    let others = [&["no-such-command"][..], &["check"], &["sim", "--policy", "nope", "trace.lis"]];
    for args in of_lab.into_iter().chain(others) {
        assert_eq!(holdfast(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn what_cannot_be_done_is_1_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    for command in ["check", "stat", "compact", "dump-log"] {
        let out = holdfast(&[command, dir]);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{command}: {message}");
        assert!(message.starts_with("holdfast: ") && message.contains(dir), "{command}: {message}");
    }
}

#[test]
fn what_an_experiment_does_not_take_is_said_before_anything_runs() {
    for (args, said) in [
        (&["lab", "sessions", "--log-mib", "32"][..], "--log-mib is for flush"),
        (&["lab", "flush", "--workload", "dbt2"], "--workload is for flush and sessions on servers"),
        (&["lab", "soak", "--target", "mysql55"], "runs on the embedded engine only"),
        (&["lab", "sideload", "--engines", "innodb"], "--engines is for servers"),
        (&["lab", "purge", "--engines", "innodb"], "--engines is for servers"),
        (&["lab", "sideload", "--engines", "holdfast", "--target", "mysql55"], "--engines is for servers"),
        (&["lab", "flush", "--engines", "holdfast", "--target", "mysql80"], "--engines is for servers"),
        (&["lab", "iobound", "--engines", "innodb", "--target", "mariadb118"], "--engines is for servers"),
        (&["lab", "flush", "--log-mib", "32", "--target", "dsn:mysql://root@127.0.0.1:1/"], "leave --log-mib out"),
        (&["lab", "sideload", "--target", "mariadb", "--dump-rate", "5"], "--dump-rate is for the embedded engine"),
        (&["lab", "freepages", "--log-mib", "16,32"], "freepages takes one capacity"),
        (&["lab", "all", "--disk", "real"], "leave --disk out"),
        (&["lab", "purge", "--json", "same", "--report", "same"], "--json and --report are one file"),
        (&["lab", "purge", "--target", "mysql56", "--disk", "model"], "the disk of that server is what it is"),
    ] {
        let out = holdfast(args);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {message}");
        assert!(message.contains(said), "{args:?}: {message}");
    }
    for wrong in [&["--target", "mysql57"], &["--log-mib", "0"]] {
        let args = [&["lab", "flush"], &wrong[..]].concat();
        assert_eq!(holdfast(&args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn slow_disk_ends_as_its_program_does() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    let run = |script: &str| holdfast(&["slow-disk", "--dir", dir, "--", "sh", "-c", script]);
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15)] {
        let out = run(script);
        if text(&out.stderr).contains("does not let a program be supervised") {
            return;
        }
        assert_eq!(out.status.code(), Some(code), "{script}: {}", text(&out.stderr));
    }
    let file = std::path::Path::new(dir).join("file");
    std::fs::write(&file, "").unwrap();
    let out = holdfast(&["slow-disk", "--dir", file.to_str().unwrap(), "--", "true"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("is no folder"), "{}", text(&out.stderr));
}

#[test]
fn damage_found_in_a_single_file_is_3() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("t16.hf"), vec![0xee; 16384]).unwrap();
    let out = holdfast(&["dump-page", name, "t16.hf", "0"]);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("t16.hf is damaged"), "{}", text(&out.stderr));
    std::fs::rename(dir.path().join("t16.hf"), dir.path().join("wal.000001")).unwrap();
    let out = holdfast(&["dump-page", name, "wal.000001", "0"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("is no file of pages"), "{}", text(&out.stderr));
}

/// The folder of all backups, where the name of one was forgotten: the copy lay among them.
#[test]
fn a_backup_into_a_directory_with_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (data, target) = (dir.path().join("data.hf"), dir.path().join("backups"));
    holdfast::Database::create(&data).unwrap().close().unwrap();
    std::fs::create_dir_all(target.join("monday.hf")).unwrap();
    let out = holdfast(&["backup", data.to_str().unwrap(), target.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("is not empty"), "{}", text(&out.stderr));
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 1);
}

/// It was called damaged.
#[test]
fn a_database_of_a_newer_version_is_1() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    holdfast::Database::create(&data).unwrap().close().unwrap();
    let meta = data.join("holdfast.meta");
    let mut bytes = std::fs::read(&meta).unwrap();
    bytes[8] = 9;
    let crc = holdfast_base::checksum(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&meta, bytes).unwrap();
    let out = holdfast(&["check", data.to_str().unwrap()]);
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(1), ""));
    assert!(text(&out.stderr).contains("newer version"), "{}", text(&out.stderr));
}

#[test]
fn a_salvage_into_a_directory_that_is_not_empty_is_refused_before_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let (data, target) = (dir.path().join("data.hf"), dir.path().join("target"));
    holdfast::Database::create(&data).unwrap().close().unwrap();
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("a file"), "").unwrap();
    for target in [&target, &data] {
        let out = holdfast(&["check", data.to_str().unwrap(), "--salvage", target.to_str().unwrap()]);
        assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(1), ""));
        assert!(text(&out.stderr).contains("is not empty"), "{}", text(&out.stderr));
    }
}

#[test]
fn a_directory_that_cannot_be_looked_at_is_not_called_no_database() {
    let dir = tempfile::tempdir().unwrap();
    let circle = dir.path().join("circle");
    std::os::unix::fs::symlink("circle", &circle).unwrap();
    for command in ["check", "stat", "compact", "restore"] {
        let out = holdfast(&[command, circle.to_str().unwrap()]);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{command}: {message}");
        assert!(message.contains("symbolic links"), "{command}: {message}");
    }
}

#[test]
fn sizes_out_of_range_are_refused_before_anything_runs() {
    for args in [
        &["lab", "sideload", "--speed", "1e-300"][..],
        &["lab", "sideload", "--scale", "1e-300"],
        &["lab", "sideload", "--scale", "1e300"],
        &["lab", "sideload", "--rate", "1e-300"],
        &["lab", "sideload", "--dump-rate", "1e-300"],
        &["slow-disk", "--dir", ".", "--seek-us", "18446744073709551615", "--", "true"],
    ] {
        let out = holdfast(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stderr));
    }
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_an_experiment_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (name, missing) = (dir.path().to_str().unwrap(), dir.path().join("missing/file"));
    for option in ["--json", "--report"] {
        for file in [&missing, dir.path()] {
            let more = if option == "--json" { &["--no-report"][..] } else { &[] };
            let file = file.to_str().unwrap();
            let out = holdfast(&[&["lab", "purge", "--quick", "--dir", name, option, file], more].concat());
            let message = text(&out.stderr);
            assert_eq!(out.status.code(), Some(1), "{option} {file}: {message}");
            assert!(message.starts_with(&format!("holdfast: write {file}")), "{option} {file}: {message}");
        }
    }
}

/// The default folder of reports was made once the experiment was over.
#[test]
fn a_folder_of_reports_that_cannot_be_made_is_said_before_an_experiment_runs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".lab"), "").unwrap();
    let data = dir.path().join("data");
    let args = ["lab", "flush", "--workload", "dbt2", "--dir", data.to_str().unwrap()];
    let out = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(args).current_dir(dir.path()).output().unwrap();
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.starts_with("holdfast: create the directory .lab"), "{message}");
}

/// A message that cannot be printed was a panic, and ended an experiment of hours.
#[test]
fn messages_that_nothing_reads_change_no_code() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    // There is a line about it before the experiment begins.
    std::fs::create_dir(dir.path().join("holdfast-lab-left")).unwrap();
    for args in [&["check", name][..], &["lab", "flush", "--workload", "dbt2", "--no-report", "--dir", name]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(env!("CARGO_BIN_EXE_holdfast")).args(args).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(1), "{args:?}");
    }
}

#[test]
fn a_trace_that_could_not_be_read_is_not_written() {
    for args in [
        &["loop", "--pages", "0", "-"][..],
        &["loop", "--pages", "4294967295", "--laps", "4294967295", "-"],
        &["oltp-dump", "--warm-up", "18446744073709551615", "-"],
        &["oltp-dump", "--warm-up", "0", "--touches", "0", "-"],
    ] {
        let out = holdfast(&[&["sim", "generate"], args].concat());
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(out.stdout.is_empty() && text(&out.stderr).contains("a trace has 1 to"), "{args:?}");
    }
}

/// A file that the system refuses to this user was called damaged.
#[test]
fn a_file_that_is_refused_to_this_user_is_1() {
    const OTHER: holdfast::TableDefinition<u64, u64> = holdfast::TableDefinition::new("other");
    const ROWS: holdfast::TableDefinition<u64, u64> = holdfast::TableDefinition::new("rows");
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    let db = holdfast::Database::create(&data).unwrap();
    for table in [&OTHER, &ROWS] {
        db.transact(|txn| txn.open_table(table)?.insert(1, 1)).unwrap();
    }
    let file = db.list_tables().into_iter().find(|table| table.name == "rows").unwrap().file;
    db.close().unwrap();
    let allow = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    for entry in std::fs::read_dir(&data).unwrap() {
        allow(&entry.unwrap().path(), 0o644);
    }
    [dir.path(), &data].into_iter().for_each(|dir| allow(dir, 0o777));
    allow(&data.join(&file), 0o000);
    let check = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.arg("check").arg(&data).args(more);
        if std::fs::metadata(dir.path()).unwrap().uid() == 0 {
            // Nothing is refused to the superuser.
            command.uid(65_534).gid(65_534);
        }
        command.output()
    };
    // The superuser's programs may be where others do not come.
    let Ok(out) = check(&[]) else { return };
    let (shown, message) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(1), "{shown}{message}");
    assert!(shown.contains(&format!("rows: open {file}: Permission denied")), "{shown}");
    assert!(!shown.contains("damaged") && shown.contains("1 rows"), "{shown}");
    assert!(message.contains("refused to this user"), "{message}");
    let out = check(&["--json"]).unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &shown["refused"][0]["table"]), (Some(1), &serde_json::json!("rows")), "{shown:#}");
    // The other table is saved.
    let target = dir.path().join("rescued.hf");
    let out = check(&["--salvage", target.to_str().unwrap()]);
    let out = out.unwrap();
    let (shown, message) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(3), "{shown}{message}");
    assert!(shown.contains("other: 1 rows rescued") && shown.contains("rows: nothing was rescued"), "{shown}");
    allow(&data.join("system.hf"), 0o000);
    let out = check(&[]).unwrap();
    assert_eq!((out.status.code(), text(&out.stdout).as_str()), (Some(1), ""), "{}", text(&out.stderr));
}
