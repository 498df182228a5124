//! A fixed permutation that spreads neighbouring positions over an object.

/// The permutation `position -> index` of `0..pages`, affine and so invertible in O(1).
///
/// The multiplier lies near the golden section of `pages`, so any run of positions lands evenly
/// spread: pages of one popularity end up scattered, as vertices with permuted ids do.
#[derive(Debug, Clone)]
pub struct Scatter {
    pages: u64,
    multiplier: u64,
    inverse: u64,
}

impl Scatter {
    /// The permutation of `pages` (at least 2) pages.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        let pages = u64::from(pages);
        let mut multiplier = ((pages as f64 * 0.618_033_988_75) as u64).max(1);
        while greatest_common_divisor(multiplier, pages) != 1 {
            multiplier += 1;
        }
        multiplier %= pages.max(2);
        Self {
            pages,
            multiplier: multiplier.max(1),
            inverse: modular_inverse(multiplier.max(1), pages),
        }
    }

    /// The page index at `position`.
    #[inline]
    #[must_use]
    pub fn index(&self, position: u32) -> u32 {
        (u64::from(position) * self.multiplier % self.pages) as u32
    }

    /// The position of page `index`.
    #[inline]
    #[must_use]
    pub fn position(&self, index: u32) -> u32 {
        (u64::from(index) * self.inverse % self.pages) as u32
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// `x` with `a x = 1 (mod n)`, by the extended Euclidean algorithm; `a` and `n` are coprime.
fn modular_inverse(a: u64, n: u64) -> u64 {
    let (mut r0, mut r1) = (n as i128, (a % n) as i128);
    let (mut t0, mut t1) = (0i128, 1i128);
    while r1 != 0 {
        let quotient = r0 / r1;
        (r0, r1) = (r1, r0 - quotient * r1);
        (t0, t1) = (t1, t0 - quotient * t1);
    }
    t0.rem_euclid(n as i128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_permutation_with_an_inverse() {
        for pages in [2u32, 3, 4, 10, 1000, 32_768, 99_991] {
            let scatter = Scatter::new(pages);
            let mut seen = vec![false; pages as usize];
            for position in 0..pages {
                let index = scatter.index(position);
                assert_eq!(scatter.position(index), position);
                assert!(!std::mem::replace(&mut seen[index as usize], true));
            }
        }
    }
}
