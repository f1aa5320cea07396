//! A power cut keeps what was synced, and of the rest any subset of sectors, lengths and names.

use std::collections::BTreeSet;

use holdfast_io::{Create, DirLockMode, Disk, File, FileKind, OpenOptions, SECTOR};
use holdfast_testkit::CrashDisk;

fn create(disk: &CrashDisk, name: &str) -> std::sync::Arc<dyn File> {
    disk.open(name, OpenOptions::new(FileKind::Data).create(Create::New)).unwrap()
}

fn durable_file(disk: &CrashDisk, name: &str, bytes: &[u8]) -> std::sync::Arc<dyn File> {
    let file = create(disk, name);
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    disk.sync_dir().unwrap();
    file
}

fn content(disk: &CrashDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(name, OpenOptions::new(FileKind::Data)).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

#[test]
fn synced_bytes_survive_every_cut() {
    let disk = CrashDisk::new();
    durable_file(&disk, "t", &[7; 5000]);
    for seed in 0..200 {
        assert_eq!(content(&disk.reboot(seed), "t").unwrap(), [7; 5000]);
    }
}

#[test]
fn unsynced_bytes_tear_by_sector() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; 8 * SECTOR]);
    file.write_at(0, &[2; 8 * SECTOR]).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let after = content(&disk.reboot(seed), "t").unwrap();
        let states: Vec<u8> = after
            .chunks(SECTOR)
            .map(|sector| {
                assert!(sector.iter().all(|b| *b == sector[0]), "a sector is written all or none");
                sector[0]
            })
            .collect();
        assert!(states.iter().all(|s| *s == 1 || *s == 2));
        seen.insert(states);
    }
    assert!(seen.contains(&vec![1; 8]) && seen.contains(&vec![2; 8]), "nothing and everything come up");
    assert!(seen.len() > 100, "and mixtures: {}", seen.len());
}

#[test]
fn a_sector_may_show_any_state_since_the_sync() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; SECTOR]);
    for state in 2..=4 {
        file.write_at(0, &[state; SECTOR]).unwrap();
    }
    let seen: BTreeSet<u8> = (0..300).map(|seed| content(&disk.reboot(seed), "t").unwrap()[0]).collect();
    assert_eq!(seen, BTreeSet::from([1, 2, 3, 4]));
}

#[test]
fn a_length_survives_or_not() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; 1000]);
    file.write_at(1000, &[2; 1000]).unwrap();
    file.set_len(300).unwrap();
    let mut lengths = BTreeSet::new();
    for seed in 0..300 {
        let after = content(&disk.reboot(seed), "t").unwrap();
        lengths.insert(after.len());
        for (at, byte) in after.iter().enumerate() {
            let possible: &[u8] = match at {
                0..300 => &[1],
                300..1000 => &[1, 0],
                _ => &[2, 0],
            };
            assert!(possible.contains(byte), "{byte} at {at}");
        }
    }
    assert_eq!(lengths, BTreeSet::from([300, 1000, 2000]));
}

#[test]
fn a_synced_length_survives_every_cut() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; 1000]);
    file.write_at(1000, &[2; 1000]).unwrap();
    file.set_len(300).unwrap();
    file.sync().unwrap();
    assert!((0..100).all(|seed| content(&disk.reboot(seed), "t").unwrap() == [1; 300]));
}

#[test]
fn names_are_durable_only_after_a_sync_of_the_directory() {
    let changed = || {
        let disk = CrashDisk::new();
        durable_file(&disk, "old", b"old");
        durable_file(&disk, "gone", b"gone");
        create(&disk, "new").sync().unwrap();
        disk.rename("old", "renamed").unwrap();
        disk.remove("gone").unwrap();
        disk
    };
    let disk = changed();
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let after = disk.reboot(seed);
        assert_eq!(after.exists("old").unwrap(), !after.exists("renamed").unwrap(), "a rename is atomic");
        seen.insert(after.list().unwrap());
    }
    assert_eq!(seen.len(), 8, "each of the three changes happened or not: {seen:?}");
    let disk = changed();
    disk.sync_dir().unwrap();
    assert!((0..100).all(|seed| disk.reboot(seed).list().unwrap() == ["new", "renamed"]));
}

