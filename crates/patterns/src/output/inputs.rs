//! The inputs of a final file: the parts, and the final file that already exists, as they were at
//! one moment.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use output_owners::FileRelation;
use records::{Absent, Spans, Task, format_frames};
use system::untrusted_file::FileVersion;

use super::error::MAX_RANGES;
use super::options::check_cancelled;
use super::other_bins::{Agreeing, leave_out_superseded, patterns_of};
use super::row_sources::RowSources;
use super::verified_file::{file_version, open_verified};
use super::{BuildObserver, OutputError, OutputFile, OutputOptions, OutputSpec, part_index};
use crate::part::{self, Part, list_parts, parts_dir};
use crate::{MonitorError, MonitorValues, Normalizer, SharedBins, Status};

/// Another measurement than that of the parts, with the same name, of which a final file has patterns.
pub(super) enum EarlierMeasurement {
    /// Another scan, with its start if that is known.
    OtherScan { start: Option<String> },
    /// The scan, when it had more frames.
    MoreFrames,
}

/// Parts and final file of a scan and recipe, read and verified.
pub(super) struct OutputInputs<'a> {
    pub target: OutputSpec,
    pub options: OutputOptions,
    pub observer: &'a dyn BuildObserver,
    /// Parts that were read or are damaged, with their versions. They are not needed once the final
    /// file has all frames.
    pub files: Vec<(PathBuf, FileVersion)>,
    pub parts: Vec<Part>,
    /// Monitor as it is now; `None` if the recipe has none, or why it can't be read.
    pub monitors: Result<Option<MonitorValues>, MonitorError>,
    pub existing: Option<OutputFile>,
    /// True if a final file exists that can't be used.
    pub is_damaged: bool,
    /// Frames of parts that can't be read, and why.
    pub unread: Vec<Absent>,
    /// True if there are parts that can't be read.
    pub has_unread_parts: bool,
    /// Version of the existing final file, from before it was opened.
    pub existing_version: Option<FileVersion>,
    /// True if the existing final file is replaced although it has another scan or recipe: it was
    /// made from an earlier content of the scan's file, or `plan-split --replace` was given.
    pub replaces_other: bool,
    /// Other measurement of which that final file has patterns.
    pub replaced_measurement: Option<EarlierMeasurement>,
    /// True if an average is asked for, and not only kept.
    pub asks_for_average: bool,
    /// Frames with a pattern in a final of the same scan and another recipe, which is to be
    /// replaced.
    pub replaced_patterns: Spans,
    /// True once the scan is found to have other counters or motors than the existing final file, or an
    /// end that it lacks.
    pub has_newer_scan: bool,
    /// Warning that the numbers of the raw file are of other frames by now, once that is found.
    pub changed_frames: Option<String>,
    /// Warning about sums that the new final file lacks because they are damaged.
    pub damaged_sums_warning: Option<String>,
    pub warnings: Vec<String>,
    /// Warnings that arise while the final file is written.
    pub write_warnings: RefCell<Vec<String>>,
}

