//! Settings of the whole host: written down before they are changed, put back whatever happens.
//!
//! The journal is a file of lines, one JSON array `[path, value before]` each, which is on the disk before the setting is
//! touched; a third word says where something else than that value is to be written. Whoever finds one that nobody owns puts
//! the settings back, in reverse order.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::setting::{self, value_of};
use crate::{HostError, group, htmm};

/// How a change is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// By writing this to the file: what it held, or the word that it takes for that.
    Write(String),
    /// By removing the control group.
    Group,
    /// By ending Memtis' sampling.
    Sampling,
}

/// What a file says for the values that it takes, where that is something else.
pub type Words = BTreeMap<String, String>;

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The file of the setting.
    pub path: PathBuf,
    /// What it held.
    pub before: String,
    /// What it was set to; nothing when another run had done so.
    pub after: Option<String>,
    /// How it is taken back.
    pub undo: Undo,
}

impl Changed {
    /// Takes the change back; why that did not work, if so.
    fn take_back(&self) -> Option<String> {
        let word = match &self.undo {
            Undo::Group => return group::remove(&self.path).err(),
            Undo::Sampling => return htmm::end().err(),
            Undo::Write(word) => word,
        };
        match value_of(&self.path) {
            // A file that went away with what it belonged to has nothing to put back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Ok(value) if value == self.before => None,
            _ => {
                let written = setting::write(&self.path, word).map_err(|error| error.to_string());
                let held = value_of(&self.path).unwrap_or_default();
                written
                    .err()
                    .or_else(|| (held != self.before).then(|| format!("it still holds '{held}'")))
            }
        }
    }

    /// Its line of the journal.
    fn line(&self) -> String {
        let mut words = vec![self.path.display().to_string(), self.before.clone()];
        match &self.undo {
            Undo::Group => words.push("group".to_owned()),
            Undo::Sampling => words.push("sampling".to_owned()),
            Undo::Write(word) if *word != self.before => words.extend(["write".to_owned(), word.clone()]),
            Undo::Write(_) => {}
        }
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        format!("[{}]\n", words.join(", "))
    }

    /// What a line says; nothing for one that is none of ours.
    fn of_line(line: &str) -> Option<Self> {
        let mut words = strings(line)?.into_iter();
        let (path, before) = (PathBuf::from(words.next()?), words.next()?);
        let undo = match words.next().as_deref() {
            None => Undo::Write(before.clone()),
            Some("write") => Undo::Write(words.next()?),
            Some("group") => Undo::Group,
            Some("sampling") => Undo::Sampling,
            Some(_) => return None,
        };
        Some(Self {
            path,
            before,
            after: None,
            undo,
        })
    }
}

/// What came of putting a setting back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The file of the setting.
    pub path: PathBuf,
    /// What it holds now.
    pub value: String,
    /// Why it could not be put back.
    pub problem: Option<String>,
}

/// The list of settings that are to be put back.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    changed: Vec<Changed>,
}

/// A journal that sources on several threads write to.
#[derive(Debug, Clone)]
pub struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    /// Shares a journal.
    #[must_use]
    pub fn new(journal: Journal) -> Self {
        Self(Arc::new(Mutex::new(journal)))
    }

    /// The journal itself.
    pub fn get(&self) -> MutexGuard<'_, Journal> {
        // Every change is complete on the disk, whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn quoted(text: &str) -> String {
    let mut result = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => result.extend(['\\', letter]),
            '\n' => result.push_str("\\n"),
            '\t' => result.push_str("\\t"),
            letter => result.push(letter),
        }
    }
    result.push('"');
    result
}

fn strings(line: &str) -> Option<Vec<String>> {
    let (mut found, mut letters) = (Vec::new(), line.chars());
    while let Some(letter) = letters.next() {
        if letter != '"' {
            continue;
        }
        let mut text = String::new();
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => match letters.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    letter => text.push(letter),
                },
                letter => text.push(letter),
            }
        }
        found.push(text);
    }
    Some(found)
}

