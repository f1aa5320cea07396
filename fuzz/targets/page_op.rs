//! Bytes that claim to be page operations, applied to bytes that claim to be a page: an error or a
//! sound page, never a panic.
#![no_main]

use holdfast_base::codec::Reader;
use holdfast_tree::op::PageOp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (Vec<u8>, Vec<u8>)| {
    let (ops, body) = data;
    let mut page = vec![0; 4096];
    let n = body.len().min(page.len());
    page[..n].copy_from_slice(&body[..n]);
    let mut reader = Reader::new(&ops);
    let mut last = None;
    while !reader.is_empty() {
        let Some((id, op)) = PageOp::decode(&mut reader, last) else { break };
        last = Some(id);
        if op.apply(id, &mut page).is_err() {
            break;
        }
    }
});
