//! Page operations: encoding and decoding are inverse, any bytes decode without a panic, and no
//! operation decoded from random bytes panics when it is applied to a page.

use holdfast_base::codec::Reader;
use holdfast_base::page::PageType;
use holdfast_base::{IndexId, PageId, PageNo, SpaceId};
use holdfast_tree::op::PageOp;
use proptest::prelude::*;

fn with_ops<R>(a: u16, b: u16, c: u32, x: &[u8], y: &[u8], check: impl Fn(&[PageOp<'_>]) -> R) -> R {
    check(&[
        PageOp::InitNode { index: IndexId(c), level: a as u8 % 40 },
        PageOp::InitPage { page_type: PageType::ALL[usize::from(a) % 7], index: IndexId(c) },
        PageOp::FreePage,
        PageOp::InsertAt { slot: a, suffix: x, payload: y },
        PageOp::RemoveAt { slot: a },
        PageOp::ReplaceAt { slot: a, payload: x },
        PageOp::Patch { slot: a, offset: b, bytes: x },
        PageOp::Rebuild { from: a, to: b, prefix_len: c as u16 },
        PageOp::SetContent { prefix: x, count: a, entries: y },
        PageOp::SetBits { first: c, count: u32::from(a) },
        PageOp::ClearBits { first: c, count: u32::from(b) },
        PageOp::WriteBytes { offset: a, bytes: x },
    ])
}

proptest! {
    #[test]
    fn encoding_round_trips(
        a: u16, b: u16, c: u32, same: bool,
        x in prop::collection::vec(any::<u8>(), 0..300), y in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let page = PageId::new(SpaceId(c), PageNo(c / 3));
        let last = same.then_some(page);
        with_ops(a, b, c, &x, &y, |ops| {
            let mut out = Vec::new();
            ops.iter().for_each(|op| op.encode(page, last, &mut out));
            let mut from = Reader::new(&out);
            for op in ops {
                assert_eq!(PageOp::decode(&mut from, last), Some((page, *op)));
            }
            assert!(from.is_empty());
        });
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..14, fill: u8) {
        let mut bytes = bytes;
        bytes.splice(0..0, [kind | 0x80]);
        let last = Some(PageId::new(SpaceId(16), PageNo(2)));
        let mut from = Reader::new(&bytes);
        let mut page = vec![fill; 4096];
        page[12] = fill % 8;
        while let Some((id, op)) = PageOp::decode(&mut from, last) {
            let before = page.clone();
            if op.apply(id, &mut page).is_err() {
                prop_assert_eq!(&before, &page);
            }
        }
    }

    #[test]
    fn random_operations_on_a_node_never_panic(
        a in 0u16..40, b: u16, c in 0u32..64,
        x in prop::collection::vec(any::<u8>(), 0..40), y in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let id = PageId::new(SpaceId(16), PageNo(2));
        with_ops(a, b, c, &x, &y, |ops| {
            let mut page = vec![0; 4096];
            PageOp::InitNode { index: IndexId(1), level: 0 }.apply(id, &mut page).unwrap();
            for round in 0..3 {
                for op in ops.iter().skip(2 + round) {
                    let _ = op.apply(id, &mut page);
                }
            }
        });
    }
}
