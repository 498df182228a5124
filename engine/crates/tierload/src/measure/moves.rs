//! What it takes to move a page: between nodes where there are two, its parts where there is one.

use std::time::Instant;

use serde_json::{Value as Json, json};

use super::{Plan, Region};

const PAGE_BYTES: [usize; 2] = [4096, 2 << 20];

/// Samples for pages of both sizes. With a node to go to, `move_pages` from `plan.node` and back; else a copy to a
/// frame that is there, and taking a frame away and faulting a new one in, which a move within one node would need.
pub fn times(plan: &Plan, pages: usize, to: Option<u32>, sample: &mut impl FnMut(Json)) -> Result<(), String> {
    for page_bytes in PAGE_BYTES {
        let huge = page_bytes > 4096;
        let bytes = pages * page_bytes;
        let mut from = Region::new(bytes, huge, plan.node)?;
        let mut copy = Region::new(bytes, huge, plan.node)?;
        for round in 0..plan.samples {
            let mut document = json!({
                "event": "sample", "measure": "moves", "round": round, "page_bytes": page_bytes, "pages": pages,
                "way": if to.is_some() { "move_pages" } else { "copy" },
            });
            if let (Some(to), Some(home)) = (to, plan.node) {
                let begun = Instant::now();
                from.move_to(to, pages, page_bytes)?;
                document["move_ns"] = (begun.elapsed().as_nanos() as f64 / pages as f64).into();
                from.move_to(home, pages, page_bytes)?;
            } else {
                let begun = Instant::now();
                for at in (0..bytes / 8).step_by(page_bytes / 8) {
                    let end = at + page_bytes / 8;
                    copy[at..end].copy_from_slice(&from[at..end]);
                }
                document["copy_ns"] = (begun.elapsed().as_nanos() as f64 / pages as f64).into();
                let begun = Instant::now();
                for page in 0..pages {
                    from.replace(page * page_bytes, page_bytes, page_bytes);
                }
                document["replace_ns"] = (begun.elapsed().as_nanos() as f64 / pages as f64).into();
            }
            sample(document);
        }
    }
    Ok(())
}
