//! What the program says, where nobody can hear it.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FULL_DISK: &str = "/dev/full";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("tierd-said-{name}-{}", std::process::id())));
        fs::create_dir_all(&folder.0).expect("a folder");
        folder
    }

    fn tierd(&self, command: &str) -> Command {
        let mut tierd = Command::new(env!("CARGO_BIN_EXE_tierd"));
        tierd.arg(command).arg("--state").arg(self.0.join("state"));
        tierd
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn full_disk() -> File {
    OpenOptions::new()
        .write(true)
        .open(FULL_DISK)
        .expect("every Linux has it")
}

/// Holding a setting that has its value already changes nothing of this host.
#[test]
fn a_program_runs_although_nobody_hears_of_it() {
    let folder = Folder::new("errors");
    let value = fs::read_to_string("/proc/sys/kernel/ostype").expect("every kernel has it");
    let settings = serde_json::json!([{"path": "/proc/sys/kernel/ostype", "value": value.trim()}]);
    let (list, report, touched) = (
        folder.0.join("settings.json"),
        folder.0.join("report.json"),
        folder.0.join("touched"),
    );
    fs::write(&list, settings.to_string()).expect("a file");
    let mut hold = folder.tierd("hold");
    hold.arg("--settings").arg(&list).arg("--report").arg(&report);
    let status = hold.arg("--").arg("touch").arg(&touched).stderr(full_disk()).status();
    assert_eq!(status.expect("it starts").code(), Some(0));
    assert!(touched.exists() && report.exists());
}

#[test]
fn what_cannot_be_printed_is_no_success() {
    let folder = Folder::new("output");
    let mut restore = folder.tierd("restore");
    let said = restore
        .stdout(full_disk())
        .stderr(Stdio::piped())
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(3), "{errors}");
    assert!(
        errors.starts_with("tierd: standard output cannot be written to") && errors.lines().count() == 1,
        "{errors}"
    );
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let folder = Folder::new("reader");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let said = folder
        .tierd("restore")
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("it starts");
    assert_eq!((said.status.code(), said.stderr.as_slice()), (Some(0), [].as_slice()));
}