impl<'a> OutputInputs<'a> {
    /// Reads the parts and the final file. With `needs_sums`, the sums in the final file are
    /// verified, too.
    pub fn new(
        mut target: OutputSpec,
        options: &OutputOptions,
        needs_sums: bool,
        observer: &'a dyn BuildObserver,
    ) -> Result<Self, OutputError> {
        let (scan, recipe) = (target.task().scan.clone(), target.task().recipe_digest.clone());
        let (mut parts, mut warnings): (Vec<Part>, Vec<String>) = (Vec::new(), Vec::new());
        let (mut files, mut unread, mut distinct) = (Vec::new(), Vec::new(), Vec::new());
        let (mut has_unread_parts, mut replaces) = (false, false);
        let path = target.path();
        let owner = part_index::check_recorded_owner(&target)?;
        let paths = list_parts(target.out_root(), &scan, &recipe);
        for path in paths.map_err(|why| list_error(&target, why))? {
            check_cancelled(observer)?;
            let version = file_version(&path)?;
            match part::read_part(&path) {
                Ok(part)
                    if part.metadata.task.scan == scan
                        && part.metadata.task.recipe_digest == recipe =>
                {
                    check_same_file(&path, target.task(), &part.metadata.task)?;
                    files.extend(version.map(|version| (path, version)));
                    parts.push(share_bins(part, &mut distinct));
                }
                Ok(_) => warnings.push(format!(
                    "{}: ignored: a part of another scan or recipe than its directory",
                    path.display()
                )),
                Err(error) if error.was_removed() => return Err(error.into()),
                Err(error) => {
                    has_unread_parts = true;
                    // Whatever else it is, it may be read later, or by another version.
                    if error.is_damage() {
                        files.extend(version.map(|version| (path.clone(), version)));
                    }
                    unread.extend(part::frames_of_unread(&path, &error));
                    warnings.push(error.to_string());
                }
            }
        }
        let existing_was = file_version(&path)?;
        let (mut is_damaged, mut replaced_patterns) = (false, Spans::default());
        let mut replaced_measurement = None;
        let opened = match open_verified(&path, needs_sums) {
            // The final of a detector that moves always has sums, which are copied with the rows.
            Ok(existing) if !needs_sums && existing.recipe.has_moving_geometry() => {
                open_verified(&path, true)
            }
            opened => opened,
        };
        let existing = match opened {
            Ok(existing) if existing.task.scan == scan && existing.task.recipe_digest == recipe => {
                check_same_file(&path, target.task(), &existing.task)?;
                Some(existing)
            }
            Ok(existing) => {
                part_index::check_replaceable(&target, &existing.task, owner.as_ref())?;
                replaces = true;
                if existing.task.scan == scan {
                    replaced_patterns = patterns_of(0.., &existing.status);
                }
                // Frames that the scan does not have any more are of an earlier measurement, too.
                let of_scan = Spans::first_n(target.frames());
                let has_more = !replaced_patterns.difference(&of_scan).is_empty();
                replaced_patterns = replaced_patterns.intersection(&of_scan);
                let start = || existing.task.acquisition.start_time.clone();
                replaced_measurement = match existing.task.scan == scan {
                    true => has_more.then_some(EarlierMeasurement::MoreFrames),
                    false => {
                        let has_patterns = existing.status.contains(&Status::Ok);
                        has_patterns.then(|| EarlierMeasurement::OtherScan { start: start() })
                    }
                };
                None
            }
            Err(error) if error.is_not_found() => None,
            Err(
                error @ (OutputError::Io { .. }
                | OutputError::NotOwned { .. }
                | OutputError::OfOtherVersion { .. }),
            ) => {
                return Err(error);
            }
            Err(error) => {
                is_damaged = true;
                warnings.push(error.to_string());
                None
            }
        };
        let Agreeing { parts, existing, superseded, left_out } =
            leave_out_superseded(parts, existing, target.frames())?;
        warnings.extend(left_out);
        if let Some(patterns) = superseded {
            replaces = true;
            replaced_patterns = patterns;
        }
        if let Some(existing) =
            existing.as_ref().filter(|existing| needs_sums && existing.has_unverified_sums())
        {
            warnings.push(format!(
                "{}: its sums were written by an earlier version, without checksums, and can't be verified",
                existing.path.display()
            ));
        }
        if let Some(existing) = &existing
            && let Some(why) = &existing.damaged_bytes
        {
            warnings.push(format!(
                "{}: damaged: {why}; the frames that are intact are kept",
                existing.path.display()
            ));
        }
        if let Some(existing) = &existing {
            let what = match existing.has_damaged_sparse {
                true => Some("the index of its sparse pixels".to_owned()),
                false if existing.damaged_sparse.is_empty() => None,
                false => {
                    let frames = format_frames(&existing.damaged_sparse, MAX_RANGES);
                    Some(format!("its sparse pixels of {frames}"))
                }
            };
            warnings.extend(what.map(|what| {
                let path = existing.path.display();
                format!("{path}: damaged: {what}; run ai-integrate --sparse and gather again")
            }));
            // The pixels may be read by other means.
            is_damaged |= existing.has_damaged_sparse;
        }
        target.add_known(&parts, existing.as_ref())?;
        let recipe = parts.first().map(|part| &part.metadata.recipe);
        let monitors = match recipe.or(existing.as_ref().map(|existing| &existing.recipe)) {
            Some(recipe) if !recipe.monitor.is_empty() => {
                MonitorValues::read(target.task(), recipe).map(Some)
            }
            _ => Ok(None),
        };
        let notes = RefCell::default();
        Ok(Self {
            target,
            options: *options,
            observer,
            files,
            parts,
            monitors,
            existing,
            existing_version: existing_was,
            is_damaged,
            unread,
            has_unread_parts,
            replaces_other: replaces,
            replaced_measurement,
            asks_for_average: options.average.is_some(),
            replaced_patterns,
            has_newer_scan: false,
            changed_frames: None,
            damaged_sums_warning: None,
            warnings,
            write_warnings: notes,
        })
    }

