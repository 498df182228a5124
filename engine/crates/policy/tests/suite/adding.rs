//! Adding a policy is one file and one line in the registry: the policies that the READMEs show are added to a copy
//! of this crate in just that way, and the copy is built and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is run in the copy.
const CHECK: &str = r##"
mod harness;

use harness::{Entry, script, workload};
use tiertune_policy::{Config, registry};

#[test]
fn the_smallest_policy_is_listed_and_runs() {
    assert!(registry::names().any(|name| name == "still"));
    for page_bytes in registry::find("still").expect("it is listed").page_bytes() {
        let seen = workload::run("still", &Config::new(), *page_bytes, 3);
        assert!(!seen.log.iter().any(|entry| matches!(entry, Entry::Ask { .. })), "it moves nothing");
        assert!(seen.tiers.contains(&0) && seen.tiers.contains(&1), "pages were placed");
    }
}

#[test]
fn one_that_moves_pages_does_as_its_script_says() {
    assert!(registry::names().any(|name| name == "greedy"));
    let outcome = script::replay("greedy", include_str!("greedy.txt"));
    let asked: Vec<&str> = outcome.lines().filter(|line| line.contains(" ask ")).collect();
    assert_eq!(asked.len(), 1, "{outcome}");
    assert!(asked[0].ends_with("page 2: 1 -> 0"), "{outcome}");
    let seen = workload::run("greedy", &Config::new(), registry::PAGE_2M, 2);
    assert!(seen.log.iter().any(|entry| matches!(entry, Entry::Ask { .. })), "it moves pages");
}

#[test]
fn a_composition_around_it_is_refused_like_any_other() {
    let refused = registry::find("alto+still").err().expect("it takes no hint faults").to_string();
    assert!(refused.contains("no hint faults"), "{refused}");
}
"##;

fn engine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes a file unless it says that already: what has not changed need not be built again.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the target folder can be written");
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Copies the files of a folder, and takes away those that are not there any more.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target folder can be written");
    let names = |folder: &Path| -> Vec<_> {
        let entries = fs::read_dir(folder).expect("the folder can be read");
        entries.map(|entry| entry.expect("readable").file_name()).collect()
    };
    let wanted = names(from);
    for name in names(to).iter().filter(|name| !wanted.contains(name)) {
        let stale = to.join(name);
        let removed = if stale.is_dir() {
            fs::remove_dir_all(stale)
        } else {
            fs::remove_file(stale)
        };
        removed.expect("the target folder can be written");
    }
    for name in wanted {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            write(&to, &read(&from));
        }
    }
}

/// The first block of a kind in a text, without what it is indented by.
fn block(text: &str, kind: &str, containing: &str) -> String {
    let fence = format!("```{kind}\n");
    let mut rest = text;
    while let Some(start) = rest.find(&fence) {
        let indent = start - rest[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let body = &rest[start + fence.len()..];
        let end = body.find("```").expect("every block ends");
        let unindented = |line: &str| line.get(indent..).unwrap_or_default().to_string() + "\n";
        let found: String = body[..end].trim_end().lines().map(unindented).collect();
        if found.contains(containing) {
            return found;
        }
        rest = &body[end + 3..];
    }
    panic!("no {kind} block has '{containing}'");
}

#[test]
fn the_policies_of_the_readmes_are_added_by_a_file_and_a_line_each() {
    let engine = engine();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adding");
    let policy = scratch.join("crates/policy");
    let src = engine.join("crates/policy/src");
    copy(
        &engine.join("crates/policy/tests/suite/harness"),
        &policy.join("tests/harness"),
    );
    for beside in ["crates/prefetch", "crates/contract"] {
        copy(&engine.join(beside), &scratch.join(beside));
    }

    let smallest = block(&read(&engine.join("../README.md")), "rust", "\"still\"");
    let readme = read(&engine.join("README.md"));
    let moving = block(&readme, "rust", "\"greedy\"").replace("tiertune_policy::", "crate::");
    let add = |text: &str, before: &str, line: &str| {
        assert_eq!(text.matches(before).count(), 1, "'{before}' in the crate");
        text.replacen(before, &format!("{line}\n{before}"), 1)
    };
    let lib = add(
        &read(&src.join("lib.rs")),
        "pub mod notier;",
        "pub mod greedy;\npub mod still;",
    );
    let registry = add(
        &read(&src.join("registry.rs")),
        "    crate::notier::SYSTEM,",
        "    crate::greedy::SYSTEM,\n    crate::still::SYSTEM,",
    );
    let changed = [
        ("still.rs", format!("//! The smallest policy.\n\n{smallest}")),
        ("greedy.rs", format!("//! One that moves pages.\n\n{moving}")),
        ("lib.rs", lib),
        ("registry.rs", registry),
    ];
    // The folder is made as it is to be in one go, so that what does not change keeps its time.
    let originals = scratch.join("originals");
    copy(&src, &originals);
    for (name, text) in &changed {
        write(&originals.join(name), text);
    }
    copy(&originals, &policy.join("src"));

    let own = read(&engine.join("crates/policy/Cargo.toml"));
    let without_tests = own
        .split("[dev-dependencies]")
        .next()
        .expect("there is a part before it");
    let with_contract = format!("{without_tests}[dev-dependencies]\ntiertune-contract = {{ workspace = true }}\n");
    write(&policy.join("Cargo.toml"), &with_contract);
    let workspace = read(&engine.join("Cargo.toml"));
    let members = workspace
        .lines()
        .find(|line| line.starts_with("members"))
        .expect("it has members");
    let workspace = workspace.replace(
        members,
        "members = [\"crates/prefetch\", \"crates/policy\", \"crates/contract\"]",
    );
    write(&scratch.join("Cargo.toml"), &workspace);
    // The versions of here, which are at hand: nothing is to be fetched.
    fs::copy(engine.join("Cargo.lock"), scratch.join("Cargo.lock")).expect("the target folder can be written");
    write(&policy.join("tests/added.rs"), CHECK);
    write(
        &policy.join("tests/greedy.txt"),
        &block(&readme, "text", "Room for one"),
    );

    let run = Command::new(env!("CARGO"))
        .args(["test", "--quiet", "--offline", "--test", "added"])
        .current_dir(&scratch)
        .env("CARGO_TARGET_DIR", scratch.join("target"))
        // Built once and run for a moment: quick to build is what counts.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    let said = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(run.status.success(), "{}", said.join("\n"));
    assert!(said[0].contains("3 passed"), "{}", said.join("\n"));
}
