//! Overflow chains: values of every length are read as they were written, freed chains free their
//! pages, damage and a full disk are errors.

use std::sync::Arc;

use holdfast_base::{Error, PageNo};
use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp, SplitMix64};
use holdfast_tree::node::body_len;
use holdfast_tree::overflow::{self, OverflowRef};
use holdfast_tree::{PageSet, Severity};
use holdfast_wal::SpaceClass;

use crate::common::*;

fn lengths(page_size: usize) -> Vec<usize> {
    let page = overflow::data_len(page_size);
    vec![0, 1, page - 1, page, page + 1, 3 * page, 40 * page + 17, 3 << 20]
}

#[test]
fn every_length_round_trips() {
    for page_size in [4096, 16384, 65536] {
        let mut bed = Bed::new(Setup { page_size, frames: 100, ..Setup::default() });
        let mut rng = SplitMix64::new(3);
        let mut chains = Vec::new();
        for len in lengths(page_size) {
            let value = rng.bytes(len);
            let chain = overflow::write_chain(&bed.space, INDEX, &value, PageNo(2), &bed.access()).unwrap();
            chains.push((chain, value));
        }
        bed.checkpoint();
        bed = bed.reopen();
        let mut out = Vec::new();
        for (chain, value) in &chains {
            out.clear();
            overflow::read_chain(&bed.space, INDEX, *chain, &bed.access(), &mut out).unwrap();
            assert!(out == *value);
        }
        for (chain, _) in chains {
            overflow::release_chain(&bed.space, INDEX, chain, &bed.access(), SpaceClass::User).unwrap();
        }
        bed.verify_clean(&[]);
        assert!(body_len(page_size) > 0);
    }
}

#[test]
fn a_reference_that_fits_no_chain_is_damage() {
    let bed = Bed::new(Setup::default());
    let acc = bed.access();
    let chain = overflow::write_chain(&bed.space, INDEX, &[1; 20_000], PageNo(2), &acc).unwrap();
    let mut out = Vec::new();
    for bad in [
        OverflowRef { len: chain.len + 1, ..chain },
        OverflowRef { len: chain.len - 1, ..chain },
        OverflowRef { first: PageNo(1), ..chain },
    ] {
        let read = overflow::read_chain(&bed.space, INDEX, bad, &acc, &mut out);
        assert!(matches!(read, Err(Error::DamagedPage { .. })), "{read:?}");
    }
    let other = holdfast_base::IndexId(9);
    assert!(overflow::read_chain(&bed.space, other, chain, &acc, &mut out).unwrap_err().is_damage());
}

/// A length of as many bytes as some of the pages take made a shorter value, and one of no bytes an
/// empty one: the end of the value was not compared with that of the chain.
#[test]
fn a_reference_that_ends_before_its_chain_is_damage() {
    let bed = Bed::new(Setup::default());
    let (acc, page) = (bed.access(), overflow::data_len(4096));
    let chain = overflow::write_chain(&bed.space, INDEX, &vec![1; 2 * page + 1], PageNo(2), &acc).unwrap();
    let mut out = Vec::new();
    for pages in [1, 2] {
        let bad = OverflowRef { len: (pages * page) as u32, ..chain };
        let read = overflow::read_chain(&bed.space, INDEX, bad, &acc, &mut out);
        assert!(matches!(&read, Err(Error::DamagedPage { what, .. }) if what.contains("goes on")), "{read:?}");
        let freed = overflow::release_chain(&bed.space, INDEX, bad, &acc, SpaceClass::User);
        assert!(freed.unwrap_err().is_damage(), "a part of a chain is not freed");
    }
    for bad in [OverflowRef { len: 0, ..chain }, OverflowRef { first: PageNo::NONE, ..chain }] {
        let mut bytes = Vec::new();
        bad.encode(&mut bytes);
        assert_eq!(OverflowRef::decode(&mut holdfast_base::codec::Reader::new(&bytes)), None);
    }
    out.clear();
    overflow::read_chain(&bed.space, INDEX, chain, &acc, &mut out).unwrap();
    assert_eq!(out.len(), 2 * page + 1);
}

/// For each version of a row whose head alone changes, purge read 33 pages of the chain.
#[test]
fn of_a_shared_chain_the_first_page_alone_is_read_for_its_first_part() {
    let bed = Bed::new(Setup::default());
    let (acc, page) = (bed.access(), overflow::data_len(4096));
    let chain = overflow::write_chain(&bed.space, INDEX, &vec![1; 2 * page], PageNo(2), &acc).unwrap();
    // A walk fails behind the second page.
    let long = OverflowRef { len: (100 * page) as u32, ..chain };
    assert!(overflow::goes_in_parts(&bed.space, long, &acc).unwrap());
    assert!(overflow::Proof::begin(long).look_on(&bed.space, INDEX, &acc).unwrap_err().is_damage());
    overflow::share_chain(&bed.space, INDEX, long, &acc).unwrap();
    assert!(!overflow::goes_in_parts(&bed.space, long, &acc).unwrap());
}

