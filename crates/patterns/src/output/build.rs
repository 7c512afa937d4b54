//! Makes a final of what there is, or finds that it is there already.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filter::atomic::{self, AtomicFile};
use filter::ownership::{self, OwnedFiles, ProtectedFiles};
use owners::FileRelation;
use records::{Absent, ScanState, Task};

use super::frame_source::{FrameSource, ScanFrames};
use super::options::check_cancelled;
use super::row_sources::RowSources;
use super::writer::{self, OutputContent};
use super::{
    AverageMethod, BuildObserver, BuildOutcome, OutputError, OutputFile, OutputLayout, OutputOptions, OutputSpec,
    WritePolicy, part_index,
};
use crate::coverage::{list_parts, parts_dir};
use crate::h5::{Group, NewHdf5File};
use crate::part::{self, Part};
use crate::{Normalizer, SharedBins};

/// How often to start again where parts vanish, taken in by another gather, while they are read.
const MAX_ATTEMPTS: usize = 5;

/// Makes the final of a target from its parts and the final that there may be, or finds that there is
/// nothing to add. Parts that the final no longer needs are removed, once it has been read back.
///
/// # Errors
/// Parts that disagree; sums that are asked for and gone; a file that can't be read or written.
pub fn build(
    target: &OutputSpec,
    options: &OutputOptions,
    watch: &dyn BuildObserver,
) -> Result<BuildOutcome, OutputError> {
    let task = target.task();
    let directory =
        parts_dir(target.out_root(), &task.scan, &task.recipe_digest).expect("a target stays below its root");
    ownership::create_directories(&directory).map_err(OutputError::io(&directory))?;
    let _lock = part_index::lock(&directory, watch)?;
    // Another cut of the work gives parts other names, and would not come upon what dead writers left here.
    atomic::remove_stale_files(&directory).map_err(OutputError::io(&directory))?;
    target.path().parent().into_iter().for_each(atomic::remove_stale_files_once);
    if options.policy == WritePolicy::WhenComplete && !could_be_complete(target)? {
        return Ok(BuildOutcome::default());
    }
    let mut attempts = 1..MAX_ATTEMPTS;
    loop {
        let needs_sums = options.keep_sums || options.average.is_some();
        match OutputInputs::new(target.clone(), options, needs_sums, watch).and_then(OutputInputs::build_output) {
            Err(OutputError::Part(error)) if error.was_removed() && attempts.next().is_some() => (),
            Err(OutputError::ConcurrentWrite { .. }) if attempts.next().is_some() => (),
            built => return built,
        }
    }
}

/// Whether there may be all frames, by the first lines of the parts alone: of the many that ask while a
/// scan is being integrated, only the last has to read them.
///
/// # Errors
/// The parts can't be listed, or a part or the final can't be read.
fn could_be_complete(target: &OutputSpec) -> Result<bool, OutputError> {
    let task = target.task();
    let parts =
        list_parts(target.out_root(), &task.scan, &task.recipe_digest).map_err(|why| list_error(target, why))?;
    let count = |target: &OutputSpec| target.absent().iter().map(|absent| absent.range.count()).sum::<u64>();
    let mut in_parts: u64 = 0;
    for path in &parts {
        match part::read_user_block(path) {
            Ok(head) => in_parts = in_parts.saturating_add(head.count),
            Err(error) if error.io_error().is_some() && !error.was_removed() => return Err(error.into()),
            // What is damaged is told by whoever reads it.
            Err(_) => (),
        }
    }
    let path = target.path();
    if in_parts.saturating_add(count(target)) >= target.frames() || path.try_exists().map_err(OutputError::io(&path))? {
        return Ok(true);
    }
    // Each part knows which frames of its own task are absent.
    let mut target = target.clone();
    for path in &parts {
        match part::read_task(path) {
            Ok(task) => target.add_fallback(&task),
            Err(error) if error.is_io_failure() => return Err(error.into()),
            // What is damaged is told by whoever reads it.
            Err(_) => (),
        }
    }
    Ok(in_parts.saturating_add(count(&target)) >= target.frames())
}

