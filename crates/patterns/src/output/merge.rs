//! Merges patterns of several detectors, or of one detector at several positions, on one axis.
//!
//! Sums are added over the members, frame by frame and bin by bin. With the ratio g of each
//! member's monitor, and Ω, the solid angle of a pixel at the point of normal incidence (pixel area
//! / distance²) relative to that of the first member:
//!
//! > S = Σ Sᵢ, V = Σ Vᵢ, W = Σ Wᵢ gᵢ Ωᵢ, W₂ = Σ W₂ᵢ (gᵢ Ωᵢ)², intensity = S / W, error = √V / W
//!
//! V is the photon variance with a minimum of one photon in all members together, unless the recipe
//! sets a minimum per pixel ([`crate::variance`]). pyFAI's `MultiGeometry` gives the same apart
//! from a factor: pyFAI divides by the solid angle in steradian, whereas here the merged pattern
//! has the scale of the members' own patterns. Without the solid-angle correction, Ω is 1. A
//! monitor that is divided by its mean is divided by the mean over the frames of all members. A
//! frame that one member lacks is missing, because the sum of the other members would be another
//! quantity.

mod acquisition;
mod frames;
mod member;
mod notes;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use recipe::Recipe;
use records::{Acquisition, IdHasher, Spans, Task};
use system::set_aside::AsideReason;
use system::{atomic, ownership};

use super::build_outcome::Replaced;
use super::content::OutputContent;
use super::frame_source::ScanFrames;
use super::policy::{has_newer_scan, replaced_averages, with_sums_and_averages};
use super::row_sources::{RowSource, RowSources};
use super::schema::escape_name;
use super::verified_file::{DAMAGED_FILE, file_version, open_verified, write_verified};
use super::{
    BuildObserver, BuildOutcome, OutputError, OutputFile, OutputLayout, OutputOptions, OutputSpec,
    WritePolicy, part_index,
};
use crate::h5::Group;
use crate::measurement_differences::{different_exposures, different_wavelengths};
use crate::part::parts_dir;
use crate::rounding::NAN64;
use crate::{Normalizer, SharedBins, Status};
use acquisition::merged_acquisition;
use frames::{MergedFrames, sum_weights};
pub use notes::{OutdatedMerge, find_outdated_merges};
pub(super) use notes::{noted_merges, notes_dir};

use member::{MergeMember, merged_finals, use_common_monitor_mean, write_members};

/// Relation between the members of a merged final file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeScope {
    /// Detectors of one scan.
    Detectors,
    /// Different scans.
    Scans,
}

