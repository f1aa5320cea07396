//! A page of any bytes, read as a B+tree node: every accessor answers or declines, none panics or
//! runs on; and a node that `check` accepts is in order.
#![no_main]

use holdfast_base::IndexId;
use holdfast_tree::node::NodeRef;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (Vec<u8>, Vec<u8>)| {
    let (body, key) = data;
    let mut page = vec![0; 4096];
    let n = body.len().min(page.len());
    page[..n].copy_from_slice(&body[..n]);
    page[12] = 3;
    page[24..28].fill(0);
    let Some(node) = NodeRef::new(&page[..], IndexId(0)) else { return };
    let _ = node.search(&key);
    let _ = node.child_slot(&key);
    let _ = node.child_slot_before(&key);
    let _ = (node.free_space(), node.used_space());
    let mut out = Vec::new();
    for i in 0..node.count().unwrap_or(0).min(4096) {
        let _ = (node.child(i), node.entry_len(i), node.key_to(i, &mut out), node.payload_to(i, &mut out));
    }
    if node.check().is_ok() && node.is_leaf() == Some(true) {
        for i in 0..node.count().expect("checked") {
            let key = node.key(i).expect("checked");
            let found = node.search(&key).expect("checked");
            assert!(found.exact && found.slot == i, "key {i} is not found where it is");
        }
    }
});
