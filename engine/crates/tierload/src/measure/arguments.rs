//! `tierload measure …` on the command line.

use std::str::FromStr;

use clap::{Arg, ArgMatches, Command};
use tiertune_workload::parameter::bytes_of;

use super::{Measure, Plan};

/// The sub-command's name.
pub const MEASURE: &str = "measure";

const MOST_THREADS: usize = 1024;
const MOST_BYTES: u64 = 1 << 38;

/// All measurements.
pub fn command() -> Command {
    let threads = |many: &str| option("threads", "LIST", &format!("numbers of {many}, such as 1,2"));
    let shares = || {
        option(
            "write-shares",
            "LIST",
            "shares of lines that are also written, such as 0,0.5",
        )
        .default_value("0")
    };
    Command::new(MEASURE)
        .about("Measurements of this host's memory, one JSON document a sample; `tiertune calibrate` reads them")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            common(
                "loaded",
                "latency of dependent reads, alone and beside streaming threads",
            )
            .arg(option("threads", "COUNT", "streaming threads beside the one that chases").default_value("1"))
            .arg(shares())
            .arg(
                option(
                    "pauses",
                    "LIST",
                    "turns of a waiting loop after every 4 KiB; 0 is full speed",
                )
                .default_value("0"),
            ),
        )
        .subcommand(
            common("stream", "bandwidth of streaming threads")
                .arg(threads("streaming threads").default_value("1"))
                .arg(shares()),
        )
        .subcommand(
            common(
                "updates",
                "time of independent random reads and updates, and of dependent reads",
            )
            .arg(threads("threads").default_value("1")),
        )
        .subcommand(
            common(
                "moves",
                "time to move a page, or on one node to copy one and to replace its frame",
            )
            .arg(option("pages", "COUNT", "pages of each size in a sample").default_value("64"))
            .arg(option(
                "to",
                "NODE",
                "node that pages go to and come back from; needs --node",
            )),
        )
}

fn common(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .arg(option("buffer-bytes", "SIZE", "buffer of each thread").default_value("256MiB"))
        .arg(option("samples", "COUNT", "samples of each kind").default_value("10"))
        .arg(option("window-s", "SECONDS", "length of a sample").default_value("0.1"))
        .arg(option(
            "label",
            "WORD",
            "a word that every sample carries, to tell runs apart",
        ))
        .arg(option(
            "node",
            "NODE",
            "node that the memory is on [default: as the kernel decides]",
        ))
}

fn option(name: &'static str, value: &'static str, help: &str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help.to_owned())
}

/// What the command line asks for; the error is a sentence.
pub fn asked(matches: &ArgMatches) -> Result<Plan, String> {
    let Some((name, given)) = matches.subcommand() else {
        return Err("say what to measure: loaded, stream, updates or moves".to_owned());
    };
    let text = |option: &str| given.get_one::<String>(option).map_or("", String::as_str);
    let buffer = text("buffer-bytes");
    let buffer_bytes = bytes_of(buffer)
        .filter(|bytes| (1 << 16..=MOST_BYTES).contains(bytes))
        .ok_or_else(|| format!("--buffer-bytes is {buffer}, it must be a size from 64KiB to 256GiB"))?;
    let node = |option: &str| -> Result<Option<u32>, String> {
        given
            .get_one::<String>(option)
            .map(|text| one(option, text, 0, 1023, "the number of a node"))
            .transpose()
    };
    let measure = match name {
        "loaded" => Measure::Loaded {
            threads: one("threads", text("threads"), 0, MOST_THREADS, "0 to 1024 threads")?,
            write_shares: shares(text("write-shares"))?,
            pauses: list("pauses", text("pauses"), 0, 1 << 20, "numbers from 0 to 1048576")?,
        },
        "stream" => Measure::Stream {
            threads: list("threads", text("threads"), 1, MOST_THREADS, "1 to 1024 threads")?,
            write_shares: shares(text("write-shares"))?,
        },
        "updates" => Measure::Updates {
            threads: list("threads", text("threads"), 1, MOST_THREADS, "1 to 1024 threads")?,
        },
        _ => Measure::Moves {
            pages: one("pages", text("pages"), 1, 4096, "1 to 4096 pages")?,
            to: node("to")?,
        },
    };
    let node = node("node")?;
    if matches!(measure, Measure::Moves { to: Some(_), .. }) && node.is_none() {
        return Err("--to needs --node, the node that pages come from".to_owned());
    }
    Ok(Plan {
        measure,
        buffer_bytes: buffer_bytes as usize / super::LINE_BYTES / 64 * 64 * super::LINE_BYTES,
        samples: one("samples", text("samples"), 1, 100_000, "1 to 100000 samples")?,
        window_s: one("window-s", text("window-s"), 0.001, 60.0, "from 0.001 to 60 seconds")?,
        node,
        label: given.get_one::<String>("label").cloned(),
    })
}

fn shares(text: &str) -> Result<Vec<f64>, String> {
    list("write-shares", text, 0.0, 1.0, "shares from 0 to 1")
}

fn list<T: FromStr + PartialOrd + Copy>(
    option: &str,
    text: &str,
    least: T,
    most: T,
    what: &str,
) -> Result<Vec<T>, String> {
    text.split(',')
        .map(|one_text| one(option, one_text, least, most, what))
        .collect()
}

fn one<T: FromStr + PartialOrd>(option: &str, text: &str, least: T, most: T, what: &str) -> Result<T, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|value| least <= *value && *value <= most)
        .ok_or_else(|| format!("--{option} is {text}, it must be {what}"))
}
