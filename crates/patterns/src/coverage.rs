//! Which frames are done: by parts, however the work was cut, and by the final file.
//!
//! A part covers a frame if its checksum holds, the frame is settled in it, and the raw data was
//! known by the same stamp as now: a file that was touched since makes its own frames stale, and no
//! others. What was lost on the way (a file that had vanished, bytes that did not decode) is not
//! covered, so that a rerun tries again. A copied final covers in the same way, row by row, each with
//! a checksum of its own; for a virtual final its parts answer.

mod output_coverage;
mod part_listing;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use owners::{FileRelation, OutputOwner};
use records::{Spans, Task};

use crate::output;
use crate::part;
use crate::source_fingerprint::SourceFingerprints;
use output_coverage::OutputCoverage;
use part_listing::PartListing;

/// What is done of a task's frames.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The parts that cover some of the task's frames, and which.
    pub parts: Vec<(PathBuf, Spans)>,
    /// The task's frames that the final covers and no part does.
    pub in_output: Spans,
    /// Files that can't be used, such as damaged parts, and why: worth a warning.
    pub unusable: Vec<String>,
}

impl Coverage {
    /// The task's frames that are done, rising.
    pub fn covered_frames(&self) -> Spans {
        let all = self.parts.iter().map(|(_, frames)| frames).chain([&self.in_output]);
        all.flat_map(|frames| frames.as_slice().iter().copied()).collect::<Spans>().to_sorted()
    }
}

/// Looks for the task's frames among the parts of its scan and recipe below `out_root`, then in the final, as
/// [`CoverageIndex::find_coverage`] of an index that is new.
pub fn find_coverage(out_root: &Path, task: &Task) -> Coverage {
    CoverageIndex::default().find_coverage(out_root, task)
}

/// How many scans and recipes an index remembers: more than engines of one process work on at a time, and few enough to
/// keep each one's final open.
const MAX_CACHED_SCANS: usize = 64;

/// Answers which frames are done, for all tasks of a run: the parts of a scan and recipe are listed once, and their final
/// is opened once.
///
/// What this run writes is to be told by [`CoverageIndex::add`]. What others write meanwhile is noticed where it has the frames of
/// the task that is asked for, or is a new final; other parts of theirs are overlooked, so that work may be done
/// twice, but never missed.
#[derive(Default)]
pub struct CoverageIndex(Mutex<Vec<ScanCoverage>>);

/// What is known of one directory of parts, and of the final of their scan and recipe.
struct ScanCoverage {
    directory: PathBuf,
    listing: PartListing,
    finished: OutputCoverage,
    /// Whose results there are; `None` inside where there are none.
    owner: Option<Option<OutputOwner>>,
}

