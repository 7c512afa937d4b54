//! Coverage: which frames of a task have a result already, in parts or in the final file.
//!
//! A part covers a frame if the part's checksum is right, the frame's
//! [status](crate::Status::is_settled) is settled, and the frame's source has the same fingerprint
//! (path, size, modification time, row) as in the task. A source file that was changed makes its
//! own frames stale, and no others; so does a monitor that was corrected. A pattern of a file that is
//! away now covers its frame. Frames whose file had vanished or whose bytes did not decode are not
//! covered, so a rerun tries again. A final file that holds its patterns covers frames by
//! the same rules, row by row, each row with a separate checksum. A virtual final file covers
//! nothing that its parts do not cover.
//!
//! # Example
//! ```no_run
//! use std::path::Path;
//!
//! # fn missing(task: &records::Task) -> records::Spans {
//! let coverage = patterns::coverage::find_coverage(Path::new("PROCESSED"), task, None);
//! let frames_to_integrate = task.range.difference(&coverage.covered_frames());
//! # frames_to_integrate
//! # }
//! ```

mod claimed_frames;
mod input_state;
mod output_coverage;
mod part_listing;
mod unusable_file;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use output_owners::{FileRelation, OutputOwner};
use records::{Spans, Task};

pub use claimed_frames::{ClaimedFrames, find_claimed_frames, spans_between};
pub use unusable_file::UnusableFile;

use crate::output;
use crate::part;
use crate::source_fingerprint::SourceFingerprints;
use crate::{MonitorValues, Status};
use input_state::InputState;
use output_coverage::OutputCoverage;
use part_listing::PartListing;

/// Frames of a task that have a result.
#[derive(Debug, Default)]
pub struct Coverage {
    /// Parts that cover some of the task's frames, each with the frames that it covers.
    pub parts: Vec<(PathBuf, CoveredFrames)>,
    /// Frames of the task that the final file covers and no part does.
    pub in_output: CoveredFrames,
    /// Files that can't be used, such as damaged parts.
    pub unusable: Vec<UnusableFile>,
}

/// The frames that a file covers. Integrating them again would give the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoveredFrames {
    /// All covered frames, in ascending order.
    pub all: Spans,
    /// Covered frames without a pattern, such as frames without a monitor, by their status.
    pub without_pattern: BTreeMap<Status, Spans>,
}

impl CoveredFrames {
    /// Returns covered frames that all have a pattern.
    fn with_patterns(all: Spans) -> Self {
        Self { all, without_pattern: BTreeMap::new() }
    }
}

impl FromIterator<(u64, Status)> for CoveredFrames {
    fn from_iter<I: IntoIterator<Item = (u64, Status)>>(frames: I) -> Self {
        let mut covered = Self::default();
        for (frame, status) in frames {
            covered.all.push(frame);
            if status != Status::Ok {
                covered.without_pattern.entry(status).or_default().push(frame);
            }
        }
        covered
    }
}

impl Coverage {
    /// Returns the covered frames of the task, in ascending order.
    pub fn covered_frames(&self) -> Spans {
        union(self.files().map(|covered| &covered.all))
    }

    /// Returns the frames that are done and have no pattern in any file, by their status. Each has
    /// one status.
    pub fn without_pattern(&self) -> BTreeMap<Status, Spans> {
        let mut found: BTreeMap<Status, Spans> = BTreeMap::new();
        for (status, frames) in self.files().flat_map(|covered| &covered.without_pattern) {
            let known = found.entry(*status).or_default();
            *known = union([&*known, frames]);
        }
        if found.is_empty() {
            return found;
        }
        let lacking = |covered: &CoveredFrames| union(covered.without_pattern.values());
        let patterns: Vec<Spans> =
            self.files().map(|covered| covered.all.difference(&lacking(covered))).collect();
        let mut reported = union(&patterns);
        for frames in found.values_mut() {
            *frames = frames.difference(&reported);
            reported = union([&reported, frames]);
        }
        found.retain(|_, frames| !frames.is_empty());
        found
    }

    fn files(&self) -> impl Iterator<Item = &CoveredFrames> {
        self.parts.iter().map(|(_, covered)| covered).chain([&self.in_output])
    }
}

fn union<'a>(all: impl IntoIterator<Item = &'a Spans>) -> Spans {
    all.into_iter()
        .flat_map(|frames| frames.as_slice().iter().copied())
        .collect::<Spans>()
        .to_sorted()
}

