//! What `inject` is on processors whose registers it does not know.

use std::io;

/// Never there.
#[derive(Debug)]
pub struct Held;

impl Held {
    /// Says why not.
    pub fn stop(_pid: i32) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "processes are sampled on x86-64 only",
        ))
    }

    /// Never reached, because nothing is held.
    pub fn pid(&self) -> i32 {
        0
    }

    /// Never reached either.
    pub fn call<const COUNT: usize>(&mut self, _number: libc::c_long, _arguments: [u64; COUNT]) -> io::Result<u64> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
