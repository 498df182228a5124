//! Figures of the daemon for whoever asks, as OpenMetrics text on a socket that only root may open: connect and read.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tiertune_policy::Gauge;

use crate::driver::Counts;
use crate::mover::Tally;
use crate::series::Point;

/// The socket in a state folder.
#[must_use]
pub fn socket(folder: &Path) -> PathBuf {
    folder.join("metrics.sock")
}

/// The figures as text.
#[must_use]
pub fn text(policy: &str, cap_bytes: u64, point: &Point, counts: &Counts, tally: &Tally, gauges: &[Gauge]) -> String {
    let mut lines = String::new();
    let mut add = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let suffix = if kind == "counter" { "_total" } else { "" };
        lines.push_str(&format!("# TYPE tierd_{name} {kind}\n# HELP tierd_{name} {help}\n"));
        for (labels, value) in values {
            lines.push_str(&format!("tierd_{name}{suffix}{labels} {value}\n"));
        }
    };
    let one = |value: u64| vec![(String::new(), value as f64)];
    add(
        "policy",
        "gauge",
        "The policy that runs.",
        &[(format!("{{name=\"{policy}\"}}"), 1.0)],
    );
    add(
        "fast_bytes",
        "gauge",
        "Bytes of the fast tier in use.",
        &one(point.fast_bytes),
    );
    add(
        "fast_cap_bytes",
        "gauge",
        "Bytes that the fast tier may hold.",
        &one(cap_bytes),
    );
    add("present_bytes", "gauge", "Bytes in memory.", &one(point.present_bytes));
    add(
        "promoted_bytes",
        "counter",
        "Bytes moved to the fast tier.",
        &one(tally.promoted_bytes),
    );
    add(
        "demoted_bytes",
        "counter",
        "Bytes moved to the slow tier.",
        &one(tally.demoted_bytes),
    );
    let outcomes: Vec<(String, f64)> = tally
        .outcomes
        .iter()
        .map(|(word, count)| (format!("{{outcome=\"{word}\"}}"), *count as f64))
        .collect();
    add("migrations", "counter", "Requests of the policy by outcome.", &outcomes);
    add(
        "retried_frames",
        "counter",
        "Frames of 4 KiB that were tried again.",
        &one(tally.retried_frames),
    );
    add(
        "busy_frames",
        "counter",
        "Frames that stayed busy.",
        &one(tally.busy_frames),
    );
    add(
        "samples",
        "counter",
        "Samples that the policy was given.",
        &one(counts.samples),
    );
    add(
        "hint_faults",
        "counter",
        "Hint faults that the policy was given.",
        &one(counts.hint_faults),
    );
    add(
        "lost_records",
        "counter",
        "Records that sources lost.",
        &one(counts.lost),
    );
    add(
        "over_cap",
        "counter",
        "Times at which the fast tier held more than its cap.",
        &one(counts.over_cap),
    );
    add(
        "unmanaged_processes",
        "gauge",
        "Most processes of the workload at a time that were too many to be managed.",
        &one(counts.unmanaged_processes),
    );
    for gauge in gauges {
        add(
            &format!("policy_{}", gauge.name),
            "gauge",
            gauge.meaning,
            &[(String::new(), gauge.value)],
        );
    }
    lines.push_str("# EOF\n");
    lines
}

/// The socket, for as long as this lives.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    text: Arc<Mutex<String>>,
}

impl Server {
    /// Opens the socket in a state folder, which only root may enter.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = socket(folder);
        // One that an earlier run left behind: the lock says that nobody listens there.
        if let Err(error) = fs::remove_file(&path) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            path,
            listener,
            text: Arc::new(Mutex::new(String::from("# EOF\n"))),
        })
    }

    /// Answers from now on, with the rights that the caller has left.
    ///
    /// # Errors
    /// When there can be no other thread.
    pub fn serve(&self) -> io::Result<()> {
        let (listener, shared) = (self.listener.try_clone()?, Arc::clone(&self.text));
        thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let text = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A reader that goes away gets nothing more.
                let _ = answer(stream, &text);
            }
        })?;
        Ok(())
    }

    /// The text from now on.
    pub fn set(&self, text: String) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A socket that is left behind is removed by the next run.
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(mut stream: UnixStream, text: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(text.as_bytes())
}

/// What the daemon with this state folder says now.
///
/// # Errors
/// When none listens there.
pub fn ask(folder: &Path) -> io::Result<String> {
    let mut text = String::new();
    UnixStream::connect(socket(folder))?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_ours_alone_and_answers() {
        let folder = std::env::temp_dir().join(format!("metrics-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let server = Server::open(&folder).expect("a socket");
        server.serve().expect("a thread");
        let mode = fs::metadata(socket(&folder)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let point = Point {
            at_s: 1.0,
            fast_bytes: 4096,
            present_bytes: 8192,
            promoted_bytes: 0,
            demoted_bytes: 0,
            samples: 0,
            hint_faults: 0,
            lost: 0,
        };
        server.set(text("mru", 8192, &point, &Counts::default(), &Tally::default(), &[]));
        let answer = ask(&folder).expect("it answers");
        assert!(
            answer.contains("\ntierd_fast_bytes 4096\n") && answer.ends_with("# EOF\n"),
            "{answer}"
        );
        drop(server);
        assert!(!socket(&folder).exists());
        fs::remove_dir_all(&folder).expect("ours");
    }
}
