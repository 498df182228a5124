//! Replays `engine/testdata/SYSTEM/*.txt` and compares; `UPDATE_GOLDEN=1` rewrites them instead,
//! and the diff is what there is to review. `tiertune_contract::script` says what a script may contain.

use std::path::{Path, PathBuf};

use tiertune_policy::registry;

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths
}

#[test]
fn scripts_give_the_recorded_decisions() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    let mut scripts = 0;
    for folder in entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")) {
        let system = folder
            .file_name()
            .and_then(|name| name.to_str())
            .expect("folders are named after systems");
        registry::find(system).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries(&folder) {
            scripts += 1;
            println!("{}", path.display());
            let script = std::fs::read_to_string(&path).expect("scripts are text");
            let replayed = crate::harness::script::replay(system, &script);
            if replayed == script {
                continue;
            }
            if update {
                std::fs::write(&path, &replayed).expect("the source tree can be written for an update");
            } else {
                different.push(first_difference(&path, &script, &replayed));
            }
        }
    }
    assert!(scripts > 0, "there are no scripts");
    assert!(
        different.is_empty(),
        "{}\nUPDATE_GOLDEN=1 rewrites the scripts",
        different.join("\n")
    );
}

fn first_difference(path: &Path, script: &str, replayed: &str) -> String {
    let lines = |text: &str| {
        text.lines()
            .map(String::from)
            .chain([String::from("(end)")])
            .collect::<Vec<_>>()
    };
    let (script, replayed) = (lines(script), lines(replayed));
    let at = script
        .iter()
        .zip(&replayed)
        .position(|(old, new)| old != new)
        .unwrap_or(0);
    format!(
        "{}:{}\n  recorded: {}\n  now:      {}",
        path.display(),
        at + 1,
        script[at],
        replayed[at]
    )
}
