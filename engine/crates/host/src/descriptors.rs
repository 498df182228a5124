//! How many files this process may have open: counters take one for each event and processor, which on a large host is
//! more than the usual soft limit of 1024.

use std::io;
use std::sync::OnceLock;

/// The limit as it was before it was raised.
static FOUND: OnceLock<libc::rlimit> = OnceLock::new();

fn limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes what it is given, which is ours.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: reads what it is given.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises the soft limit to the hard one, for the rest of this process' life: below what is open already, no file of
/// `/proc` could be opened any more. Where it cannot be raised, what needs more says so when it is opened.
pub fn raise() {
    if let Ok(found) = limit() {
        let found = FOUND.get_or_init(|| found);
        let _ = set(&libc::rlimit {
            rlim_cur: found.rlim_max,
            ..*found
        });
    }
}

/// What gives a program that is started the limit that this process was started with; does nothing where that was not
/// raised. To be called between fork and exec, and made before.
pub(crate) fn as_found() -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
    let found = FOUND.get().copied();
    move || found.as_ref().map_or(Ok(()), set)
}

/// What to do about an event that could not be opened; `rights` is that where it is not a matter of how many are open.
#[must_use]
pub(crate) fn remedy(error: &io::Error, needed: usize, rights: &str) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let most = limit().map_or_else(|_| "too few".to_owned(), |limit| limit.rlim_cur.to_string());
            format!(
                "it takes {needed} open files, and this process may have {most}: raise the hard limit (`ulimit -Hn`, \
                 LimitNOFILE= of a systemd unit)"
            )
        }
        Some(libc::ENFILE) => format!(
            "it takes {needed} open files, and this host has as many open as it may: raise fs.file-max (`sysctl fs.file-nr` \
             shows both)"
        ),
        _ => rights.to_owned(),
    }
}