/// Searches the parts of the task's scan and recipe below `out_root`, then the final file, for the
/// task's frames. For several tasks, [`CoverageIndex::find_coverage`] is faster.
///
/// `monitors` is the monitor as it is now; `None` if the recipe has none, or if it can't be read: an
/// earlier reading then counts as good.
pub fn find_coverage(out_root: &Path, task: &Task, monitors: Option<&MonitorValues>) -> Coverage {
    CoverageIndex::default().find_coverage(out_root, task, monitors)
}

/// Number of scans and recipes that an index remembers: more than one process works on at a time,
/// and few enough to keep all their final files open.
const MAX_CACHED_SCANS: usize = 64;

/// Finds the covered frames of all tasks of a run. The parts of each scan and recipe are listed
/// once, and their final file is opened once.
///
/// The parts that this run writes are added with [`CoverageIndex::add`]. Of the files that other
/// runs write meanwhile, the index notices a part that has the same name as the task's own, and a
/// new final file. It overlooks all other parts: a frame may then be integrated twice, but none is
/// skipped by mistake.
#[derive(Default)]
pub struct CoverageIndex(Mutex<Vec<ScanCoverage>>);

/// Listing of one directory of parts, and the final file of the same scan and recipe.
struct ScanCoverage {
    directory: PathBuf,
    listing: PartListing,
    output: OutputCoverage,
    /// Owner of the results in the directory, once it was looked up; the inner `None` means that
    /// there are no results.
    owner: Option<Option<OutputOwner>>,
    /// Files that could not be read when the directory was listed, until
    /// [`CoverageIndex::find_coverage`] returns them.
    unreported: Vec<UnusableFile>,
}

impl CoverageIndex {
    /// Searches the parts of the task's scan and recipe below `out_root`, then the final file, for
    /// the task's frames. Parts without any of these frames are not opened. See [`find_coverage`].
    pub fn find_coverage(
        &self,
        out_root: &Path,
        task: &Task,
        monitors: Option<&MonitorValues>,
    ) -> Coverage {
        self.find(out_root, task, monitors, false)
    }

    /// Searches as [`CoverageIndex::find_coverage`] does, for frames that have their sparse pixels
    /// beside their pattern, or have no pattern.
    pub fn find_sparse_coverage(
        &self,
        out_root: &Path,
        task: &Task,
        monitors: Option<&MonitorValues>,
    ) -> Coverage {
        self.find(out_root, task, monitors, true)
    }

    /// Returns whether a part of some of these frames, and of no others, may have sparse pixels,
    /// such as a part whose frames are to be integrated again. True if such a part can't be read.
    pub fn may_have_sparse_parts(&self, out_root: &Path, task: &Task, frames: &Spans) -> bool {
        let frames = frames.to_sorted();
        let (Some(first), Some(last)) = (frames.iter().next(), frames.iter().last()) else {
            return false;
        };
        let Some(directory) = part::parts_dir(out_root, &task.scan, &task.recipe_digest) else {
            return false;
        };
        let listed = self.with_scan(&directory, |known| known.listing.parts_between(first, last));
        let same_name =
            out_root.join(Task::part_path(&task.scan, &task.recipe_digest, &frames).as_path());
        listed.iter().chain([&same_name]).any(|path| {
            part::has_sparse_pixels(path, &frames)
                // Damaged pixels are of no use, and a part that is not there has none.
                .unwrap_or_else(|why| why.is_io_failure())
        })
    }