fn list_error(target: &OutputSpec, why: std::io::Error) -> OutputError {
    let task = target.task();
    let path = parts_dir(target.out_root(), &task.scan, &task.recipe_digest);
    OutputError::Io { path: path.unwrap_or_else(|| target.path()), why }
}

/// One look at the parts and the final.
pub(super) struct OutputInputs<'a> {
    pub target: OutputSpec,
    options: &'a OutputOptions,
    watch: &'a dyn BuildObserver,
    /// Every file among the parts, of use or not, and what it was.
    files: Vec<(PathBuf, FileVersion)>,
    pub parts: Vec<Part>,
    pub existing: Option<OutputFile>,
    /// Whether there is a final that can't be used.
    is_damaged: bool,
    /// Frames of parts that can't be read, and why.
    unread: Vec<Absent>,
    /// What the final was before it was opened.
    existing_version: Option<FileVersion>,
    /// Whether the final that there is was made of an earlier content of the scan's file, or by another recipe that this
    /// one takes the place of.
    replaces_other: bool,
    warnings: Vec<String>,
    /// Warnings that came with writing.
    write_warnings: RefCell<Vec<String>>,
}

impl<'a> OutputInputs<'a> {
    /// Looks at them. With `needs_sums`, rows of the final count only if their sums are as they were written.
    pub fn new(
        mut target: OutputSpec,
        options: &'a OutputOptions,
        needs_sums: bool,
        watch: &'a dyn BuildObserver,
    ) -> Result<Self, OutputError> {
        let (scan, recipe) = (target.task().scan.clone(), target.task().recipe_digest.clone());
        let (mut parts, mut warnings): (Vec<Part>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut files, mut unread, mut replaces) = (Vec::new(), Vec::new(), false);
        let path = target.path();
        let is_noted = part_index::is_recorded_owner(&target)?;
        let paths = list_parts(target.out_root(), &scan, &recipe);
        for path in paths.map_err(|why| list_error(&target, why))? {
            check_cancelled(watch)?;
            files.extend(file_version(&path).map(|identity| (path.clone(), identity)));
            match part::read_part(&path) {
                Ok(part) if part.metadata.task.scan == scan && part.metadata.task.recipe_digest == recipe => {
                    check_same_file(&path, target.task(), &part.metadata.task)?;
                    parts.push(share_bins(part, parts.first())?);
                }
                Ok(_) => warnings.push(format!("{}: of another scan or recipe than its directory", path.display())),
                Err(error) if error.was_removed() => return Err(error.into()),
                Err(error) => {
                    unread.extend(part::frames_of_unread(&path, &error));
                    warnings.push(error.to_string());
                }
            }
        }
        let existing_was = output_version(&path)?;
        let mut is_damaged = false;
        let existing = match open_verified(&path, needs_sums) {
            Ok(existing) if existing.task.scan == scan && existing.task.recipe_digest == recipe => {
                check_same_file(&path, target.task(), &existing.task)?;
                Some(existing)
            }
            Ok(existing) => {
                part_index::check_replaceable(&target, &existing.task, is_noted)?;
                replaces = true;
                None
            }
            Err(OutputError::Io { why, .. }) if why.kind() == ErrorKind::NotFound => None,
            Err(error @ (OutputError::Io { .. } | OutputError::NotOwned { .. })) => return Err(error),
            Err(error) => {
                is_damaged = true;
                warnings.push(error.to_string());
                None
            }
        };
        if let Some(existing) = existing.as_ref().filter(|existing| needs_sums && existing.has_unverified_sums()) {
            warnings.push(format!(
                "{}: its sums were written without checksums, and are taken as they are",
                existing.path.display()
            ));
        }
        target.add_known(&parts, existing.as_ref());
        let notes = RefCell::default();
        Ok(Self {
            target,
            options,
            watch,
            files,
            parts,
            existing,
            existing_version: existing_was,
            is_damaged,
            unread,
            replaces_other: replaces,
            warnings,
            write_warnings: notes,
        })
    }