impl CoverageIndex {
    /// Looks for the task's frames among the parts of its scan and recipe below `out_root`, then in the final. Parts that
    /// have none of them are not opened.
    pub fn find_coverage(&self, out_root: &Path, task: &Task) -> Coverage {
        let wanted: Vec<u64> = task.range.to_sorted().iter().collect();
        let mut coverage = Coverage::default();
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return coverage };
        let Some(directory) = parts_dir(out_root, &task.scan, &task.recipe_digest) else { return coverage };
        let stamps = SourceFingerprints::new(&task.acquisition);
        let listed =
            self.with_scan(&directory, &mut coverage.unusable, |known| known.listing.parts_between(first, last));
        add_parts_coverage(&listed, task, &wanted, &stamps, &mut coverage);
        let same_name = out_root.join(Task::part_path(&task.scan, &task.recipe_digest, &task.range).as_path());
        if !listed.contains(&same_name) && coverage.covered_frames().count() < wanted.len() as u64 && same_name.exists()
        {
            self.add(&same_name);
            add_parts_coverage(&[same_name], task, &wanted, &stamps, &mut coverage);
        }
        // After the parts, for a final is in its place before its parts go.
        let left: Vec<u64> = task.range.difference(&coverage.covered_frames()).iter().collect();
        if !left.is_empty() && task.final_file.is_contained() {
            let path = out_root.join(task.final_file.as_path());
            let mut unread = Vec::new();
            match self
                .with_scan(&directory, &mut unread, |known| known.finished.covered_frames(&path, task, &stamps, &left))
            {
                Ok(frames) => coverage.in_output = frames,
                Err(output::OutputError::Io { why, .. }) if why.kind() == std::io::ErrorKind::NotFound => (),
                Err(error) => coverage.unusable.push(error.to_string()),
            }
            coverage.unusable.extend(unread);
        }
        coverage
    }

    /// Checks that what lies where the task's results are to go was made of the task's own file, by its scan and recipe.
    ///
    /// # Errors
    /// Whose results lie there, and what to do; what could not be looked at.
    pub fn check_owner(&self, out_root: &Path, task: &Task) -> Result<(), OwnerError> {
        let Some(directory) = parts_dir(out_root, &task.scan, &task.recipe_digest) else { return Ok(()) };
        let final_file = out_root.join(task.final_file.as_path());
        let of_task = OutputOwner::from_task(task);
        let owner = self.with_scan(&directory, &mut Vec::new(), |known| match &known.owner {
            Some(owner) => Ok(owner.clone()),
            None => {
                let noted = OutputOwner::read(out_root, &task.final_file).map_err(unreadable_error)?;
                let is_there = final_file
                    .try_exists()
                    .map_err(|why| OwnerError::Unreadable(format!("{}: {why}", final_file.display())))?;
                let noted = noted.filter(|_| is_there);
                let owner = noted.map_or_else(|| read_owner(&directory, &final_file), |owner| Ok(Some(owner)))?;
                Ok::<_, OwnerError>(known.owner.insert(owner).clone())
            }
        })?;
        let Some(owner) = owner else { return Ok(()) };
        let about = final_file.display();
        let relation = owners::compare_files(&owner.file, &of_task.file).map_err(unreadable_error)?;
        if owner.recipe_digest != of_task.recipe_digest {
            return Err(OwnerError::Other(format!(
                "{about}: the result of another recipe: plan-split --replace has this one take its place, --recipe-name \
                 keeps both"
            )));
        }
        match relation {
            FileRelation::SameFile if owner.is_same_result(&of_task) || owner.is_same_dataset(&of_task) => Ok(()),
            FileRelation::Moved if owner.is_same_result(&of_task) => Ok(()),
            FileRelation::SameFile | FileRelation::Moved | FileRelation::DifferentFiles => {
                Err(OwnerError::Other(format!(
                    "{about}: the result of {}, which is another file: give their results different --out",
                    owner.file.display()
                )))
            }
        }
    }

    /// Adds a part that this run has written.
    pub fn add(&self, part: &Path) {
        let mut known = self.lock();
        if let Some(known) = known.iter_mut().find(|known| part.parent() == Some(&known.directory)) {
            // Who can't read it now will be told when its frames are asked for.
            known.listing.add(part, &mut Vec::new());
        }
    }

    /// Has `ask` look at what is known of a directory, which is listed where nothing is known. Files that can't be read are
    /// described in `unusable`.
    fn with_scan<T>(
        &self,
        directory: &Path,
        unusable: &mut Vec<String>,
        ask: impl FnOnce(&mut ScanCoverage) -> T,
    ) -> T {
        let mut all = self.lock();
        let known = match all.iter().position(|known| known.directory == directory) {
            Some(place) => all.remove(place),
            None => {
                let listing = PartListing::read(directory, unusable);
                ScanCoverage {
                    directory: directory.to_owned(),
                    listing,
                    finished: OutputCoverage::default(),
                    owner: None,
                }
            }
        };
        if all.len() == MAX_CACHED_SCANS {
            // The one that was not asked for the longest time.
            all.remove(0);
        }
        all.push(known);
        ask(all.last_mut().expect("one was just added"))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ScanCoverage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why results can't go where a task wants them.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// It could not be looked at what lies there.
    #[error("{0}")]
    Unreadable(String),
    /// The results of another file or recipe lie there.
    #[error("{0}")]
    Other(String),
}

fn unreadable_error(why: io::Error) -> OwnerError {
    OwnerError::Unreadable(why.to_string())
}