    fn find(
        &self,
        out_root: &Path,
        task: &Task,
        monitors: Option<&MonitorValues>,
        needs_sparse: bool,
    ) -> Coverage {
        let wanted: Vec<u64> = task.range.to_sorted().iter().collect();
        let mut coverage = Coverage::default();
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return coverage };
        let Some(directory) = part::parts_dir(out_root, &task.scan, &task.recipe_digest) else {
            return coverage;
        };
        let state = InputState {
            sources: SourceFingerprints::new(&task.acquisition),
            directory: task.acquisition.file.parent().unwrap_or(Path::new("/")),
            is_gone_outdated: task.acquisition.start_time.is_none(),
            monitors: monitors.filter(|monitors| monitors.has_monitor()),
            needs_sparse,
        };
        let listed = self.with_scan(&directory, |known| {
            coverage.unusable.append(&mut known.unreported);
            known.listing.parts_between(first, last)
        });
        add_parts_coverage(&listed, task, &wanted, &state, &mut coverage);
        let same_name =
            out_root.join(Task::part_path(&task.scan, &task.recipe_digest, &task.range).as_path());
        // A part whose existence can't be determined is opened, which reports the error.
        let may_be_there = || same_name.try_exists().unwrap_or(true);
        if !listed.contains(&same_name)
            && coverage.covered_frames().count() < wanted.len() as u64
            && may_be_there()
        {
            self.add(&same_name);
            add_parts_coverage(&[same_name], task, &wanted, &state, &mut coverage);
        }
        // The final file is searched after the parts: gather removes parts only once the final file
        // is in place.
        let left: Vec<u64> = task.range.difference(&coverage.covered_frames()).iter().collect();
        if !left.is_empty() && task.final_file.is_contained() {
            let path = out_root.join(task.final_file.as_path());
            match self.with_scan(&directory, |known| {
                known.output.covered_frames(&path, task, &state, &left)
            }) {
                Ok(covered) => coverage.in_output = covered,
                Err(error) if error.is_not_found() => (),
                Err(error) => coverage.unusable.push(error.into()),
            }
        }
        coverage
    }

    /// Checks that the existing results at the places of the task's part and final file belong to
    /// the same scan, recipe and file.
    ///
    /// # Errors
    /// Fails if the results belong to another file or recipe, or if a file or directory can't be
    /// read.
    pub fn check_owner(&self, out_root: &Path, task: &Task) -> Result<(), OwnerError> {
        let Some(directory) = part::parts_dir(out_root, &task.scan, &task.recipe_digest) else {
            return Ok(());
        };
        let final_file = out_root.join(task.final_file.as_path());
        let of_task = OutputOwner::from_task(task);
        let owner = self.with_scan(&directory, |known| match &known.owner {
            Some(owner) => Ok(owner.clone()),
            None => {
                let noted =
                    OutputOwner::read(out_root, &task.final_file).map_err(unreadable_error)?;
                let is_there = final_file.try_exists().map_err(|why| {
                    OwnerError::Unreadable(format!("{}: {why}", final_file.display()))
                })?;
                let noted = noted.filter(|_| is_there);
                let owner = noted
                    .map_or_else(|| read_owner(&directory, &final_file), |owner| Ok(Some(owner)))?;
                Ok::<_, OwnerError>(known.owner.insert(owner).clone())
            }
        })?;
        let Some(owner) = owner else { return Ok(()) };
        let about = final_file.display();
        let relation =
            output_owners::compare_files(&owner.file, &of_task.file).map_err(unreadable_error)?;
        if owner.recipe_digest != of_task.recipe_digest {
            return Err(OwnerError::Other(format!(
                "{about}: the result of another recipe; run plan-split with --replace to replace it, or with --recipe-name to \
                 keep both"
            )));
        }
        match relation {
            FileRelation::SameFile
                if owner.is_same_result(&of_task) || owner.is_same_dataset(&of_task) =>
            {
                Ok(())
            }
            FileRelation::Moved if owner.is_same_result(&of_task) => Ok(()),
            FileRelation::SameFile | FileRelation::Moved | FileRelation::DifferentFiles => {
                Err(OwnerError::Other(format!(
                    "{about}: the result of {}, which is another file; give each of them an --out of its own",
                    owner.file.display()
                )))
            }
        }
    }

    /// Adds a part that this run has written, so that later tasks find it.
    pub fn add(&self, part: &Path) {
        let mut known = self.lock();
        if let Some(known) = known.iter_mut().find(|known| part.parent() == Some(&known.directory))
        {
            // A failure to read the part is reported when one of its frames is looked for.
            known.listing.add(part, &mut Vec::new());
        }
    }

    /// Calls `ask` with the entry of a directory, which is listed first if it is unknown.
    fn with_scan<T>(&self, directory: &Path, ask: impl FnOnce(&mut ScanCoverage) -> T) -> T {
        let mut all = self.lock();
        let known = match all.iter().position(|known| known.directory == directory) {
            Some(place) => all.remove(place),
            None => {
                let mut unreported = Vec::new();
                let listing = PartListing::read(directory, &mut unreported);
                let (directory, output) = (directory.to_owned(), OutputCoverage::default());
                ScanCoverage { directory, listing, output, owner: None, unreported }
            }
        };
        if all.len() == MAX_CACHED_SCANS {
            // The first entry is the least recently used one.
            all.remove(0);
        }
        all.push(known);
        ask(all.last_mut().expect("one was just added"))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ScanCoverage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reason why a task's results can't be written to their place.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// The existing files at that place can't be read, so their owner is unknown.
    #[error("{0}")]
    Unreadable(String),
    /// The place holds the results of another file or recipe.
    #[error("{0}")]
    Other(String),
}