    fn build_output(mut self) -> Result<BuildOutcome, OutputError> {
        let Some((recipe, shared)) = self.recipe_and_bins()? else {
            let nothing = RowSources::new(&self.target, &[], None, &Normalizer::default());
            let mut built = BuildOutcome { warnings: self.warnings, ..BuildOutcome::new(&self.target, &nothing) };
            built.explain(&self.unread);
            return Ok(built);
        };
        let finish = Normalizer::new(&recipe);
        let supply = RowSources::new(&self.target, &self.parts, self.existing.as_ref(), &finish);
        let mut built = BuildOutcome::new(&self.target, &supply);
        built.explain(&self.unread);
        if let Some(existing) = self.existing.as_ref()
            && self.is_current(existing, &supply)?
        {
            (built.was_current, built.layout) = (true, Some(existing.layout));
            built.data_digest.clone_from(&existing.data_digest);
            part_index::record_owner(&self.target)?;
        } else if self.replaces_other && !built.up_to_date {
            let path = self.target.path();
            self.warnings.push(format!("{}: the earlier result stays until all frames are there", path.display()));
        } else if built.is_final_state() || self.options.policy == WritePolicy::Always {
            let layout = self.choose_layout(&supply);
            self.check_sums(&supply, &finish)?;
            built.data_digest = self.write(&recipe, &shared, finish, &supply, layout)?;
            built.layout = Some(layout);
        }
        // The final then answers for all frames, and the monitor's mean changes no more.
        let needs_no_sums =
            finish.needs_only_own_frame() || self.options.keep_sums || built.scan_state != ScanState::Running;
        if built.layout.is_some_and(OutputLayout::holds_patterns)
            && built.up_to_date
            && needs_no_sums
            && !self.options.keep_parts
        {
            self.remove_parts()?;
        }
        built.warnings = self.warnings;
        built.warnings.append(self.write_warnings.get_mut());
        Ok(built)
    }

    /// The recipe, and the axes and weights, which parts and final share.
    pub fn recipe_and_bins(&self) -> Result<Option<(recipe::Recipe, Arc<SharedBins>)>, OutputError> {
        let of_parts = self.parts.first().map(|part| (part.metadata.recipe.clone(), Arc::clone(&part.shared)));
        let of_final = self.existing.as_ref().map(|there| (there.recipe.clone(), Arc::clone(&there.shared)));
        if let (Some(part), Some(existing)) = (self.parts.first(), &self.existing)
            && part.shared != existing.shared
        {
            return Err(OutputError::ConflictingBins { one: existing.path.clone(), two: part.path.clone() });
        }
        Ok(of_parts.or(of_final))
    }

    /// How the final stores its patterns: as is asked for, but for what an earlier one has, which is not given up.
    fn choose_layout(&self, supply: &RowSources) -> OutputLayout {
        let there = self.existing.as_ref().map(|existing| existing.layout);
        match (there, self.options.layout) {
            (Some(there), OutputLayout::Copy) if there.holds_patterns() => there,
            (Some(OutputLayout::Integrator), OutputLayout::Integrator | OutputLayout::Virtual) => {
                OutputLayout::Integrator
            }
            // Rows that only a copied final holds can't be shown from parts.
            (Some(OutputLayout::Copy), OutputLayout::Virtual) if !supply.frames_from_output().is_empty() => {
                OutputLayout::Copy
            }
            (_, asked) => asked,
        }
    }

