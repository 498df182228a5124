//! The kernel of this host, for a program that was started here or for a process that runs already.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use tiertune_host::follow::{self, Numbers, PageTables, Process};
use tiertune_host::owner::thread_cpu_ns;
use tiertune_host::{Area, launch, monotonic_ns, numa};

use crate::kernel::{Kernel, Refusal};

/// How long a program that is ending, or becoming another one, is waited for: its memory has to be freed first.
const LAST_LOOKS: u32 = 1000;
const LAST_LOOK: Duration = Duration::from_millis(5);
/// How long a look for children holds at most.
const CHILDREN_NS: u64 = 100_000_000;
/// How often is looked for the end of a program that was killed.
const KILLED_LOOK_NS: u64 = 20_000_000;

/// This host.
#[derive(Debug)]
pub struct Linux {
    /// The process that was started or named.
    main: i32,
    /// It is a child of ours, whose status is to be had.
    started: bool,
    status: Option<i32>,
    /// It was waited for in vain.
    unseen: bool,
    /// Pages that several processes have may be moved.
    moves_shared: bool,
    /// Processes when they were last looked for, and what was the newest on this host before.
    numbers: Numbers,
    newest: Option<i32>,
    looked_ns: u64,
    tables: PageTables,
    /// Processor time of children that have ended, and of all that these had waited for.
    ended_cpu_ns: u64,
    /// Most processor time that was seen, since a process that ends may be counted nowhere for a moment.
    cpu_ns: u64,
}

impl Linux {
    /// Manages `main` and all that it starts; `started` when it is a child of this process.
    #[must_use]
    pub fn new(main: i32, started: bool, moves_shared: bool) -> Self {
        Self {
            main,
            started,
            status: None,
            unseen: false,
            moves_shared,
            numbers: Numbers::default(),
            newest: None,
            looked_ns: 0,
            tables: PageTables::default(),
            ended_cpu_ns: 0,
            cpu_ns: 0,
        }
    }

    /// How the program ended, as `waitpid` says; nothing while it runs, and for a process that is no child of ours.
    #[must_use]
    pub fn status(&self) -> Option<i32> {
        self.status
    }

    /// Asks the program to end.
    pub fn ask_to_end(&self) {
        launch::signal(self.main, libc::SIGTERM);
    }

    /// Ends the program that was started at once, and waits for that.
    pub fn kill(&mut self) {
        launch::signal(self.main, libc::SIGKILL);
        while self.lives() {
            let until = self.now_ns() + KILLED_LOOK_NS;
            self.rest(until);
        }
    }

    fn reap(&mut self) {
        for ended in launch::reap() {
            self.ended_cpu_ns += ended.cpu_ns;
            if ended.pid == self.main {
                self.status = Some(ended.status);
            }
        }
    }

    /// The processes that there are now. Looking for children takes a file of every thread, and moving pages asks for each
    /// batch, so that they are looked for again where something was started meanwhile, or a while ago: what is just being
    /// started has a number before it is anybody's child.
    fn listed(&mut self) -> Vec<Process> {
        let (newest, now_ns) = (follow::newest(), monotonic_ns());
        if newest.is_none() || newest != self.newest || now_ns >= self.looked_ns + CHILDREN_NS {
            self.numbers = if self.started {
                // What lost its parent has become a child of this process.
                let own = std::process::id() as i32;
                let mut found = follow::numbers(own);
                found.pids.retain(|pid| *pid != own);
                found
            } else {
                follow::numbers(self.main)
            };
            (self.newest, self.looked_ns) = (newest, now_ns);
        }
        follow::running(&self.numbers.pids)
    }

    /// Takes note of the processor time of processes, and of those that they have waited for.
    fn count_cpu(&mut self, processes: &[Process]) {
        let each = processes.iter();
        let living_ns: u64 = each.filter_map(|process| follow::cpu_with_ended_ns(process.pid)).sum();
        self.cpu_ns = self.cpu_ns.max(self.ended_cpu_ns + living_ns);
    }
}

fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        // A process that is ending has no memory any more, which the kernel calls an invalid argument.
        Some(libc::ESRCH | libc::EINVAL) => Refusal::Gone,
        Some(libc::ENODEV) => Refusal::Offline,
        // Of a process that has ended its file has no entries.
        _ if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => Refusal::Gone,
        _ => Refusal::Other(error.to_string()),
    }
}

impl Kernel for Linux {
    fn now_ns(&mut self) -> u64 {
        monotonic_ns()
    }

    fn rest(&mut self, until_ns: u64) {
        sleep(Duration::from_nanos(until_ns.saturating_sub(monotonic_ns())));
    }

    fn lives(&mut self) -> bool {
        if self.started {
            self.reap();
            return self.status.is_none();
        }
        follow::lives(self.main)
    }

    fn processes(&mut self) -> Vec<Process> {
        let mut found = Vec::new();
        for look in 0..LAST_LOOKS {
            if !self.lives() {
                return Vec::new();
            }
            found = self.listed();
            let seen = found.iter().any(|process| process.pid == self.main);
            if seen || self.unseen {
                self.unseen = !seen;
                break;
            }
            // It ended between the two looks, or is becoming another program and has no memory just now. One whose first
            // thread has ended, while others go on, is never seen again.
            self.unseen = look + 1 == LAST_LOOKS;
            sleep(LAST_LOOK);
        }
        if !self.started {
            // Once it has ended, nobody says how long it ran.
            self.count_cpu(&found);
        }
        found
    }

    fn left_out(&self) -> usize {
        self.numbers.left_out
    }

    fn areas(&mut self, pid: i32) -> Vec<Area> {
        follow::private_areas(pid)
    }

    fn resident(&mut self, pid: i32, area: &Area, found: &mut dyn FnMut(u64, u64)) -> Result<(), Refusal> {
        self.tables.resident(pid, area, found).map_err(|error| refusal(&error))
    }

    fn nodes(&mut self, pid: i32, pages: &[u64]) -> Result<Vec<i32>, Refusal> {
        numa::move_pages(pid, pages, None, false).map_err(|error| refusal(&error))
    }

    fn shared(&mut self, pid: i32, pages: &[u64]) -> Result<Vec<u64>, Refusal> {
        self.tables.shared(pid, pages).map_err(|error| refusal(&error))
    }

    fn migrate(&mut self, pid: i32, pages: &[u64], node: u32) -> Result<Vec<i32>, Refusal> {
        numa::move_pages(pid, pages, Some(node), self.moves_shared).map_err(|error| refusal(&error))
    }

    fn forget(&mut self, pid: i32) {
        self.tables.forget(pid);
    }

    fn workload_cpu_ns(&mut self) -> u64 {
        let processes = self.listed();
        self.count_cpu(&processes);
        self.cpu_ns
    }

    fn thread_run_ns(&mut self, thread: i32) -> Option<u64> {
        follow::run_ns(thread)
    }

    fn own_cpu_ns(&mut self) -> u64 {
        thread_cpu_ns()
    }
}
