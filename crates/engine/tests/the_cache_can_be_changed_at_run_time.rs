//! Size and policy of the cache change beside readers, and rows stay what they are.

mod common;

use holdfast::{Error, ReplacementPolicy};

#[test]
fn size_and_policy() {
    let db = common::small().cache_size_max_bytes(16 << 20).in_memory().unwrap();
    common::fill(&db, 0, 20_000);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| common::assert_filled(&db, 0, 20_000)));
        for bytes in [16 << 20, 5 << 20, 12 << 20] {
            db.set_cache_size_bytes(bytes).unwrap();
            assert_eq!(db.stats().cache.size_bytes, bytes);
        }
        let midpoint = ReplacementPolicy::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 0 };
        for (policy, name) in
            [(ReplacementPolicy::Lru, "lru"), (midpoint, "midpoint_lru"), (ReplacementPolicy::Holdfast, "holdfast")]
        {
            db.set_replacement_policy(policy).unwrap();
            assert_eq!(db.stats().cache.policy, name);
        }
    });
    for bytes in [1 << 20, 17 << 20] {
        let error = db.set_cache_size_bytes(bytes).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(m) if m.contains("cache_size_bytes")), "{error}");
    }
    common::assert_filled(&db, 0, 20_000);
}
