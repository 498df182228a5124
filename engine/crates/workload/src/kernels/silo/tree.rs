//! A concurrent ordered index: a B-link tree (Lehman and Yao, TODS'81) whose readers take no locks but check a node's
//! version before and after, as Masstree's do (Mao et al., EuroSys'12).

use std::sync::Mutex;
use std::sync::atomic::{Ordering, fence};

use super::slab::Slab;
use crate::kernels::prelude::*;

/// Keys of a node, as in Masstree.
pub const SLOTS: usize = 15;
/// Words of a node: 320 bytes, of which 5 lines are read together.
pub const NODE_WORDS: usize = 40;

/// Inner nodes kept free: one insertion splits no more levels.
pub const SPARE: usize = 10;

const VERSION: usize = 0;
const COUNT: usize = 1;
/// The right neighbour's number plus 1; 0 for none.
const NEXT: usize = 2;
/// All keys of the node are below this.
const HIGH: usize = 3;
const KEYS: usize = 4;
/// Values of a leaf, children of an inner node (one more than keys).
const VALUES: usize = KEYS + SLOTS;

/// The nodes of any number of trees.
#[derive(Debug)]
pub struct Nodes {
    /// Leaves.
    pub leaves: Slab,
    /// Inner nodes.
    pub inner: Slab,
}

impl Nodes {
    /// Makes room for one insertion by the only thread.
    pub fn reserve_one<M: Memory>(&mut self, memory: &mut M) {
        self.leaves.reserve(memory, 1);
        self.inner.reserve(memory, SPARE);
    }

    /// Makes room for so many splits of leaves, should the inner nodes above each be full too.
    pub fn reserve<M: Memory>(&mut self, memory: &mut M, splits: usize) {
        self.leaves.reserve(memory, splits);
        self.inner.reserve(memory, splits + SPARE);
    }

    #[inline(always)]
    fn level(&self, level: u64) -> &Slab {
        if level == 0 { &self.leaves } else { &self.inner }
    }
}

/// Bytes of leaves and of inner nodes after `keys` insertions in rising order: every node is full, few are spare.
#[must_use]
pub fn sorted_bytes(keys: u64) -> (u64, u64) {
    let slots = SLOTS as u64;
    let leaves = keys.div_ceil(slots).max(1);
    let (mut inner, mut below) = (0, leaves);
    while below > 1 {
        // Nodes that were split off hold one child before the next key comes.
        below = below.div_ceil(slots + 1);
        inner += below;
    }
    (
        (leaves + 1) * NODE_WORDS as u64 * 8,
        (inner + SPARE as u64) * NODE_WORDS as u64 * 8,
    )
}

/// A leaf that a scan saw, and in which version.
pub type Seen = (u64, u64);

/// An ordered map from keys below `u64::MAX` to values.
#[derive(Debug)]
pub struct Tree {
    /// Level (0 for a leaf) in the top byte, node number below.
    root: AtomicU64,
    growing: Mutex<()>,
}

enum Step {
    Right(u64),
    Down(u64),
}

struct Leaf {
    count: usize,
    keys: [u64; SLOTS],
    values: [u64; SLOTS],
    high: u64,
    next: u64,
}

const LEVEL_SHIFT: u32 = 56;
const MOST_LEVELS: usize = 24;

/// The inner nodes passed on the way down, by level.
type Path = [u64; MOST_LEVELS];

fn set(words: &[AtomicU64], word: usize, value: u64) {
    words[word].store(value, Relaxed);
}

fn get(words: &[AtomicU64], word: usize) -> u64 {
    words[word].load(Relaxed)
}

/// Reads a node that nobody changes meanwhile; hands out its version too.
#[inline(always)]
fn stable<R>(words: &[AtomicU64], read: impl Fn(&[AtomicU64]) -> R) -> (R, u64) {
    let mut turns = 0;
    loop {
        let version = words[VERSION].load(Ordering::Acquire);
        if version & 1 == 0 {
            let result = read(words);
            fence(Ordering::Acquire);
            if words[VERSION].load(Relaxed) == version {
                return (result, version);
            }
        }
        pause(&mut turns);
    }
}