fn unreadable_error(why: io::Error) -> OwnerError {
    OwnerError::Unreadable(why.to_string())
}

/// Returns the owner of the parts in a directory, or of the final file if there are no readable
/// parts.
///
/// # Errors
/// Fails if the directory, a part or the final file can't be read.
fn read_owner(directory: &Path, final_file: &Path) -> Result<Option<OutputOwner>, OwnerError> {
    let parts = match part::list_files(directory) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        parts => parts
            .map_err(|why| OwnerError::Unreadable(format!("{}: {why}", directory.display())))?,
    };
    let mut of_parts = None;
    for path in &parts {
        match part::read_task(path) {
            Ok(task) => {
                of_parts = Some(task);
                break;
            }
            Err(why) if why.is_io_failure() => return Err(OwnerError::Unreadable(why.to_string())),
            // A damaged part does not tell its owner, and a part that has vanished has none.
            Err(_) => (),
        }
    }
    let task = match of_parts {
        Some(task) => Some(task),
        None => match output::OutputFile::open(final_file) {
            Ok(there) => Some(there.task),
            Err(error) if error.is_not_found() => None,
            Err(why @ output::OutputError::Io { .. }) => {
                return Err(OwnerError::Unreadable(why.to_string()));
            }
            // A damaged final file is renamed when a new one takes its place.
            Err(_) => None,
        },
    };
    Ok(task.as_ref().map(OutputOwner::from_task))
}

/// Adds the frames that these parts cover to the coverage of the task.
fn add_parts_coverage(
    paths: &[PathBuf],
    task: &Task,
    wanted: &[u64],
    state: &InputState<'_>,
    coverage: &mut Coverage,
) {
    for path in paths {
        match frames_covered_by_part(path, task, wanted, state) {
            Ok(covered) if covered.all.is_empty() => (),
            Ok(covered) => coverage.parts.push((path.clone(), covered)),
            // Gather may have merged the part into the final file and removed it since it was
            // listed.
            Err(error) if error.was_removed() => (),
            Err(error) => coverage.unusable.push(error.into()),
        }
    }
}

/// Returns the wanted frames that a part covers. The part's checksum is verified.
fn frames_covered_by_part(
    path: &Path,
    task: &Task,
    wanted: &[u64],
    state: &InputState<'_>,
) -> Result<CoveredFrames, part::PartError> {
    let (head, mut rest) = part::open_part(path)?;
    if head.scan != task.scan || head.recipe != task.recipe_digest {
        return Err(part::PartError::content(
            path,
            "damaged: its first line is about another scan or recipe",
        ));
    }
    if head.count == 0 {
        return Ok(CoveredFrames::default());
    }
    let place = |frame: u64| wanted.partition_point(|wanted| *wanted < frame);
    let meant = &wanted[place(head.first)..place(head.last.saturating_add(1))];
    if meant.is_empty() {
        return Ok(CoveredFrames::default());
    }
    // Equal digests mean that the part has all these frames and no others, each with a pattern, the
    // same source fingerprint and the same monitor. The part need not be opened as HDF5.
    let known = head.sources_of_patterns(state.monitors.is_some());
    if !state.needs_sparse && known.is_some_and(|sources| sources == state.digest(meant)) {
        return rest
            .verify()
            .map(|()| CoveredFrames::with_patterns(meant.iter().copied().collect()));
    }
    let part = part::read_part(path)?;
    let then = SourceFingerprints::new(&part.metadata.task.acquisition);
    let sparse = |row| part.sparse.as_ref().is_some_and(|sparse| sparse.is_settled(row));
    let rows = part.frames.iter().zip(&part.status).zip(&part.monitor).enumerate();
    let comparison = state.compare_with(&then, wanted);
    let covered = rows.filter(|&(row, ((frame, status), monitor))| {
        status.is_settled()
            && state.has_sparse(*status, sparse(row))
            && wanted.binary_search(frame).is_ok()
            && comparison.recognizes(*frame, *status)
            && state.confirms(*frame, *status, *monitor)
    });
    Ok(covered.map(|(_, ((frame, status), _))| (*frame, *status)).collect())
}