    /// Whether the final that there is has all that a new one would have.
    fn is_current(&self, existing: &OutputFile, supply: &RowSources) -> Result<bool, OutputError> {
        let absorbed = self.parts.iter().all(|part| existing.parts.contains(&part.digest));
        let layout = existing.layout == self.choose_layout(supply);
        let rows = existing.layout == OutputLayout::Virtual || existing.is_intact();
        let is_same = absorbed && layout && rows && existing.status == supply.status;
        Ok(is_same && existing.satisfies(self.options)?)
    }

    /// Refuses what needs sums that are gone.
    fn check_sums(&self, supply: &RowSources, finish: &Normalizer) -> Result<(), OutputError> {
        let frames = supply.frames_from_output();
        if let Some(existing) = &self.existing {
            let damaged = frames.intersection(&existing.damaged_sums.iter().copied().collect());
            if !damaged.is_empty() {
                return Err(OutputError::SumsDamaged { path: existing.path.clone(), frames: damaged });
            }
        }
        let Some(existing) = self.existing.as_ref().filter(|existing| !existing.has_sums && !frames.is_empty()) else {
            return Ok(());
        };
        let new_mean = !finish.needs_only_own_frame() && existing.reference.to_bits() != supply.reference.to_bits();
        // The median is that of the patterns, of which alone an empty bin can't be told where it is 0.
        let average = self
            .options
            .average
            .filter(|average| average.method != AverageMethod::Median || finish.empty_value() == 0.0);
        let what = match (new_mean, self.options.keep_sums, average) {
            (true, _, _) => "the monitor's new mean",
            (_, true, _) => "--keep-sums",
            (_, _, Some(_)) => "--average",
            (false, false, None) => return Ok(()),
        };
        Err(OutputError::SumsGone { path: existing.path.clone(), what, frames })
    }

    fn write(
        &self,
        recipe: &recipe::Recipe,
        shared: &SharedBins,
        finish: Normalizer,
        supply: &RowSources,
        layout: OutputLayout,
    ) -> Result<String, OutputError> {
        let content = OutputContent {
            target: &self.target,
            recipe,
            finish,
            shared,
            parts: &self.parts,
            existing: self.existing.as_ref(),
            supply,
            part_digests: &self.part_digests(),
            layout,
            keep_sums: self.options.keep_sums,
            average: self.options.average,
            warnings: &self.write_warnings,
            renames_damaged: self.is_damaged,
        };
        let needs_sums = content.has_sums() || content.average.is_some();
        let mut merge = ScanFrames::new(supply, &self.parts, self.existing.as_ref(), shared, &finish, needs_sums)?;
        write_verified(&content, &mut merge, self.watch, self.existing_version, |_| {
            part_index::record_owner(&self.target)
        })
    }

    /// The checksums of the parts that have gone in, of those in the earlier final too.
    fn part_digests(&self) -> String {
        let earlier = self.existing.iter().flat_map(|existing| existing.parts.iter());
        let mut digests: Vec<&str> =
            self.parts.iter().map(|part| &part.digest).chain(earlier).map(String::as_str).collect();
        digests.sort_unstable();
        digests.dedup();
        digests.iter().flat_map(|digest| [digest, "\n"]).collect()
    }

    /// Removes the files that were looked at, and none that has taken the place of one since.
    fn remove_parts(&self) -> Result<(), OutputError> {
        for (path, was) in &self.files {
            if file_version(path) == Some(*was) {
                ownership::remove(path, &OwnedFiles::in_azpipe_dir()).map_err(OutputError::io(path))?;
            }
        }
        Ok(())
    }
}