/// Merges the final files of these targets into one called `name`, beside them if they are of one
/// scan, and in the output root if they are of several scans. Nothing is written if the merged file
/// is up to date.
///
/// # Errors
/// Fails if there are fewer than two members, if members differ in axes, number of frames,
/// corrections or error model, if sums were not kept, or if a file can't be read or written.
pub fn merge(
    members: &[OutputSpec],
    name: &str,
    scope: MergeScope,
    options: &OutputOptions,
    observer: &dyn BuildObserver,
) -> Result<(OutputSpec, BuildOutcome), OutputError> {
    let mut members: Vec<OutputSpec> = members.to_vec();
    members.sort_by_key(OutputSpec::path);
    // One for final files of several names: a second lock on it would wait for the first.
    let directories: BTreeSet<PathBuf> = members
        .iter()
        .map(|target| {
            let task = target.task();
            parts_dir(target.out_root(), &task.scan, &task.recipe_digest)
                .expect("a target stays below its root")
        })
        .collect();
    let locks = directories.iter().map(|directory| {
        ownership::create_directories(directory).map_err(OutputError::io(directory))?;
        part_index::lock(directory, observer)
    });
    let _locks: Vec<_> = locks.collect::<Result<_, OutputError>>()?;
    let mut members: Vec<MergeMember> = members
        .into_iter()
        .map(|target| MergeMember::new(target, options, observer))
        .collect::<Result<_, _>>()?;
    let [first, others @ ..] = &members[..] else {
        return Err(OutputError::content(
            Path::new(name),
            "nothing to merge; expected two patterns or more",
        ));
    };
    if others.is_empty() {
        return Err(OutputError::content(
            &first.path(),
            "the only pattern to merge; expected another detector or scan",
        ));
    }
    let unlike = check_all_mergeable(first, others)?;
    use_common_monitor_mean(&mut members);
    let solid_angles =
        members.iter().map(MergeMember::solid_angle).collect::<Result<Vec<_>, _>>()?;
    let plan = MergePlan::new(&members, &solid_angles, observer)?;
    let target = plan.output_spec(name, scope)?;
    // Processes that ended may have left temporary files there.
    for path in [target.path(), notes::note_path(&target)] {
        path.parent().into_iter().for_each(atomic::remove_stale_files_once);
    }
    let mut outcome = BuildOutcome::new(&target, &plan.row_sources);
    for member in &members {
        outcome.explain(&member.inputs.unread, member.inputs.has_unread_parts);
        outcome.warnings.extend_from_slice(&member.inputs.warnings);
    }
    outcome.warnings.extend(unlike);
    let digests: String = members.iter().flat_map(|member| [member.digest(), "\n"]).collect();
    outcome.layout =
        Some(options.layout).filter(|layout| layout.holds_patterns()).or(Some(OutputLayout::Copy));
    let was = file_version(&target.path())?;
    let (mut options, mut sets_aside) = (*options, false);
    // The digest of what the file held, and whether its counters or motors are others now.
    let mut earlier = None;
    let mut averages_warning = None;
    // Merged scans have no counters of their own.
    let has_numbers = !target.task().acquisition.counters.is_empty();
    let numbers = |member: &MergeMember| member.numbers_digest().map(Some);
    let numbers: Vec<Option<String>> = match has_numbers {
        true => members.iter().map(numbers).collect::<Result<_, _>>()?,
        false => vec![None; members.len()],
    };
    // As in the finals of detectors that move.
    options.keep_sums |= members.iter().any(|member| member.recipe.has_moving_geometry());
    match open_verified(&target.path(), options.keep_sums) {
        Ok(there)
            if there.parts.iter().flat_map(|part| [part, "\n"]).collect::<String>() == digests =>
        {
            options = with_sums_and_averages(options, &there);
            let is_whole = there.is_intact() && there.damaged_bytes.is_none();
            let has_newer_scan = has_newer_scan(target.task(), &there).unwrap_or_else(|why| {
                outcome.warnings.push(why);
                false
            });
            let noted = merged_finals(&there.process).map_err(OutputError::hdf5(&there.path))?;
            let has_other_numbers = noted.iter().zip(&numbers).any(|(noted, now)| {
                noted.numbers.as_ref().is_some_and(|noted| Some(noted) != now.as_ref())
            });
            let has_newer_scan = has_newer_scan || has_other_numbers;
            averages_warning = replaced_averages(&options, &there);
            let is_counted_well =
                !there.counts_picked_pixels || members.iter().any(MergeMember::needs_sums);
            let is_current =
                is_whole && !there.raw_file_denied && !has_newer_scan && is_counted_well;
            if !is_whole {
                // The members have all that it had.
                outcome.warnings.push(format!("{}: damaged: merged again", there.path.display()));
            }
            earlier = Some((there.data_digest.clone(), has_newer_scan));
            if is_current && there.satisfies(&options)? {
                (outcome.was_unchanged, outcome.layout) = (true, Some(there.layout));
                outcome.data_digest = there.data_digest;
                return Ok((target, outcome));
            }
        }
        Ok(there) if !there.is_merged() => {
            let why = "exists, and is not a merged final; pass another name to --merge";
            return Err(OutputError::content(&target.path(), why));
        }
        // A file that was merged from earlier states of the members, or from some of them, is
        // written again.
        Ok(there) => {
            check_same_members(&there, &members)?;
            earlier = Some((there.data_digest, true));
        }
        Err(error) if error.is_not_found() => (),
        Err(
            error @ (OutputError::Io { .. }
            | OutputError::NotOwned { .. }
            | OutputError::OfOtherVersion { .. }),
        ) => return Err(error),
        Err(error) => {
            sets_aside = true;
            outcome.warnings.push(error.to_string());
        }
    }
    if options.policy == WritePolicy::WhenComplete && !outcome.is_final_state() {
        return Ok((target, BuildOutcome { layout: None, ..outcome }));
    }
    for member in &members {
        member.inputs.check_sums(&member.row_sources, member.needs_sums().then_some("--merge"))?;
    }
    let MergePlan { recipe, normalizer, shared, row_sources, .. } = &plan;
    let warnings = RefCell::default();
    let content = OutputContent {
        target: &target,
        recipe,
        monitors: &members[0].recipe.monitor,
        is_merged: true,
        normalizer: *normalizer,
        shared,
        parts: &[],
        existing: None,
        row_sources,
        part_digests: &digests,
        layout: outcome.layout.unwrap_or_default(),
        compression: members[0].inputs.choose_compression(),
        keep_sums: options.keep_sums,
        average: options.average,
        averages_to_copy: None,
        raw_file_denied: Cell::new(false),
        warnings: &warnings,
        changed_frames: None,
        set_aside: sets_aside.then(|| (AsideReason::Damaged, DAMAGED_FILE.to_owned())),
    };
    let note = |file: &Group| {
        write_members(file, &members, &solid_angles, &numbers)
            .map_err(OutputError::hdf5(&target.path()))
    };
    notes::write_note(&target).map_err(OutputError::io(&target.path()))?;
    outcome.data_digest = write_verified(&content, &mut plan.frames()?, observer, was, note)?;
    outcome.replaced = match (was, earlier) {
        (None, _) => Replaced::Nothing,
        (_, Some((digest, has_newer_scan))) if digest == outcome.data_digest => {
            if has_newer_scan {
                Replaced::Counters
            } else {
                Replaced::Nothing
            }
        }
        _ => Replaced::Data,
    };
    outcome.warnings.extend(averages_warning);
    outcome.warnings.append(&mut warnings.borrow_mut());
    Ok((target, outcome))
}