/// Whose the parts of a directory are, or else the final of these.
///
/// # Errors
/// A directory, part or final that could not be looked at.
fn read_owner(directory: &Path, final_file: &Path) -> Result<Option<OutputOwner>, OwnerError> {
    let parts = match part::list_files(directory) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        parts => parts.map_err(|why| OwnerError::Unreadable(format!("{}: {why}", directory.display())))?,
    };
    let mut of_parts = None;
    for path in &parts {
        match part::read_task(path) {
            Ok(task) => {
                of_parts = Some(task);
                break;
            }
            Err(why) if why.is_io_failure() => return Err(OwnerError::Unreadable(why.to_string())),
            // A damaged part says nothing of whose it is, and one that has gone is nobody's.
            Err(_) => (),
        }
    }
    let task = match of_parts {
        Some(task) => Some(task),
        None => match output::OutputFile::open(final_file) {
            Ok(there) => Some(there.task),
            Err(output::OutputError::Io { why, .. }) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why @ output::OutputError::Io { .. }) => return Err(OwnerError::Unreadable(why.to_string())),
            // A damaged final is set aside when another takes its place.
            Err(_) => None,
        },
    };
    Ok(task.as_ref().map(OutputOwner::from_task))
}

/// The directory of the parts of a scan and a recipe.
pub fn parts_dir(out_root: &Path, scan: &str, recipe_digest: &str) -> Option<PathBuf> {
    let path = Task::part_path(scan, recipe_digest, &Spans::default());
    path.is_contained().then(|| out_root.join(path.parent().unwrap_or(Path::new(""))))
}

/// Lists the files that may be parts of a scan and a recipe, in the order of their names.
///
/// # Errors
/// Their directory can't be read.
pub fn list_parts(out_root: &Path, scan: &str, recipe_digest: &str) -> io::Result<Vec<PathBuf>> {
    parts_dir(out_root, scan, recipe_digest).map_or(Ok(Vec::new()), |directory| part::list_files(&directory))
}

/// Adds what these parts cover of the task.
fn add_parts_coverage(
    paths: &[PathBuf],
    task: &Task,
    wanted: &[u64],
    stamps: &SourceFingerprints,
    coverage: &mut Coverage,
) {
    for path in paths {
        match frames_covered_by_part(path, task, wanted, stamps) {
            Ok(covered) if covered.is_empty() => (),
            Ok(covered) => coverage.parts.push((path.clone(), covered)),
            // Gather may have taken it in and removed it since it was listed.
            Err(error) if error.was_removed() => (),
            Err(error) => coverage.unusable.push(error.to_string()),
        }
    }
}

/// Returns which of the wanted frames a part covers. Its checksum is verified.
fn frames_covered_by_part(
    path: &Path,
    task: &Task,
    wanted: &[u64],
    stamps: &SourceFingerprints,
) -> Result<Spans, part::PartError> {
    let (head, mut rest) = part::open_part(path)?;
    if head.scan != task.scan || head.recipe != task.recipe_digest {
        return Err(part::PartError::content(path, "damaged: its first line is about another scan or recipe"));
    }
    if head.count == 0 {
        return Ok(Spans::default());
    }
    let place = |frame: u64| wanted.partition_point(|wanted| *wanted < frame);
    let meant = &wanted[place(head.first)..place(head.last.saturating_add(1))];
    if meant.is_empty() {
        return Ok(Spans::default());
    }
    // Equal digests say that it has all these frames and no others, each settled and of the same raw data: there is no
    // need to open it as HDF5.
    if head.sources.is_some_and(|sources| sources == stamps.digest(meant)) {
        return rest.verify().map(|()| meant.iter().copied().collect());
    }
    let part = part::read_part(path)?;
    let then = SourceFingerprints::new(&part.metadata.task.acquisition);
    let settled = part.frames.iter().zip(&part.status).filter(|(_, status)| status.is_final());
    let same = |frame: &u64| wanted.binary_search(frame).is_ok() && then.get(*frame) == stamps.get(*frame);
    Ok(settled.map(|(frame, _)| *frame).filter(same).collect())
}