#[test]
fn a_shared_chain_goes_with_its_last_reference() {
    let mut bed = Bed::new(Setup::default());
    let value = SplitMix64::new(5).bytes(20_000);
    let chain = overflow::write_chain(&bed.space, INDEX, &value, PageNo(2), &bed.access()).unwrap();
    overflow::share_chain(&bed.space, INDEX, chain, &bed.access()).unwrap();
    bed.checkpoint();
    overflow::share_chain(&bed.space, INDEX, chain, &bed.access()).unwrap();
    // One reference was counted before the checkpoint, one is in the log only.
    bed = bed.reopen();
    for _ in 0..2 {
        overflow::release_chain(&bed.space, INDEX, chain, &bed.access(), SpaceClass::User).unwrap();
        assert!(overflow::chain_is(&bed.space, INDEX, chain, &value, &bed.access()).unwrap());
    }
    overflow::release_chain(&bed.space, INDEX, chain, &bed.access(), SpaceClass::User).unwrap();
    bed.verify_clean(&[]);
}

#[test]
fn a_chain_is_its_value_and_no_other() {
    let bed = Bed::new(Setup::default());
    let acc = bed.access();
    for len in [0, 1, 4_000, 20_000] {
        let value = SplitMix64::new(5).bytes(len);
        let chain = overflow::write_chain(&bed.space, INDEX, &value, PageNo(2), &acc).unwrap();
        assert!(overflow::chain_is(&bed.space, INDEX, chain, &value, &acc).unwrap());
        assert!(!overflow::chain_is(&bed.space, INDEX, chain, &[&value[..], b"x"].concat(), &acc).unwrap());
        for at in [0, len / 2, len.saturating_sub(1)] {
            let mut other = value.clone();
            if let Some(byte) = other.get_mut(at) {
                *byte ^= 1;
                assert!(!overflow::chain_is(&bed.space, INDEX, chain, &other, &acc).unwrap());
            }
        }
    }
}

#[test]
fn a_full_disk_leaves_no_pages_behind() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let bed = Bed::create(disk.clone(), Setup { frames: 2000, ..Setup::default() }).unwrap();
    disk.schedule(Fault::nth(FaultOp::SetLen, 4).kind(FaultKind::Enospc).on(FILE).sticky());
    let written = overflow::write_chain(&bed.space, INDEX, &vec![1; 3 << 20], PageNo(2), &bed.access());
    assert!(matches!(written, Err(Error::DiskFull(_))), "{written:?}");
    disk.clear();
    bed.verify_clean(&[]);
}

#[test]
fn what_is_left_of_a_chain_can_be_released() {
    for n in 1.. {
        let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
        let bed = Bed::create(disk.clone(), Setup { frames: 64, ..Setup::default() }).unwrap();
        let mut chain = overflow::write_chain(&bed.space, INDEX, &vec![1; 400_000], PageNo(2), &bed.access()).unwrap();
        disk.schedule(Fault::nth(FaultOp::Read, n).on(FILE));
        let mut release = || overflow::release_rest(&bed.space, INDEX, &mut chain, &bed.access(), SpaceClass::User);
        let failed = release().is_err();
        disk.clear();
        if failed {
            release().unwrap();
        }
        bed.verify_clean(&[]);
        if !failed {
            assert!(n > 1, "everything was in the pool");
            break;
        }
    }
}

#[test]
fn verification_follows_chains_and_lists_lost_ones() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    let mut lost = None;
    for n in 0..10u32 {
        let chain = overflow::write_chain(&bed.space, INDEX, &vec![1; 30_000], PageNo(2), &acc).unwrap();
        if n == 4 {
            lost = Some(chain);
            continue;
        }
        let mut payload = Vec::new();
        chain.encode(&mut payload);
        put(&tree, &n.to_be_bytes(), &payload, &acc).unwrap();
    }
    let (mut reached, mut findings) = (PageSet::new(), Vec::new());
    let mut find = |_: &[u8], payload: &[u8]| OverflowRef::decode(&mut holdfast_base::codec::Reader::new(payload));
    tree.verify(&acc, &mut reached, &mut find, &mut |f| findings.push(f)).unwrap();
    bed.space.verify(&reached, &acc, &mut |f| findings.push(f)).unwrap();
    assert_eq!(findings.len(), 30_000usize.div_ceil(overflow::data_len(4096)));
    assert!(findings.iter().all(|f| f.severity == Severity::Leak));
    assert!(findings.iter().any(|f| f.page.no == lost.unwrap().first));
    let unreached = bed.space.unreached(&reached, &acc).unwrap();
    assert_eq!(unreached.len(), findings.len());
    bed.space.free_pages(&unreached, SpaceClass::User, &acc).unwrap();
    bed.space.verify(&reached, &acc, &mut |f| panic!("{f}")).unwrap();
}
