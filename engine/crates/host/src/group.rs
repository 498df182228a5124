//! Control groups that are made for one program, and removed once it is over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::HostError;

/// Where control groups are, of either version.
const GROUPS: &str = "/sys/fs/cgroup";
/// What the processes of a group are listed in, and written to.
const PROCESSES: &str = "cgroup.procs";
/// How long the processes of a group may take to leave it: they free their memory first.
const PATIENCE: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_millis(20);

/// The file that a process writes itself to.
#[must_use]
pub fn processes_file(group: &Path) -> PathBuf {
    group.join(PROCESSES)
}

/// Whether a group could be made there.
///
/// # Errors
/// With what is in the way: `Wrong` for a path that is none of a group, `Unfit` where this host lacks it.
pub fn check(group: &Path) -> Result<(), HostError> {
    let shown = group.display();
    let parent = group.parent().unwrap_or(Path::new("/"));
    let plain = group
        .components()
        .all(|part| !matches!(part, std::path::Component::ParentDir));
    if !plain || !parent.starts_with(GROUPS) {
        return Err(HostError::Wrong(format!(
            "the control group {shown} does not lie below {GROUPS}; {GROUPS}/tiertune would"
        )));
    }
    if !processes_file(parent).is_file() {
        return Err(HostError::Unfit(format!(
            "{} is no control group, so that {shown} cannot be made; mount the hierarchy there (mount -t cgroup2 none {GROUPS})",
            parent.display()
        )));
    }
    if group.exists() {
        return Err(HostError::Unfit(format!(
            "the control group {shown} is there already, and is not tierd's; end what runs in it, then rmdir {shown}"
        )));
    }
    Ok(())
}

/// Removes a group; what still runs in it goes on in its parent. Nothing happens where it is gone.
///
/// # Errors
/// With why it is still there.
pub fn remove(group: &Path) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        move_out(group);
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(format!("it cannot be removed: {error}")),
            Err(_) => sleep(REST),
        }
    }
}

fn move_out(group: &Path) {
    let parent = processes_file(group.parent().unwrap_or(Path::new("/")));
    for pid in fs::read_to_string(processes_file(group)).unwrap_or_default().lines() {
        // One that ended meanwhile has left; another one is still listed when the group is looked at again.
        let _ = fs::write(&parent, pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_where_groups_are() {
        for (path, expected) in [
            ("/tmp/tiertune", "does not lie below"),
            ("/sys/fs/cgroup/../../kernel/tiertune", "does not lie below"),
            ("/sys/fs/cgroup", "does not lie below"),
            ("/sys/fs/cgroup/no-such-group/tiertune", "is no control group"),
        ] {
            let problem = check(path.as_ref()).expect_err(path).to_string();
            assert!(problem.contains(expected), "{path}: {problem}");
        }
    }
}
