//! Measures what it costs to find lists through an index, in latencies of a dependent load, for lists of 4 to 256 entries
//! and for many short lists among few long ones: from where the window of `lookups_in_flight` comes (`tiertune-sim`,
//! `operation.rs`).
//!
//! `cargo run --release -p tiertune-workload --example lists`; needs 2 GiB and a core without other work.

use std::hint::black_box;
use std::time::Instant;

use tiertune_policy::CounterRng;

/// Entries of all lists, and of the table that they gather from: 512 MiB each, past every cache.
const ENTRIES: usize = 1 << 27;
/// Entries that a measurement reads.
const READ: usize = 20_000_000;
/// Bytes between elements of the chase: a line.
const LINE_WORDS: usize = 8;

/// A list of all numbers below `count` in random order.
fn shuffled(count: usize, rng: &mut CounterRng) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        numbers.swap(i, rng.below(i as u64 + 1) as usize);
    }
    numbers
}

/// Nanoseconds of a load that waits for the one before.
fn chase_ns(rng: &mut CounterRng) -> f64 {
    const STEPS: usize = 2_000_000;
    let lines = ENTRIES / 2 / LINE_WORDS;
    let order = shuffled(lines, rng);
    let mut next = vec![0u64; lines * LINE_WORDS];
    for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
        next[*from as usize * LINE_WORDS] = u64::from(*to) * LINE_WORDS as u64;
    }
    let (begin, mut at) = (Instant::now(), 0u64);
    for _ in 0..STEPS {
        at = next[at as usize];
    }
    black_box(at);
    begin.elapsed().as_nanos() as f64 / STEPS as f64
}

/// Nanoseconds for a list, whose entries say what is read from `table`, with lists in this order.
fn list_ns(order: &[u32], index: &[u64], entries: &[u32], table: &[u32]) -> f64 {
    let (begin, mut sum, mut read, mut lists) = (Instant::now(), 0u64, 0, 0);
    for list in order {
        let place = index[*list as usize] as usize..index[*list as usize + 1] as usize;
        read += place.len();
        lists += 1;
        for entry in &entries[place] {
            sum += u64::from(table[*entry as usize]);
        }
        if read >= READ {
            break;
        }
    }
    black_box(sum);
    begin.elapsed().as_nanos() as f64 / f64::from(lists)
}

/// Where lists begin and the last one ends, of lengths that `length` gives.
fn index_of(mut length: impl FnMut() -> usize) -> Vec<u64> {
    let mut index = vec![0u64];
    loop {
        let end = index[index.len() - 1] + length() as u64;
        if end > ENTRIES as u64 {
            return index;
        }
        index.push(end);
    }
}

fn main() {
    let mut rng = CounterRng::new(1, &[]);
    let entries: Vec<u32> = (0..ENTRIES).map(|_| rng.below(ENTRIES as u64) as u32).collect();
    let table = vec![1u32; ENTRIES];
    let latency_ns = chase_ns(&mut rng);
    println!("a dependent load takes {latency_ns:.0} ns");
    let mut tell = |lengths: &str, index: &[u64]| {
        let lists = index.len() - 1;
        let in_order: Vec<u32> = (0..lists as u32).collect();
        let found = list_ns(&shuffled(lists, &mut rng), index, &entries, &table);
        let streamed = list_ns(&in_order, index, &entries, &table);
        println!(
            "lists of {lengths}: {found:6.0} ns each in random order, {streamed:6.0} in sequence; finding one takes {:.2} latencies",
            (found - streamed) / latency_ns
        );
    };
    for length in (2..9).map(|power| 1usize << power) {
        tell(&format!("{length:3}"), &index_of(|| length));
    }
    let mut rng = CounterRng::new(2, &[]);
    let mixed = index_of(|| if rng.below(8) == 0 { 480 } else { 4 });
    tell("4 and 480, seven to one", &mixed);
}
