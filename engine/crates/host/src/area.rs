//! The address space of a process as the kernel lists it.

use std::fs;

use crate::PAGE_BYTES;
use crate::translations::are_scratch;

/// A stretch of addresses with one purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// First page.
    pub start: u64,
    /// The page after the last one.
    pub end: u64,
    /// `heap`, `stack`, the name of a mapped file, or `anonymous`.
    pub label: String,
}

/// Whether pages of a mapping can hold data of the program: text and constants of files are shared, small and never
/// written, and what the kernel maps by itself cannot be moved.
fn holds_data(permissions: &str, path: &str) -> bool {
    if path.starts_with("[v") {
        return false;
    }
    let of_a_file = path.starts_with('/');
    !of_a_file || permissions.as_bytes().get(1) == Some(&b'w')
}

/// A line of `/proc/PID/maps`, or the first of an entry of `/proc/PID/smaps`; nothing for any other line.
pub(crate) fn parse(line: &str) -> Option<(Area, bool)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let permissions = words.next()?;
    let path = words.nth(3).unwrap_or("");
    let label = match path {
        "" => "anonymous".to_owned(),
        path if path.starts_with('[') => path.trim_matches(['[', ']']).to_owned(),
        path => path.rsplit('/').next().unwrap_or(path).to_owned(),
    };
    let area = Area {
        start: start / PAGE_BYTES,
        end: end / PAGE_BYTES,
        label,
    };
    let data = holds_data(permissions, path) && !are_scratch(start, end);
    Some((area, data))
}

/// The mappings of a process that hold data, one for each entry of the kernel; nothing when it is gone.
pub(crate) fn mappings(pid: i32) -> Vec<Area> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines()
        .filter_map(parse)
        .filter_map(|(area, data)| data.then_some(area))
        .collect()
}

/// Areas put together where they touch or overlap and have one label.
pub(crate) fn joined(mut areas: Vec<Area>) -> Vec<Area> {
    areas.sort_by_key(|area| (area.start, area.end));
    let mut result: Vec<Area> = Vec::new();
    for area in areas {
        match result.last_mut() {
            Some(last) if last.end >= area.start && (last.label == area.label || last.end > area.start) => {
                last.end = last.end.max(area.end);
            }
            _ => result.push(area),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64, label: &str) -> Area {
        Area {
            start,
            end,
            label: label.into(),
        }
    }

    #[test]
    fn lines_of_the_kernel() {
        let heap = parse("55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0      [heap]");
        assert_eq!(heap, Some((area(0x5_5d0c_0a00, 0x5_5d0c_0a21, "heap"), true)));
        let anonymous =
            parse("7f0000000000-7f0000002000 rw-p 00000000 00:00 0 ").map(|(area, data)| (area.label, data));
        assert_eq!(anonymous, Some(("anonymous".into(), true)));
        let text = parse("55d0c0a00000-55d0c0a21000 r-xp 00000000 fe:00 12   /usr/bin/redis-server");
        assert_eq!(
            text.map(|(area, data)| (area.label, data)),
            Some(("redis-server".into(), false))
        );
        let vdso = parse("7fff10000000-7fff10002000 r-xp 00000000 00:00 0   [vdso]");
        assert_eq!(vdso.map(|(_, data)| data), Some(false));
        assert_eq!(parse("Referenced:          12 kB"), None);
    }

    #[test]
    fn pieces_of_one_purpose_are_one_area() {
        let pieces = vec![
            area(20, 30, "anonymous"),
            area(10, 20, "anonymous"),
            area(30, 40, "heap"),
            area(35, 50, "heap"),
            area(60, 70, "heap"),
        ];
        let expected = [area(10, 30, "anonymous"), area(30, 50, "heap"), area(60, 70, "heap")];
        assert_eq!(joined(pieces), expected);
    }
}