#[test]
fn a_rename_that_replaces_leaves_the_old_or_the_new_file() {
    let disk = CrashDisk::new();
    durable_file(&disk, "meta", b"old");
    create(&disk, "meta.new").write_at(0, b"new").unwrap();
    disk.open("meta.new", OpenOptions::new(FileKind::Meta)).unwrap().sync().unwrap();
    disk.rename("meta.new", "meta").unwrap();
    let seen: BTreeSet<Vec<u8>> = (0..200).map(|seed| content(&disk.reboot(seed), "meta").unwrap()).collect();
    assert_eq!(seen, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
}

#[test]
fn a_seed_decides_the_outcome() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; 64 * SECTOR]);
    file.write_at(0, &[2; 64 * SECTOR]).unwrap();
    for seed in 0..50 {
        assert_eq!(content(&disk.reboot(seed), "t"), content(&disk.reboot(seed), "t"));
    }
}

#[test]
fn the_power_goes_during_the_operation_after_the_nth() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; SECTOR]);
    assert_eq!(disk.operations(), 4, "create, write, sync, sync of the directory");
    disk.crash_after(2);
    file.write_at(0, &[2; SECTOR]).unwrap();
    file.sync().unwrap();
    let error = file.write_at(0, &[3; SECTOR]).unwrap_err();
    assert!(CrashDisk::is_power_cut(&error), "{error}");
    assert!(disk.is_dead());
    for later in [
        file.read_at(0, &mut [0]),
        file.sync(),
        disk.sync_dir(),
        disk.list().map(drop),
        disk.exists("t").map(drop),
        disk.open("t", OpenOptions::default()).map(drop),
        disk.lock(DirLockMode::Exclusive).map(drop),
        disk.remove("t"),
        file.len().map(drop),
    ] {
        assert!(CrashDisk::is_power_cut(&later.unwrap_err()));
    }
    let seen: BTreeSet<u8> = (0..100).map(|seed| content(&disk.reboot(seed), "t").unwrap()[0]).collect();
    assert_eq!(seen, BTreeSet::from([2, 3]), "the write that was on its way may have arrived");
}

#[test]
fn a_sync_that_the_power_cut_hits_syncs_nothing_for_sure() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; SECTOR]);
    file.write_at(0, &[2; SECTOR]).unwrap();
    disk.crash_after(0);
    assert!(CrashDisk::is_power_cut(&file.sync().unwrap_err()));
    let seen: BTreeSet<u8> = (0..100).map(|seed| content(&disk.reboot(seed), "t").unwrap()[0]).collect();
    assert_eq!(seen, BTreeSet::from([1, 2]));
}

#[test]
fn a_rebooted_disk_works_and_can_crash_again() {
    let disk = CrashDisk::new();
    let _held = disk.lock(DirLockMode::Exclusive).unwrap();
    durable_file(&disk, "t", &[1; SECTOR]);
    let second = disk.reboot(1);
    let _held = second.lock(DirLockMode::Exclusive).unwrap();
    let file = second.open("t", OpenOptions::default()).unwrap();
    file.write_at(0, &[9; SECTOR]).unwrap();
    file.sync().unwrap();
    assert_eq!(content(&second.reboot(2), "t").unwrap(), [9; SECTOR]);
    assert_eq!(content(&disk.reboot(1), "t").unwrap(), [1; SECTOR], "the first cut is as it was");
}

#[test]
fn what_a_failed_sync_lost_no_later_one_writes() {
    let disk = CrashDisk::new();
    let file = durable_file(&disk, "t", &[1; 2 * SECTOR]);
    file.write_at(0, &[2; 2 * SECTOR]).unwrap();
    disk.lose_unsynced("t");
    file.write_at(SECTOR as u64, &[3; SECTOR]).unwrap();
    file.sync().unwrap();
    assert_eq!(content(&disk, "t").unwrap()[0], 2, "until the power goes it reads as it was written");
    let first_sectors: BTreeSet<u8> = (0..200)
        .map(|seed| {
            let after = content(&disk.reboot(seed), "t").unwrap();
            assert!(after[SECTOR..].iter().all(|b| *b == 3), "what was written again is synced");
            after[0]
        })
        .collect();
    assert_eq!(first_sectors, BTreeSet::from([1, 2]));
}

#[test]
fn damage_is_there_at_once_and_after_a_cut() {
    let disk = CrashDisk::new();
    durable_file(&disk, "t", &[1; 2 * SECTOR]);
    disk.damage("t", 5, 2, |bytes| bytes.fill(9)).unwrap();
    for bytes in [content(&disk, "t").unwrap(), content(&disk.reboot(4), "t").unwrap()] {
        assert_eq!(bytes[4..8], [1, 9, 9, 1]);
    }
    assert!(disk.damage("t", 2 * SECTOR as u64, 1, |_| {}).is_err());
}