/// Checks that no two members are of the same frames by the same recipe, which would count twice: a scan that
/// was found from two directories, or planned with two names, has two final files. Two recipes may be of
/// different pixels.
fn check_all_differ(first: &MergeMember, others: &[MergeMember]) -> Result<(), OutputError> {
    let mut measured = BTreeMap::new();
    for member in [first].into_iter().chain(others) {
        let scan = member.scan();
        // One that was moved away has the path of its record.
        let file = scan.file.canonicalize().unwrap_or_else(|_| scan.file.to_path_buf());
        let recipe = &member.inputs.target.task().recipe_digest;
        let measurement = (file, &scan.entry, &scan.detector, &scan.dataset, recipe);
        if let Some(one) = measured.insert(measurement, member.path()) {
            let why = format!(
                "both are of detector {} in entry {} of {}, whose frames would count twice; remove one of them, or merge the results of one plan",
                scan.detector,
                scan.entry,
                scan.file.display()
            );
            return Err(OutputError::NotMergeable { one, two: member.path(), why });
        }
    }
    Ok(())
}

/// Checks that members can be merged, and returns a warning of settings that should not differ.
fn check_all_mergeable(
    first: &MergeMember,
    others: &[MergeMember],
) -> Result<Vec<String>, OutputError> {
    check_all_differ(first, others)?;
    // Some settings are compared among the members of one detector only.
    let mut detectors = BTreeMap::from([(first.scan().detector.as_str(), first)]);
    let mut warnings = Vec::new();
    for other in others {
        let of_detector = *detectors.entry(other.scan().detector.as_str()).or_insert(other);
        for one in [first, of_detector] {
            one.check_mergeable(other)?;
            let mismatches = one.mismatches(other);
            if warnings.is_empty() && !mismatches.is_empty() {
                let [one, other] = [one, other].map(MergeMember::path);
                let why = mismatches.describe(&one.display(), &other.display());
                warnings.push(format!("--merge: {why}, unless that is meant"));
            }
        }
        let measurements = [first, other].map(|member| (member.scan(), &member.recipe));
        let names = [first, other].map(|member| member.path().display().to_string());
        let wavelengths = different_wavelengths(measurements).map_err(|why| {
            OutputError::content(&other.path(), format!("a PONI file of what is merged: {why}"))
        })?;
        if let Some([one, two]) = wavelengths {
            warnings.push(format!(
                "--merge: {} was measured with a wavelength of {one:e} m, and {} with one of {two:e} m: rings add up only on \
                 axes that do not depend on it, such as q",
                names[0], names[1]
            ));
        }
        if let Some([one, two]) = different_exposures(measurements) {
            warnings.push(format!(
                "--merge: frames of {} were exposed for {one} s, and of {} for {two} s, and no monitor divides them: integrate \
                 with --monitor, unless that is meant",
                names[0], names[1]
            ));
        }
    }
    Ok(warnings)
}

/// Checks that all members of an existing merged final file are merged again. If not, it is the
/// result of something else.
fn check_same_members(there: &OutputFile, members: &[MergeMember]) -> Result<(), OutputError> {
    let earlier = merged_finals(&there.process).map_err(OutputError::hdf5(&there.path))?;
    let is_member = |earlier: &str| {
        let mut now = members.iter().map(|member| &member.inputs.target.task().final_file);
        now.any(|path| path.to_string_lossy() == earlier)
    };
    match earlier.iter().map(|earlier| &earlier.final_file).find(|path| !is_member(path)) {
        Some(other) => Err(OutputError::content(
            &there.path,
            format!(
                "exists, and was merged from other patterns, among them {other}; pass another name to --merge or \
                 --merge-all, or remove it"
            ),
        )),
        None => Ok(()),
    }
}

