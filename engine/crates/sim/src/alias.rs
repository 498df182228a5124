//! Drawing from a discrete law in constant time (Walker's alias method, Vose's construction).

/// A table over at most 65 536 entries, 4 bytes each.
///
/// The 16-bit threshold rounds an entry's probability to 1/65536 of the mean one, far below what
/// any number of samples of a trial could tell apart.
#[derive(Debug, Clone)]
pub struct AliasTable {
    slots: Vec<(u16, u16)>,
}

impl AliasTable {
    /// The table of `weights`, which need not sum to one. Panics when empty or too long.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        assert!(
            (1..=65_536).contains(&n),
            "an alias table has 1 to 65536 entries, not {n}"
        );
        let total: f64 = weights.iter().sum();
        let mut scaled: Vec<f64> = weights
            .iter()
            .map(|w| if total > 0.0 { w / total * n as f64 } else { 1.0 })
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| scaled[i] < 1.0);
        let mut slots: Vec<(u16, u16)> = (0..n).map(|i| (u16::MAX, i as u16)).collect();
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            slots[poor] = ((scaled[poor] * 65_536.0).min(65_535.0) as u16, rich as u16);
            scaled[rich] -= 1.0 - scaled[poor];
            if scaled[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { slots }
    }

    /// The entry for 32 random bits.
    ///
    /// Without a branch: which of a slot's two entries is taken is a coin toss, and a mispredicted
    /// branch costs more than all the rest.
    #[inline]
    #[must_use]
    pub fn draw(&self, bits: u32) -> usize {
        let product = u64::from(bits) * self.slots.len() as u64;
        let index = (product >> 32) as usize;
        let (threshold, alias) = self.slots[index];
        let fraction = (product as u32 >> 16) as u16;
        let other = usize::from(fraction >= threshold).wrapping_neg();
        index ^ ((index ^ usize::from(alias)) & other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiertune_policy::CounterRng;

    #[test]
    fn draws_follow_the_weights() {
        let weights = [5.0, 0.0, 1.0, 94.0];
        let table = AliasTable::new(&weights);
        let mut rng = CounterRng::new(1, &[]);
        let mut counts = [0f64; 4];
        for _ in 0..100_000 {
            counts[table.draw((rng.next_u64() >> 32) as u32)] += 1.0;
        }
        assert_eq!(counts[1], 0.0);
        for (count, weight) in counts.iter().zip(weights) {
            let expected = weight * 1000.0;
            assert!((count - expected).abs() <= 5.0 * expected.sqrt(), "{counts:?}");
        }
    }
}