    /// Returns the recipe, and the axes and weights, which all parts and the final file have in
    /// common, but for rounding. `None` if there are no parts and no final file.
    pub fn recipe_and_bins(&self) -> Option<(recipe::Recipe, Arc<SharedBins>)> {
        let of_parts =
            self.parts.first().map(|part| (part.metadata.recipe.clone(), Arc::clone(&part.shared)));
        let of_final =
            self.existing.as_ref().map(|there| (there.recipe.clone(), Arc::clone(&there.shared)));
        of_parts.or(of_final)
    }

    /// Chooses a row for each frame.
    ///
    /// # Errors
    /// Fails as [`RowSources::new`] does.
    pub fn choose_rows(&self, normalizer: &Normalizer) -> Result<RowSources, OutputError> {
        let monitors = self.monitors.as_ref().ok().and_then(Option::as_ref);
        RowSources::new(&self.target, &self.parts, self.existing.as_ref(), normalizer, monitors)
    }

    /// Returns the checksums of all parts whose frames are in the final file, including parts of
    /// earlier runs, one per line.
    pub fn part_digests(&self) -> String {
        let earlier = self.existing.iter().flat_map(|existing| existing.parts.iter());
        let mut digests: Vec<&str> =
            self.parts.iter().map(|part| &part.digest).chain(earlier).map(String::as_str).collect();
        digests.sort_unstable();
        digests.dedup();
        digests.iter().flat_map(|digest| [digest, "\n"]).collect()
    }
}

/// Returns the error of a directory of parts that can't be listed.
pub(super) fn list_error(target: &OutputSpec, why: io::Error) -> OutputError {
    let task = target.task();
    let path = parts_dir(target.out_root(), &task.scan, &task.recipe_digest);
    OutputError::Io { path: path.unwrap_or_else(|| target.path()), why }
}

/// Checks that a part or final file was made from the same file as the target. `there` is the
/// file's task, `now` is the target's task.
fn check_same_file(path: &Path, now: &Task, there: &Task) -> Result<(), OutputError> {
    match output_owners::compare_files(&there.acquisition.file, &now.acquisition.file)
        .map_err(OutputError::io(path))?
    {
        FileRelation::SameFile | FileRelation::Moved => Ok(()),
        FileRelation::DifferentFiles => Err(OutputError::content(
            path,
            format!(
                "the result of {}, which is another file than {}; give each of them an --out of its own",
                there.acquisition.file.display(),
                now.acquisition.file.display()
            ),
        )),
    }
}

/// Returns the part with axes and weights of `distinct` that are equal to its own, so that these are in
/// memory once; adds its own if there are none.
fn share_bins(mut part: Part, distinct: &mut Vec<Arc<SharedBins>>) -> Part {
    match distinct.iter().rev().find(|known| **known == part.shared) {
        Some(known) => part.shared = Arc::clone(known),
        None => distinct.push(Arc::clone(&part.shared)),
    }
    part
}