impl Journal {
    /// The journal in `folder`, with what a run that did not end well has left in it.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open(folder: &Path) -> Result<Self, HostError> {
        let path = folder.join("settings.journal");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(HostError::Unfit(format!(
                    "the journal {} cannot be read: {error}",
                    path.display()
                )));
            }
        };
        // A line that is cut off was never acted upon: the setting is changed after the line is complete on the disk.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Ok(Self {
            changed: whole.lines().filter_map(Changed::of_line).collect(),
            path,
        })
    }

    /// What is to be put back, in the order of the changes.
    #[must_use]
    pub fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// Writes `value` to the setting `path`, after noting what it holds; nothing happens where it holds that already.
    ///
    /// # Errors
    /// When the setting cannot be read, noted, or changed.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), HostError> {
        self.set_as(path, value, &Words::new())
    }

    /// The same for a file that says `words` for some of the values that it takes.
    ///
    /// # Errors
    /// When the setting cannot be read, noted, or changed.
    pub fn set_as(&mut self, path: &Path, value: &str, words: &Words) -> Result<(), HostError> {
        let failed = |what: &str, error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => "; run as root",
                io::ErrorKind::NotFound => "; this kernel does not have it",
                _ => "",
            };
            HostError::Unfit(format!(
                "the setting {} cannot be {what}: {error}{advice}",
                path.display()
            ))
        };
        let before = value_of(path).map_err(|error| failed("read", error))?;
        if before == words.get(value).map_or(value, String::as_str) {
            return Ok(());
        }
        if !self.changed.iter().any(|known| known.path == path) {
            let taken = words.iter().find(|(_, said)| **said == before);
            let undo = Undo::Write(taken.map_or(&before, |(word, _)| word).clone());
            self.note(path, before, undo)?;
        }
        setting::write(path, value).map_err(|error| failed("changed", error))?;
        let held = value_of(path).map_err(|error| failed("read", error))?;
        if let Some(known) = self.changed.iter_mut().find(|known| known.path == path) {
            known.after = Some(held);
        }
        Ok(())
    }

    /// Writes to a setting that cannot be read, so that there is nothing to be put back.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_only(&mut self, path: &Path, value: &str) -> Result<(), HostError> {
        setting::write(path, value)
            .map_err(|error| HostError::Unfit(format!("the setting {} cannot be written: {error}", path.display())))
    }

    /// Makes a control group, which is removed when everything is put back.
    ///
    /// # Errors
    /// When it cannot be noted or made.
    pub fn make_group(&mut self, path: &Path) -> Result<(), HostError> {
        group::check(path)?;
        self.note(path, String::new(), Undo::Group)?;
        fs::create_dir(path).map_err(|error| {
            HostError::Unfit(format!(
                "the control group {} cannot be made: {error}; run as root",
                path.display()
            ))
        })
    }

    /// Has Memtis sample a process, which is ended when everything is put back.
    ///
    /// # Errors
    /// When it cannot be noted or started.
    pub fn start_sampling(&mut self, pid: i32) -> Result<(), HostError> {
        htmm::check()?;
        self.note(Path::new(htmm::FOLDER), String::new(), Undo::Sampling)?;
        htmm::start(pid)
    }

    /// Has it on the disk how a change is taken back, before it is made.
    fn note(&mut self, path: &Path, before: String, undo: Undo) -> Result<(), HostError> {
        let changed = Changed {
            path: path.to_owned(),
            before,
            after: None,
            undo,
        };
        self.append(&changed.line()).map_err(|error| {
            HostError::Unfit(format!(
                "the setting {} is not changed, since {} cannot be written: {error}",
                path.display(),
                self.path.display()
            ))
        })?;
        self.changed.push(changed);
        Ok(())
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        self.sync_folder()
    }

    /// The name of a new file is on the disk only with its folder.
    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        File::open(folder)?.sync_all()
    }

    /// Puts everything back, the last change first; what cannot be put back stays in the journal.
    pub fn restore(&mut self) -> Vec<Restored> {
        let mut result = Vec::new();
        let mut left = Vec::new();
        for changed in std::mem::take(&mut self.changed).into_iter().rev() {
            let problem = changed.take_back();
            result.push(Restored {
                value: match (&changed.undo, &problem) {
                    (Undo::Group, None) => "removed".to_owned(),
                    (Undo::Sampling, None) => "ended".to_owned(),
                    _ => value_of(&changed.path).unwrap_or_default(),
                },
                path: changed.path.clone(),
                problem: problem.clone(),
            });
            if problem.is_some() {
                left.push(changed);
            }
        }
        left.reverse();
        self.changed = left;
        // Where that fails, settings are put back once more, to what they hold.
        let _ = self.keep_what_is_left();
        result
    }

    /// Takes out of the file what is put back, so that nobody writes it again over what a setting was set to since.
    fn keep_what_is_left(&self) -> io::Result<()> {
        if self.changed.is_empty() {
            return fs::remove_file(&self.path);
        }
        let partial = self.path.with_extension("partial");
        let lines: String = self.changed.iter().map(Changed::line).collect();
        let mut file = File::create(&partial)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, &self.path)?;
        self.sync_folder()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("journal-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn setting(&self, name: &str, value: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, value).expect("a file");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn settings_come_back_after_a_run_that_was_killed() {
        let folder = Folder::new("killed");
        let first = folder.setting("first", "1\n");
        let second = folder.setting("second", "always [madvise] never\n");
        let mut journal = Journal::open(&folder.0).expect("a journal");
        journal.set(&first, "2").expect("set");
        journal.set(&second, "never").expect("set");
        journal.set(&first, "3").expect("set");
        assert_eq!(value_of(&first).ok().as_deref(), Some("3"));
        drop(journal); // as kill -9 does

        let mut found = Journal::open(&folder.0).expect("a journal");
        let before: Vec<&str> = found.changed().iter().map(|changed| changed.before.as_str()).collect();
        assert_eq!(before, ["1", "madvise"]);
        let restored = found.restore();
        assert!(
            restored.iter().all(|restored| restored.problem.is_none()),
            "{restored:?}"
        );
        assert_eq!(value_of(&first).ok().as_deref(), Some("1"));
        assert_eq!(value_of(&second).ok().as_deref(), Some("madvise"));
        assert!(Journal::open(&folder.0).expect("a journal").changed().is_empty());
    }

    #[test]
    fn a_line_that_was_cut_off_says_nothing() {
        let folder = Folder::new("cut");
        let setting = folder.setting("setting", "7");
        let lines = format!("[{}, \"5\"]\n[\"/nowhere", quoted(&setting.display().to_string()));
        fs::write(folder.0.join("settings.journal"), lines).expect("a file");
        let mut journal = Journal::open(&folder.0).expect("a journal");
        assert_eq!(journal.changed().len(), 1);
        journal.restore();
        assert_eq!(value_of(&setting).ok().as_deref(), Some("5"));
    }

    #[test]
    fn what_cannot_be_put_back_stays_written_down() {
        let folder = Folder::new("stays");
        let setting = folder.setting("setting", "7");
        let mut journal = Journal::open(&folder.0).expect("a journal");
        journal.set(&setting, "8").expect("set");
        fs::remove_file(&setting).expect("removed");
        fs::create_dir(&setting).expect("a folder where the file was");
        let restored = journal.restore();
        assert!(restored[0].problem.is_some());
        assert_eq!(Journal::open(&folder.0).expect("a journal").changed().len(), 1);
    }

    #[test]
    fn what_is_put_back_is_not_put_back_again() {
        let folder = Folder::new("again");
        let names = ["first", "stuck", "last"];
        let [first, stuck, last] = names.map(|name| folder.setting(name, "7"));
        let mut journal = Journal::open(&folder.0).expect("a journal");
        for setting in [&first, &stuck, &last] {
            journal.set(setting, "8").expect("set");
        }
        fs::remove_file(&stuck).expect("removed");
        fs::create_dir(&stuck).expect("a folder where the file was");
        journal.restore();
        // Somebody has another mind meanwhile.
        fs::write(&first, "9").expect("a file");
        journal.set(&last, "10").expect("set");
        drop(journal); // as kill -9 does

        let mut found = Journal::open(&folder.0).expect("a journal");
        let left: Vec<&PathBuf> = found.changed().iter().map(|changed| &changed.path).collect();
        assert_eq!(left, [&stuck, &last]);
        found.restore();
        let held = [&first, &last].map(|setting| value_of(setting).expect("a value"));
        assert_eq!(held, ["9", "7"]);
        assert_eq!(Journal::open(&folder.0).expect("a journal").changed().len(), 1);
    }

    #[test]
    fn nothing_is_changed_that_cannot_be_written_down() {
        let folder = Folder::new("unwritten");
        let setting = folder.setting("setting", "7");
        let mut journal = Journal::open(&folder.0).expect("a journal");
        fs::create_dir(folder.0.join("settings.journal")).expect("a folder where the file would be");
        let problem = journal
            .set(&setting, "8")
            .expect_err("it cannot be written")
            .to_string();
        assert!(problem.contains("is not changed"), "{problem}");
        assert_eq!(value_of(&setting).ok().as_deref(), Some("7"));
    }

    #[test]
    fn a_setting_that_holds_the_value_is_left_alone() {
        let folder = Folder::new("same");
        let setting = folder.setting("setting", "off\n");
        let mut journal = Journal::open(&folder.0).expect("a journal");
        journal.set(&setting, "off").expect("set");
        assert!(journal.changed().is_empty() && !folder.0.join("settings.journal").exists());
    }

    #[test]
    fn a_file_that_says_another_word_is_put_back_by_the_one_it_takes() {
        let folder = Folder::new("words");
        let setting = folder.setting("mode", "NONE-0, [BASE-1], SPLIT-2\n");
        let words = Words::from([("1", "BASE-1"), ("2", "SPLIT-2")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        let mut journal = Journal::open(&folder.0).expect("a journal");
        journal.set_as(&setting, "1", &words).expect("it holds that");
        assert!(journal.changed().is_empty());
        journal.set_as(&setting, "2", &words).expect("set");
        drop(journal); // as kill -9 does

        let mut found = Journal::open(&folder.0).expect("a journal");
        assert_eq!(
            (found.changed()[0].before.as_str(), &found.changed()[0].undo),
            ("BASE-1", &Undo::Write("1".to_owned()))
        );
        // This file keeps what is written, and does not translate it as the kernel does.
        assert_eq!(found.restore()[0].problem.as_deref(), Some("it still holds '1'"));
        fs::write(&setting, "NONE-0, [BASE-1], SPLIT-2\n").expect("a file");
        assert_eq!(found.restore()[0].problem, None);
    }

    #[test]
    fn groups_and_sampling_of_a_run_that_was_killed_are_known() {
        let folder = Folder::new("kinds");
        let group = folder.0.join("group");
        fs::create_dir(&group).expect("a folder");
        let lines = format!(
            "[{}, \"\", \"group\"]\n[\"{}\", \"\", \"sampling\"]\n",
            quoted(&group.display().to_string()),
            htmm::FOLDER
        );
        fs::write(folder.0.join("settings.journal"), lines).expect("a file");
        let mut journal = Journal::open(&folder.0).expect("a journal");
        let kinds: Vec<&Undo> = journal.changed().iter().map(|changed| &changed.undo).collect();
        assert_eq!(kinds, [&Undo::Group, &Undo::Sampling]);
        let restored = journal.restore();
        assert!(
            restored.iter().all(|restored| restored.problem.is_none()),
            "{restored:?}"
        );
        let values: Vec<&str> = restored.iter().map(|restored| restored.value.as_str()).collect();
        assert_eq!(values, ["ended", "removed"]);
        assert!(!group.exists() && Journal::open(&folder.0).expect("a journal").changed().is_empty());
    }
}
