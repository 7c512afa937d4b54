//! Masters of scans that are not complete: which files decide what such a master says, and whether they have changed since.
//!
//! A search that follows looks again and again at scans that are running, or were killed. Where nothing has changed, the
//! master need not be opened.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use frames::discover::{Discovery, DiscoveryKind};
use system::untrusted_file::FileVersion;

use crate::stability::is_recent;

/// The size and modification time of a file or directory; `None` if there is none.
pub type Stamp = Option<(u64, i64)>;

/// The unfinished masters that were read.
#[derive(Default)]
pub struct UnfinishedMasters(HashMap<PathBuf, Dependencies>);

/// The files on which the last visit of a master depended.
struct Dependencies {
    paths: BTreeSet<PathBuf>,
    /// Stamps of the paths from before that visit. `None` if they were not known then: a file may have changed while it
    /// was read, so stamps from after the visit say nothing.
    stamps: Option<Vec<Stamp>>,
}

/// The stamps of the files on which a master depended, taken before it is visited again.
pub struct StampsBefore(Option<Vec<Stamp>>);

impl UnfinishedMasters {
    /// Returns whether a visit of the master would find what the last one found.
    pub fn is_unchanged(&self, master: &Path) -> bool {
        self.0.get(master).is_some_and(|known| known.stamps.as_ref() == Some(&read_stamps(&known.paths)))
    }

    /// Takes the stamps of what the last visit of the master depended on. Call it before the next visit.
    pub fn stamp(&self, master: &Path) -> StampsBefore {
        StampsBefore(self.0.get(master).map(|known| read_stamps(&known.paths)))
    }

    /// Remembers what a visit of the master depended on: the files of its discoveries and their directories, where new
    /// files may appear.
    pub fn remember(&mut self, master: &Path, files: BTreeSet<PathBuf>, before: StampsBefore) {
        let mut paths: BTreeSet<PathBuf> = files.iter().filter_map(|file| nearest_directory(file)).collect();
        paths.extend(files);
        paths.insert(master.to_owned());
        let is_same = self.0.get(master).is_some_and(|known| known.paths == paths);
        // What has just changed may change again with the same time.
        let is_old = |stamps: &Vec<Stamp>| !stamps.iter().flatten().any(|(_, mtime)| is_recent(*mtime));
        let stamps = before.0.filter(|_| is_same).filter(is_old);
        self.0.insert(master.to_owned(), Dependencies { paths, stamps });
    }

    /// Makes the next look visit the master.
    pub fn forget(&mut self, master: &Path) {
        self.0.remove(master);
    }
}

fn read_stamps(paths: &BTreeSet<PathBuf>) -> Vec<Stamp> {
    paths.iter().map(|path| size_and_mtime(path)).collect()
}

/// Returns the size and modification time of a file or directory.
pub fn size_and_mtime(path: &Path) -> Stamp {
    path.metadata().ok().map(|metadata| FileVersion::new(&metadata).size_and_mtime())
}

/// Returns the nearest directory above a file that exists: it changes when the file, or what is missing above it, appears.
fn nearest_directory(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).find(|directory| directory.is_dir()).map(Path::to_owned)
}

/// Returns whether files alone decide what was found: not whether their storage answered, or their writer has flushed them.
pub fn depends_on_files_alone(found: &Discovery) -> bool {
    match &found.kind {
        DiscoveryKind::Scan(scan) => !scan.absent.iter().any(|absent| absent.kind == records::AbsentKind::Unreadable),
        DiscoveryKind::Excluded { .. } | DiscoveryKind::NoDetectors { .. } => true,
        DiscoveryKind::NoFrames(_) => false,
        DiscoveryKind::Failed { retryable, unreadable, .. } => !retryable && !unreadable,
    }
}

/// Returns the files on which a discovery depends.
pub fn files_of(found: &Discovery) -> impl Iterator<Item = PathBuf> {
    let sources = match &found.kind {
        DiscoveryKind::Scan(scan) => scan.sources.iter().map(|source| source.file.to_path_buf()).collect(),
        _ => Vec::new(),
    };
    found.files.iter().cloned().chain(sources)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;

    fn age(path: &Path, seconds: u64) {
        File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn a_master_is_visited_until_two_visits_have_seen_the_same_files() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("data")).unwrap();
        for name in ["master", "data/0", "data"] {
            if name != "data" {
                fs::write(path(name), "x").unwrap();
            }
            age(&path(name), 60);
        }
        age(place.path(), 60);
        let files = || BTreeSet::from([path("data/0"), path("missing/1")]);
        let mut masters = UnfinishedMasters::default();
        let master = path("master");
        let visit = |masters: &mut UnfinishedMasters| {
            let before = masters.stamp(&master);
            masters.remember(&master, files(), before);
        };
        visit(&mut masters);
        assert!(!masters.is_unchanged(&master), "its files were not known before the visit");
        visit(&mut masters);
        assert!(masters.is_unchanged(&master));
        // A file that is written, one that appears beside it, one in a directory that was missing, the master itself.
        let changes: [&dyn Fn(); 4] = [
            &|| age(&path("data/0"), 50),
            &|| fs::write(path("data/1"), "y").unwrap(),
            &|| fs::create_dir(path("missing")).unwrap(),
            &|| age(&master, 50),
        ];
        for change in changes {
            change();
            assert!(!masters.is_unchanged(&master));
            // Changed a moment ago, a directory may change again with the same time.
            [path("data"), place.path().to_owned()].iter().for_each(|directory| age(directory, 40));
            if path("missing").exists() {
                age(&path("missing"), 40);
            }
            visit(&mut masters);
            visit(&mut masters);
            assert!(masters.is_unchanged(&master));
        }
        masters.forget(&master);
        assert!(!masters.is_unchanged(&master));
    }
}
