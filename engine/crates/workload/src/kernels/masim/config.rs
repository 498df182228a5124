//! Configurations of masim, read as they are: paragraphs of regions and phases, with pointer chasing added.
//!
//! The first paragraph names regions, `name, bytes[, file]`; each other one is a phase: a name, milliseconds, then
//! patterns `region, how, stride_bytes, weight[, mode]`. `how` is `1` for random, `0` for sequential or `chase`; `mode`
//! is `ro`, `wo` or `rw`. Lines that start with `#` are comments. Initial contents are not loaded, as no access depends
//! on them.

use std::collections::BTreeSet;
use std::sync::Mutex;

use tiertune_policy::nearest::nearest;

const MOST_BYTES: u64 = 1 << 46;
const MOST_REGIONS: usize = 4096;
const MOST_PHASES: usize = 1000;
const MOST_MS: u64 = 1 << 40;
const MOST_WEIGHT: u64 = 1 << 32;

/// A stretch of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: &'static str,
    /// Its length in bytes.
    pub bytes: u64,
}

/// How a pattern goes through its region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Bytes drawn uniformly.
    Random,
    /// A stride after the last access, from the start again at the end.
    Sequential,
    /// Along a random cycle through all lines; each address comes from the load before.
    Chase,
}

/// What a pattern does at each place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Loads and stores.
    Both,
}

/// Accesses to one region within a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Number of the region.
    pub region: usize,
    /// Where it goes.
    pub order: Order,
    /// Bytes between sequential accesses.
    pub stride_bytes: u64,
    /// How often it is chosen, against the other patterns of the phase.
    pub weight: u64,
    /// Loads or stores.
    pub mode: Mode,
}

/// A stretch of time with the same patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its length in milliseconds.
    pub ms: u64,
    /// What happens in it.
    pub patterns: Vec<Pattern>,
}

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Regions in order.
    pub regions: Vec<Region>,
    /// Phases in order.
    pub stages: Vec<Stage>,
}

/// A name that lives as long as the program; each is kept once.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let leaked: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(leaked);
    leaked
}

/// A line and its number, from 1.
type Line<'a> = (usize, &'a str);

fn number(line: usize, what: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let wrong =
        |near: &str| format!("line {line}: {what} is {text}, it must be a whole number from {least} to {most}{near}");
    match text.parse::<u64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(value) => Err(wrong(&format!("; the nearest is {}", value.clamp(least, most)))),
        Err(_) => Err(wrong("")),
    }
}

/// Fields between commas, without the blanks around them.
fn fields<'a>((line, text): Line<'a>, counts: &[usize], form: &str) -> Result<Vec<&'a str>, String> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    if !counts.contains(&fields.len()) || fields.iter().any(|field| field.is_empty()) {
        return Err(format!("line {line}: {text:?} has not the form {form}"));
    }
    Ok(fields)
}

fn region(line: Line, known: &[Region]) -> Result<Region, String> {
    let fields = fields(line, &[2, 3], "name, bytes[, file]")?;
    if known.len() == MOST_REGIONS {
        return Err(format!("line {}: more than {MOST_REGIONS} regions", line.0));
    }
    if known.iter().any(|other| other.name == fields[0]) {
        return Err(format!("line {}: region {} stands there twice", line.0, fields[0]));
    }
    Ok(Region {
        name: kept(fields[0]),
        bytes: number(line.0, "the length", fields[1], 1, MOST_BYTES)?,
    })
}

fn pattern(line: Line, regions: &[Region]) -> Result<Pattern, String> {
    let fields = fields(line, &[4, 5], "region, how, stride_bytes, weight[, mode]")?;
    let Some(region) = regions.iter().position(|known| known.name == fields[0]) else {
        let near = nearest(fields[0], regions.iter().map(|known| known.name));
        let near = near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        return Err(format!("line {}: {} is not a region{near}", line.0, fields[0]));
    };
    let order = match fields[1] {
        "0" => Order::Sequential,
        "1" => Order::Random,
        "chase" => Order::Chase,
        other => return Err(format!("line {}: how is {other}, choose one of 0, 1, chase", line.0)),
    };
    let mode = match fields.get(4) {
        None | Some(&"rw") if order != Order::Chase => Mode::Both,
        None | Some(&"ro") => Mode::Read,
        Some(&"wo") if order != Order::Chase => Mode::Write,
        Some(other) => {
            let choice = if order == Order::Chase {
                "ro"
            } else {
                "one of ro, wo, rw"
            };
            return Err(format!("line {}: the mode is {other}, choose {choice}", line.0));
        }
    };
    Ok(Pattern {
        region,
        order,
        stride_bytes: number(line.0, "the stride", fields[2], 1, MOST_BYTES)?,
        weight: number(line.0, "the weight", fields[3], 0, MOST_WEIGHT)?,
        mode,
    })
}

fn stage(lines: &[Line], regions: &[Region]) -> Result<Stage, String> {
    let first = lines[0].0;
    let [(_, name), (line, ms), patterns @ ..] = lines else {
        return Err(format!("line {first}: a phase needs a name, milliseconds and patterns"));
    };
    let ms = number(*line, "the time", ms, 1, MOST_MS)?;
    let patterns = patterns
        .iter()
        .map(|line| pattern(*line, regions))
        .collect::<Result<Vec<_>, _>>()?;
    if patterns.iter().all(|pattern| pattern.weight == 0) {
        return Err(format!(
            "line {first}: phase {name} has no pattern with a weight above 0"
        ));
    }
    Ok(Stage {
        name: (*name).to_owned(),
        ms,
        patterns,
    })
}

/// Reads a configuration.
///
/// # Errors
/// One sentence that begins with the number of the line.
pub fn parse(text: &str) -> Result<Config, String> {
    let mut paragraphs: Vec<Vec<Line>> = vec![Vec::new()];
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            paragraphs.push(Vec::new());
        } else if let (false, Some(last)) = (line.starts_with('#'), paragraphs.last_mut()) {
            last.push((number + 1, line));
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    let [first, rest @ ..] = paragraphs.as_slice() else {
        return Err("line 1: no region".to_owned());
    };
    let mut regions = Vec::new();
    for line in first {
        regions.push(region(*line, &regions)?);
    }
    if rest.is_empty() {
        return Err(format!("line {}: no phase after the regions", text.lines().count()));
    }
    if rest.len() > MOST_PHASES {
        return Err(format!(
            "line {}: more than {MOST_PHASES} phases",
            rest[MOST_PHASES][0].0
        ));
    }
    let bytes: u64 = regions.iter().map(|region: &Region| region.bytes).sum();
    if bytes > MOST_BYTES {
        return Err(format!(
            "line {}: all regions together have {bytes} bytes, the most is {MOST_BYTES}",
            first[0].0
        ));
    }
    let stages = rest
        .iter()
        .map(|lines| stage(lines, &regions))
        .collect::<Result<_, _>>()?;
    Ok(Config { regions, stages })
}
