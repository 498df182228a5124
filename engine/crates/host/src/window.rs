//! What was seen, summed up over stretches of time.

/// Pages side by side that are told apart no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Number of the process.
    pub process: u16,
    /// First page.
    pub start: u64,
    /// Pages that the kernel answers for.
    pub pages: u32,
    /// In how many looks a page was found touched, summed over the pages.
    pub hits: u32,
}

/// Looks that are put together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Window {
    /// Seconds by the clock, rests between looks included.
    pub elapsed_s: f64,
    /// Processor time of the processes, all threads.
    pub cpu_ns: u64,
    /// How often was looked.
    pub looks: u32,
    /// Seconds for which pages were watched, summed over the looks.
    pub watched_s: f64,
    /// Pages that were touched, sorted.
    pub cells: Vec<Cell>,
}

impl Window {
    /// Adds what comes after.
    pub fn append(&mut self, other: &Window) {
        self.elapsed_s += other.elapsed_s;
        self.cpu_ns += other.cpu_ns;
        self.looks += other.looks;
        self.watched_s += other.watched_s;
        let mut merged: Vec<Cell> = Vec::with_capacity(self.cells.len() + other.cells.len());
        let (mut left, mut right) = (self.cells.iter().peekable(), other.cells.iter().peekable());
        while let Some(cell) = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) if (l.process, l.start) <= (r.process, r.start) => left.next(),
            (_, Some(_)) => right.next(),
            _ => left.next(),
        } {
            match merged.last_mut() {
                Some(last) if (last.process, last.start) == (cell.process, cell.start) => {
                    last.pages = last.pages.max(cell.pages);
                    last.hits += cell.hits;
                }
                _ => merged.push(*cell),
            }
        }
        self.cells = merged;
    }
}

/// Windows of equal numbers of looks: when there are too many, neighbours are put together.
#[derive(Debug)]
pub struct Windows {
    most: usize,
    looks_each: u32,
    windows: Vec<Window>,
}

impl Windows {
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(2),
            looks_each: 1,
            windows: Vec::new(),
        }
    }

    pub fn add(&mut self, look: Window) {
        match self.windows.last_mut() {
            Some(last) if last.looks < self.looks_each => last.append(&look),
            _ => self.windows.push(look),
        }
        if self.windows.len() > self.most {
            let pairs = self.windows.chunks(2).map(|pair| {
                let mut first = pair[0].clone();
                pair[1..].iter().for_each(|second| first.append(second));
                first
            });
            self.windows = pairs.collect();
            self.looks_each *= 2;
        }
    }

    pub fn finish(self) -> Vec<Window> {
        self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pages: &[u64]) -> Window {
        let cells = pages.iter().map(|page| Cell {
            process: 0,
            start: *page,
            pages: 1,
            hits: 1,
        });
        Window {
            elapsed_s: 1.0,
            cpu_ns: 10,
            looks: 1,
            watched_s: 0.5,
            cells: cells.collect(),
        }
    }

    #[test]
    fn looks_add_up_page_by_page() {
        let mut window = look(&[1, 5]);
        window.append(&look(&[0, 5, 9]));
        let hits: Vec<(u64, u32)> = window.cells.iter().map(|cell| (cell.start, cell.hits)).collect();
        assert_eq!(hits, [(0, 1), (1, 1), (5, 2), (9, 1)]);
        assert_eq!((window.looks, window.cpu_ns, window.watched_s), (2, 20, 1.0));
    }

    #[test]
    fn however_long_it_takes_windows_stay_few_and_nothing_is_lost() {
        let mut windows = Windows::new(8);
        for number in 0..1000 {
            windows.add(look(&[number % 7]));
        }
        let windows = windows.finish();
        assert!((4..=8).contains(&windows.len()), "{}", windows.len());
        assert_eq!(windows.iter().map(|window| window.looks).sum::<u32>(), 1000);
        let hits: u32 = windows
            .iter()
            .flat_map(|window| &window.cells)
            .map(|cell| cell.hits)
            .sum();
        assert_eq!(hits, 1000);
        let most = windows.iter().map(|window| window.looks).max();
        assert!(
            windows[..windows.len() - 1]
                .iter()
                .all(|window| Some(window.looks) == most)
        );
    }
}