/// Waits a moment; leaves the processor to others when it takes long.
pub fn pause(turns: &mut u32) {
    *turns += 1;
    if *turns % 64 == 0 {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

fn lock(words: &[AtomicU64]) {
    let mut turns = 0;
    loop {
        let version = get(words, VERSION);
        if version & 1 == 0
            && words[VERSION]
                .compare_exchange(version, version + 1, Ordering::Acquire, Relaxed)
                .is_ok()
        {
            fence(Ordering::Release);
            return;
        }
        pause(&mut turns);
    }
}

fn unlock(words: &[AtomicU64]) {
    words[VERSION].store(get(words, VERSION) + 1, Ordering::Release);
}

/// Number of keys at most `key`, of a node's first `count`.
fn upper(words: &[AtomicU64], count: usize, key: u64) -> usize {
    words[KEYS..KEYS + count]
        .iter()
        .position(|known| known.load(Relaxed) > key)
        .unwrap_or(count)
}

impl Tree {
    /// An empty tree.
    pub fn new<M: Memory>(memory: &mut M, nodes: &mut Nodes) -> Self {
        nodes.reserve_one(memory);
        let leaf = nodes.leaves.take();
        nodes.leaves.word(leaf, HIGH).store(u64::MAX, Relaxed);
        Self {
            root: AtomicU64::new(leaf),
            growing: Mutex::new(()),
        }
    }

    /// The node of `level` that is responsible for `key`, and those passed on the way.
    fn descend<M: Memory>(&self, memory: &mut M, nodes: &Nodes, key: u64, level: u64) -> (u64, Path) {
        let root = self.root.load(Ordering::Acquire);
        let (mut at, mut node) = (root >> LEVEL_SHIFT, root & ((1 << LEVEL_SHIFT) - 1));
        let mut path = [u64::MAX; MOST_LEVELS];
        while at > level {
            nodes
                .inner
                .announce_load(memory, node, 0..NODE_WORDS, AccessClass::Chase);
            let (step, _) = stable(nodes.inner.words(node), |words| {
                let next = get(words, NEXT);
                if key >= get(words, HIGH) && next > 0 {
                    return Step::Right(next - 1);
                }
                let count = (get(words, COUNT) as usize).min(SLOTS);
                Step::Down(get(words, VALUES + upper(words, count, key)))
            });
            match step {
                Step::Right(next) => node = next,
                Step::Down(child) => {
                    path[at as usize] = node;
                    node = child;
                    at -= 1;
                }
            }
        }
        (node, path)
    }

    /// The value of a key, and the leaf in which it is or would be.
    pub fn find<M: Memory>(&self, memory: &mut M, nodes: &Nodes, key: u64) -> (Option<u64>, Seen) {
        let (mut leaf, _) = self.descend(memory, nodes, key, 0);
        loop {
            nodes
                .leaves
                .announce_load(memory, leaf, 0..NODE_WORDS, AccessClass::Chase);
            let (found, version) = stable(nodes.leaves.words(leaf), |words| {
                let next = get(words, NEXT);
                if key >= get(words, HIGH) && next > 0 {
                    return Err(next - 1);
                }
                let count = (get(words, COUNT) as usize).min(SLOTS);
                let after = upper(words, count, key);
                Ok((after > 0 && get(words, KEYS + after - 1) == key).then(|| get(words, VALUES + after - 1)))
            });
            match found {
                Ok(value) => return (value, (leaf, version)),
                Err(next) => leaf = next,
            }
        }
    }

    /// Hands keys from `from` on to `visit`, in order, until it says stop; `seen` gets every leaf that was read.
    pub fn scan<M: Memory>(
        &self,
        memory: &mut M,
        nodes: &Nodes,
        from: u64,
        seen: &mut Vec<Seen>,
        mut visit: impl FnMut(&mut M, u64, u64) -> bool,
    ) {
        let (mut leaf, _) = self.descend(memory, nodes, from, 0);
        loop {
            nodes
                .leaves
                .announce_load(memory, leaf, 0..NODE_WORDS, AccessClass::Chase);
            let (copy, version) = stable(nodes.leaves.words(leaf), |words| Leaf {
                count: (get(words, COUNT) as usize).min(SLOTS),
                keys: std::array::from_fn(|slot| get(words, KEYS + slot)),
                values: std::array::from_fn(|slot| get(words, VALUES + slot)),
                high: get(words, HIGH),
                next: get(words, NEXT),
            });
            if copy.high > from {
                seen.push((leaf, version));
            }
            for slot in 0..copy.count {
                if copy.keys[slot] >= from && !visit(memory, copy.keys[slot], copy.values[slot]) {
                    return;
                }
            }
            if copy.next == 0 {
                return;
            }
            leaf = copy.next - 1;
        }
    }

    /// Whether the leaf is still in this version.
    #[must_use]
    pub fn unchanged(nodes: &Nodes, seen: Seen) -> bool {
        nodes.leaves.word(seen.0, VERSION).load(Ordering::Acquire) == seen.1
    }

    /// Locks the node of `level` that is responsible for `key`, starting from one at its left.
    fn locked<'a, M: Memory>(
        memory: &mut M,
        nodes: &'a Nodes,
        level: u64,
        node: &mut u64,
        key: u64,
    ) -> &'a [AtomicU64] {
        let slab = nodes.level(level);
        loop {
            slab.announce_load(memory, *node, 0..NODE_WORDS, AccessClass::Chase);
            let words = slab.words(*node);
            lock(words);
            let next = get(words, NEXT);
            if key < get(words, HIGH) || next == 0 {
                return words;
            }
            unlock(words);
            *node = next - 1;
        }
    }

    /// Adds a key; says no if it is there already. There must be room for the nodes of all splits.
    pub fn insert<M: Memory>(&self, memory: &mut M, nodes: &Nodes, key: u64, value: u64) -> bool {
        let (mut node, path) = self.descend(memory, nodes, key, 0);
        let words = Self::locked(memory, nodes, 0, &mut node, key);
        let after = upper(words, get(words, COUNT) as usize, key);
        if after > 0 && get(words, KEYS + after - 1) == key {
            unlock(words);
            return false;
        }
        let Some((mut separator, mut right)) = Self::add(memory, nodes, 0, node, words, (key, value)) else {
            return true;
        };
        let mut level = 1;
        loop {
            let mut parent = path[level as usize];
            if parent == u64::MAX {
                let Some(found) = self.parent_or_grow(memory, nodes, level, separator, right) else {
                    return true;
                };
                parent = found;
            }
            let words = Self::locked(memory, nodes, level, &mut parent, separator);
            match Self::add(memory, nodes, level, parent, words, (separator, right)) {
                None => return true,
                Some(split) => (separator, right) = split,
            }
            level += 1;
        }
    }

    /// Where the root was split: puts a new root above it, unless another thread did, whose node is then handed out.
    fn parent_or_grow<M: Memory>(
        &self,
        memory: &mut M,
        nodes: &Nodes,
        level: u64,
        separator: u64,
        right: u64,
    ) -> Option<u64> {
        // A poisoned lock means that another thread panicked; the tree itself is still whole.
        let guard = self.growing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let root = self.root.load(Relaxed);
        if root >> LEVEL_SHIFT >= level {
            drop(guard);
            return Some(self.descend(memory, nodes, separator, level).0);
        }
        let node = nodes.inner.take();
        let words = nodes.inner.words(node);
        nodes.inner.announce_store(memory, node, 0..VALUES + 2);
        set(words, COUNT, 1);
        set(words, HIGH, u64::MAX);
        set(words, KEYS, separator);
        set(words, VALUES, root & ((1 << LEVEL_SHIFT) - 1));
        set(words, VALUES + 1, right);
        self.root.store(level << LEVEL_SHIFT | node, Ordering::Release);
        None
    }

    /// Adds an entry to a locked node and unlocks it. Where the node was full: the key that separates it from its new
    /// right neighbour, and that neighbour.
    fn add<M: Memory>(
        memory: &mut M,
        nodes: &Nodes,
        level: u64,
        node: u64,
        words: &[AtomicU64],
        entry: (u64, u64),
    ) -> Option<(u64, u64)> {
        let slab = nodes.level(level);
        // The child at the right of a key has the next number.
        let extra = usize::from(level > 0);
        let count = get(words, COUNT) as usize;
        let place = upper(words, count, entry.0);
        if count < SLOTS {
            for slot in (place..count).rev() {
                set(words, KEYS + slot + 1, get(words, KEYS + slot));
                set(words, VALUES + slot + 1 + extra, get(words, VALUES + slot + extra));
            }
            set(words, KEYS + place, entry.0);
            set(words, VALUES + place + extra, entry.1);
            set(words, COUNT, count as u64 + 1);
            slab.announce_store(memory, node, 0..2);
            slab.announce_store(memory, node, KEYS + place..KEYS + count + 1);
            slab.announce_store(memory, node, VALUES + place + extra..VALUES + count + 1 + extra);
            unlock(words);
            return None;
        }
        let mut keys: Vec<u64> = (0..count).map(|slot| get(words, KEYS + slot)).collect();
        let mut values: Vec<u64> = (0..count + extra).map(|slot| get(words, VALUES + slot)).collect();
        keys.insert(place, entry.0);
        values.insert(place + extra, entry.1);
        // Keys that come in rising order leave full nodes behind.
        let kept = if place == count { count } else { count.div_ceil(2) };
        let right = slab.take();
        let new = slab.words(right);
        let separator = keys[kept];
        for (slot, key) in keys[kept + extra..].iter().enumerate() {
            set(new, KEYS + slot, *key);
        }
        for (slot, value) in values[kept + extra..].iter().enumerate() {
            set(new, VALUES + slot, *value);
        }
        set(new, COUNT, (keys.len() - kept - extra) as u64);
        set(new, HIGH, get(words, HIGH));
        set(new, NEXT, get(words, NEXT));
        slab.announce_store(memory, right, 0..NODE_WORDS);
        if place < count {
            for (slot, key) in keys[..kept].iter().enumerate() {
                set(words, KEYS + slot, *key);
            }
            for (slot, value) in values[..kept + extra].iter().enumerate() {
                set(words, VALUES + slot, *value);
            }
            slab.announce_store(memory, node, KEYS..VALUES + kept + extra);
        }
        set(words, COUNT, kept as u64);
        set(words, HIGH, separator);
        // The neighbour is whole before anybody can reach it.
        words[NEXT].store(right + 1, Ordering::Release);
        slab.announce_store(memory, node, 0..KEYS);
        unlock(words);
        Some((separator, right))
    }

    /// Takes a key out; says no if it is not there. Empty leaves stay.
    pub fn remove<M: Memory>(&self, memory: &mut M, nodes: &Nodes, key: u64) -> bool {
        let (mut node, _) = self.descend(memory, nodes, key, 0);
        let words = Self::locked(memory, nodes, 0, &mut node, key);
        let count = get(words, COUNT) as usize;
        let after = upper(words, count, key);
        let there = after > 0 && get(words, KEYS + after - 1) == key;
        if there {
            for slot in after..count {
                set(words, KEYS + slot - 1, get(words, KEYS + slot));
                set(words, VALUES + slot - 1, get(words, VALUES + slot));
            }
            set(words, COUNT, count as u64 - 1);
            nodes.leaves.announce_store(memory, node, 0..VALUES + count);
        }
        unlock(words);
        there
    }
}
