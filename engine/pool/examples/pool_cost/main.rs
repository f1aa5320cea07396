//! What the pool costs: a hit against a pointer chase, two threads against two processes, a miss
//! against a bare read.
//!
//! ```text
//! cargo run --release -p holdfast-pool --example pool_cost -- hit [pages]
//! cargo run --release -p holdfast-pool --example pool_cost -- threads
//! cargo run --release -p holdfast-pool --example pool_cost -- miss <directory on a disk> [threads]
//! valgrind --tool=callgrind --toggle-collect='*chase_pages*' .../pool_cost count <hits>
//! ```
//!
//! What is compared runs in turns, and the medians of the rounds and of their ratios are printed
//! with their quartiles.

mod bed;
mod hit;
mod miss;

use holdfast_base::Result;

/// Pages of the chases: the translation alone in the second-level cache; nothing much; far more
/// than the caches hold.
const SIZES: [u32; 3] = [1_024, 16_384, 65_536];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok());
    match args.first().map(String::as_str) {
        Some("hit") => match number(1) {
            Some(pages) => hit::hit(pages as u32),
            None => SIZES.into_iter().try_for_each(hit::hit),
        },
        Some("threads") => hit::threads(),
        Some("serve") => hit::serve(number(1).unwrap_or(0) as usize),
        Some("count") => {
            let bench = bed::in_memory(256, 1)?;
            std::hint::black_box(bed::chase_pages(&bench, 0, number(1).unwrap_or(10_000)));
            Ok(())
        }
        Some("miss") if args.len() > 1 => miss::miss(&args[1], number(2).unwrap_or(1)),
        _ => {
            println!("usage: pool_cost hit [pages] | threads | count [hits] | miss <directory> [threads]");
            Ok(())
        }
    }
}
