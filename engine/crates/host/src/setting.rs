//! Files of settings, which can be busy for a moment: DAMON's monitors take a lock of all of them at each interval, and whoever
//! writes to `state` meanwhile, or reads it from a newer kernel (seen with Linux 6.12.95), is told "busy" instead of waiting.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long is tried: longer than the longest interval of a monitor (two seconds), for which another one's answer can take.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Asks again while the answer is "busy", for `patience` at most.
fn patiently<T>(patience: Duration, ask: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let [mut pause, longest] = PAUSES;
    let begin = Instant::now();
    loop {
        match ask() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < patience => {
                std::thread::sleep(pause);
                pause = (2 * pause).min(longest);
            }
            answer => return answer,
        }
    }
}

/// The value of a setting: of a list such as `always [madvise] never` the word that holds.
///
/// # Errors
/// When the file cannot be read, or is busy for three seconds.
pub fn value_of(path: &Path) -> io::Result<String> {
    let text = patiently(PATIENCE, || fs::read_to_string(path))?;
    let text = text.trim();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text, |(word, _)| word).to_owned())
}

/// Writes to a setting.
///
/// # Errors
/// When the file cannot be written, or is busy for three seconds.
pub fn write(path: &Path, value: impl AsRef<[u8]>) -> io::Result<()> {
    patiently(PATIENCE, || fs::write(path, &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// What comes of asking something that answers `error` the first `times` times, and how often it was asked.
    fn asked(times: usize, error: io::ErrorKind, patience: Duration) -> (io::Result<usize>, usize) {
        let count = Cell::new(0);
        let answer = patiently(patience, || {
            count.set(count.get() + 1);
            if count.get() > times {
                Ok(count.get())
            } else {
                Err(error.into())
            }
        });
        (answer, count.get())
    }

    #[test]
    fn what_is_busy_for_a_moment_is_asked_again() {
        let (answer, count) = asked(3, io::ErrorKind::ResourceBusy, PATIENCE);
        assert_eq!((answer.ok(), count), (Some(4), 4));
    }

    #[test]
    fn what_stays_busy_is_an_error_after_a_while() {
        let (answer, count) = asked(usize::MAX, io::ErrorKind::ResourceBusy, Duration::from_millis(20));
        assert_eq!(
            answer.err().map(|error| error.kind()),
            Some(io::ErrorKind::ResourceBusy)
        );
        assert!(count > 1, "{count}");
    }

    #[test]
    fn what_fails_otherwise_is_asked_once() {
        let (answer, count) = asked(1, io::ErrorKind::PermissionDenied, PATIENCE);
        assert_eq!(count, 1);
        assert_eq!(
            answer.err().map(|error| error.kind()),
            Some(io::ErrorKind::PermissionDenied)
        );
    }
}