/// Writes a final, reads it back and puts it in its place; the digest of its data. `more` is done to it before it
/// is closed. `was` is what it is to take the place of: where locks don't reach, a gather of another machine may have written
/// a final meanwhile, and removed the parts that went into it.
pub(super) fn write_verified(
    content: &OutputContent,
    frames: &mut dyn FrameSource,
    watch: &dyn BuildObserver,
    was: Option<FileVersion>,
    more: impl FnOnce(&Group) -> Result<(), OutputError>,
) -> Result<String, OutputError> {
    let path = content.target.path();
    let io = OutputError::io(&path);
    ownership::create_directories(path.parent().unwrap_or(content.target.out_root())).map_err(&io)?;
    let claim = owned_outputs(content.target);
    let temporary = AtomicFile::create(&path, &claim).map_err(&io)?;
    let file = NewHdf5File::create(&temporary, 0).map_err(OutputError::hdf5(&path))?;
    let digest = writer::write_output(&file, content, frames, watch)?;
    more(&file)?;
    let sealed = file.finish().map_err(OutputError::hdf5(&path))?;
    sealed.append_checksums().and_then(|()| sealed.sync()).map_err(OutputError::hdf5(&path))?;
    let mut written = OutputFile::open(temporary.temporary_path())?;
    written.verify(0..content.supply.status.len())?;
    let intact = content.layout == OutputLayout::Virtual || written.is_intact();
    if !intact || written.data_digest != digest {
        return Err(OutputError::ReadBackMismatch { path: temporary.temporary_path().to_path_buf() });
    }
    drop(written);
    if output_version(&path)? != was {
        return Err(OutputError::ConcurrentWrite { path });
    }
    if content.renames_damaged {
        let aside = ownership::rename_damaged(&path, &claim).map_err(&io)?;
        content.warnings.borrow_mut().push(format!("{}: the damaged file, kept", aside.display()));
    }
    temporary.commit().map_err(&io)?;
    Ok(digest)
}

/// Opens a final and verifies its rows.
pub(super) fn open_verified(path: &Path, needs_sums: bool) -> Result<OutputFile, OutputError> {
    let mut there = OutputFile::open(path)?;
    there.verify(0..there.status.len())?;
    if needs_sums {
        there.verify_sums(0..there.status.len())?;
    }
    Ok(there)
}

/// Claims finals, but for one that is a source of this very scan.
fn owned_outputs(target: &OutputSpec) -> OwnedFiles {
    let sources = ProtectedFiles::default();
    let scan = &target.task().acquisition;
    [&scan.file].into_iter().chain(scan.sources.iter().map(|source| &source.file)).for_each(|path| sources.add(path));
    OwnedFiles::new("a final", OutputFile::is_output).with_protected(&sources)
}

/// Checks that a part or final, by its task, was made of the file that the target is of.
fn check_same_file(path: &Path, now: &Task, there: &Task) -> Result<(), OutputError> {
    match owners::compare_files(&there.acquisition.file, &now.acquisition.file).map_err(OutputError::io(path))? {
        FileRelation::SameFile | FileRelation::Moved => Ok(()),
        FileRelation::DifferentFiles => Err(OutputError::content(
            path,
            format!(
                "the result of {}, which is another file than {}: give their results different --out",
                there.acquisition.file.display(),
                now.acquisition.file.display()
            ),
        )),
    }
}

/// What tells a file from another of its name: its inode and when it was written.
pub(super) type FileVersion = (u64, i64, i64);

/// The identity of a final; `None` where there is none.
pub(super) fn output_version(path: &Path) -> Result<Option<FileVersion>, OutputError> {
    match fs::metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(OutputError::Io { path: path.to_path_buf(), why }),
        Ok(_) => Ok(file_version(path)),
    }
}

fn file_version(path: &Path) -> Option<FileVersion> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|file| (file.ino(), file.mtime(), file.mtime_nsec()))
}

/// The part, with the axes and weights of the first instead of its own equal ones.
fn share_bins(mut part: Part, first: Option<&Part>) -> Result<Part, OutputError> {
    match first {
        Some(first) if first.shared != part.shared => {
            return Err(OutputError::ConflictingBins { one: first.path.clone(), two: part.path });
        }
        Some(first) => part.shared = Arc::clone(&first.shared),
        None => (),
    }
    Ok(part)
}