/// Content of the merged final file.
struct MergePlan<'a> {
    members: &'a [MergeMember<'a>],
    /// Factor of each member's weights: its relative solid angle.
    factors: Vec<f64>,
    recipe: Recipe,
    normalizer: Normalizer,
    shared: SharedBins,
    row_sources: RowSources,
}

impl<'a> MergePlan<'a> {
    fn new(
        members: &'a [MergeMember],
        solid_angles: &[f64],
        observer: &dyn BuildObserver,
    ) -> Result<Self, OutputError> {
        super::options::check_cancelled(observer)?;
        let first = &members[0];
        let factors: Vec<f64> = solid_angles.iter().map(|angle| angle / solid_angles[0]).collect();
        // The members' monitors are part of the merged weights.
        let recipe = Recipe { monitor: Vec::new(), ..first.recipe.clone() };
        let of_each =
            members.iter().zip(&factors).map(|(member, factor)| (&member.shared.weights, *factor));
        let shared = SharedBins { axes: first.shared.axes.clone(), weights: sum_weights(of_each) };
        let frames = first.row_sources.status.len();
        let worst = |frame: usize| {
            members
                .iter()
                .map(|member| member.row_sources.status[frame])
                .find(|status| *status != Status::Ok)
        };
        let row_sources = RowSources {
            sources: vec![RowSource::None; frames],
            status: (0..frames).map(|frame| worst(frame).unwrap_or_default()).collect(),
            monitor: vec![NAN64; frames],
            stored_digest: vec![0; frames],
            reference: 1.0,
            ..RowSources::default()
        };
        let normalizer = Normalizer::new(&recipe).for_merged_frames();
        Ok(Self { members, factors, normalizer, recipe, shared, row_sources })
    }

    /// Returns the specification of the merged final file, with separate ids for scan and recipe.
    fn output_spec(&self, name: &str, scope: MergeScope) -> Result<OutputSpec, OutputError> {
        let first = &self.members[0];
        let task = first.inputs.target.task();
        let identity = |what: &str, of: &dyn Fn(&Task) -> String| {
            self.members.iter().fold(IdHasher::new(what).add_text(name), |digest, member| {
                digest.add_text(&of(member.inputs.target.task()))
            })
        };
        let final_file = match scope {
            MergeScope::Scans => PathBuf::from(format!("{name}.h5")),
            MergeScope::Detectors => {
                let stem =
                    task.final_file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let tail = format!("_{}", escape_name(&first.scan().detector));
                let head = stem.rfind(&tail).map_or(stem.as_str(), |at| &stem[..at]).to_owned();
                task.final_file.with_file_name(format!("{head}_{name}.h5"))
            }
        };
        if let Some(member) = self
            .members
            .iter()
            .find(|member| *member.inputs.target.task().final_file == *final_file)
        {
            return Err(OutputError::content(
                &member.path(),
                "is a pattern that is to be merged; pass another name to --merge",
            ));
        }
        let scan = identity("union", &|task| task.scan.clone()).to_short_hex();
        let recipe_digest = identity("union", &|task| task.recipe_digest.clone()).to_hex();
        let scans: Vec<&Acquisition> = self.members.iter().map(MergeMember::scan).collect();
        let absent = self.members.iter().flat_map(|member| member.inputs.target.absent()).collect();
        let acquisition = Acquisition { absent, ..merged_acquisition(&scans, name, scope) };
        let final_file = final_file.into();
        let range = Spans::first_n(acquisition.frames);
        let task = Task {
            scan,
            recipe_digest,
            final_file,
            range,
            acquisition,
            monitor_readings: None,
            ..task.clone()
        };
        OutputSpec::new(first.inputs.target.out_root(), &task)
    }

    fn frames(&'a self) -> Result<MergedFrames<'a>, OutputError> {
        let merge = |member: &'a MergeMember| {
            let MergeMember { inputs, row_sources, shared, normalizer, .. } = member;
            ScanFrames::new(
                row_sources,
                &inputs.parts,
                inputs.existing.as_ref(),
                shared,
                normalizer,
                true,
                None,
            )
        };
        Ok(MergedFrames {
            plan: self,
            members: self.members.iter().map(merge).collect::<Result<_, _>>()?,
        })
    }
}
