//! Measures how much less independent misses overlap around locked instructions: from where the rule of
//! `slowed_by_locked` comes (`tiertune-sim`, `operation.rs`).
//!
//! `cargo run --release -p tiertune-workload --example locked`; needs 1.5 GiB and a core without other work.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use tiertune_policy::CounterRng;

/// Words of the table that is gathered from: 1 GiB, past every cache.
const WORDS: usize = 1 << 27;
/// Places in it, read in order, as a graph's neighbours are.
const PLACES: usize = 40_000_000;

/// Nanoseconds that `act` takes for a place.
fn each_ns(places: &[u32], mut act: impl FnMut(usize, usize)) -> f64 {
    let begin = Instant::now();
    for (number, place) in places.iter().enumerate() {
        act(number, *place as usize);
    }
    begin.elapsed().as_nanos() as f64 / places.len() as f64
}

fn main() {
    let mut rng = CounterRng::new(1, &[]);
    let places: Vec<u32> = (0..PLACES).map(|_| rng.below(WORDS as u64) as u32).collect();
    let table: Vec<AtomicU64> = (0..WORDS as u64).map(AtomicU64::new).collect();
    let (hot, mut sum) = (AtomicU64::new(0), 0u64);

    let plain_ns = each_ns(&places, |_, place| sum += table[place].load(Relaxed));
    println!("a gather takes {plain_ns:.1} ns");
    for apart in [1, 2, 4, 8] {
        let ns = each_ns(&places, |number, place| {
            sum += table[place].load(Relaxed);
            if number % apart == 0 {
                hot.fetch_add(1, Relaxed);
            }
        });
        println!(
            "with a locked addition to a hot word after every {apart}: {ns:.1} ns, {:.2} times as long",
            ns / plain_ns
        );
    }
    let update_ns = each_ns(&places, |_, place| {
        table[place].store(table[place].load(Relaxed) + 1, Relaxed);
    });
    let locked_ns = each_ns(&places, |_, place| {
        table[place].fetch_add(1, Relaxed);
    });
    println!(
        "an update takes {update_ns:.1} ns, by a locked addition {locked_ns:.1}: {:.2} times as long",
        locked_ns / update_ns
    );
    black_box((sum, hot));
}
