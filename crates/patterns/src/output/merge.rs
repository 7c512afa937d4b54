//! Patterns of several detectors, or of one at several positions, on one axis: the sums of their sums.
//!
//! Frame by frame and bin by bin over the members, with the ratio g of each one's monitor and the solid angle Ω of its
//! pixel at the point of normal incidence (pixel area / distance²) over that of the first:
//!
//! > S = Σ Sᵢ, V = Σ Vᵢ, W = Σ Wᵢ gᵢ Ωᵢ, W₂ = Σ W₂ᵢ (gᵢ Ωᵢ)², intensity = S / W, error = √V / W
//!
//! where V is the variance by the counts alone with a floor of one photon of all members together, unless the floor is that of
//! each pixel ([`crate::variance`]). That is what pyFAI's `MultiGeometry` defines, but for its scale: pyFAI divides by the solid angle in steradian,
//! here a member's own pattern and the merged one have the same scale. Where solid angles are not corrected for, Ω is 1.
//! A monitor that is divided by its mean is divided by one mean for all members, over the frames of all their scans.
//! A frame that one member lacks is missing: a pattern of the others would be another quantity.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filter::ownership;
use geometry::{Detector, PixelMapping, Poni};
use recipe::Recipe;
use records::{Acquisition, IdHasher, MonitorReadings, ScanState, Spans, Task};

use super::build::{OutputInputs, open_verified, output_version, write_verified};
use super::frame_source::{FrameSource, OutputFrame, ScanFrames};
use super::reader::default_process;
use super::row_sources::{RowSource, RowSources};
use super::schema::{create_nexus_group, escape_name};
use super::writer::OutputContent;
use super::{
    BuildObserver, BuildOutcome, OutputError, OutputLayout, OutputOptions, OutputSpec, WritePolicy, part_index,
};
use crate::coverage::parts_dir;
use crate::h5::{self, Group};
use crate::normalize::NAN64;
use crate::variance::PhotonVariance;
use crate::{BinWeights, FrameRow, Normalizer, PatternAxes, SharedBins, Status};

/// Whose patterns are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeScope {
    /// The detectors of one scan.
    Detectors,
    /// Several scans.
    Scans,
}

/// Merges the finals of these targets, whose sums must be there, into one that bears `name`: beside them where they
/// are of one scan, in the output root where they are of several. Nothing is written where it is there already.
///
/// # Errors
/// Less than two members; members of other axes, numbers of frames, corrections or error models; sums that are gone;
/// a file that can't be read or written.
pub fn merge(
    members: &[OutputSpec],
    name: &str,
    scope: MergeScope,
    options: &OutputOptions,
    watch: &dyn BuildObserver,
) -> Result<(OutputSpec, BuildOutcome), OutputError> {
    let mut members: Vec<OutputSpec> = members.to_vec();
    members.sort_by_key(OutputSpec::path);
    let locks = members.iter().map(|target| {
        let task = target.task();
        let directory = parts_dir(target.out_root(), &task.scan, &task.recipe_digest);
        let directory = directory.expect("a target stays below its root");
        ownership::create_directories(&directory).map_err(OutputError::io(&directory))?;
        part_index::lock(&directory, watch)
    });
    let _locks: Vec<_> = locks.collect::<Result<_, OutputError>>()?;
    let mut members: Vec<MergeMember> =
        members.into_iter().map(|target| MergeMember::new(target, options, watch)).collect::<Result<_, _>>()?;
    let [first, others @ ..] = &members[..] else {
        return Err(OutputError::content(Path::new(name), "nothing to merge: expected two patterns or more"));
    };
    if others.is_empty() {
        return Err(OutputError::content(&first.path(), "nothing to merge it with: expected another detector or scan"));
    }
    others.iter().try_for_each(|other| first.check_mergeable(other))?;
    use_common_monitor_mean(&mut members);
    let solid_angles = members.iter().map(MergeMember::solid_angle).collect::<Result<Vec<_>, _>>()?;
    let union = MergePlan::new(&members, &solid_angles, watch)?;
    let target = union.output_spec(name, scope)?;
    let mut built = BuildOutcome::new(&target, &union.supply);
    let digests: String = members.iter().flat_map(|member| [member.digest(), "\n"]).collect();
    built.layout = Some(options.layout).filter(|layout| layout.holds_patterns()).or(Some(OutputLayout::Copy));
    let was = output_version(&target.path())?;
    let mut sets_aside = false;
    match open_verified(&target.path(), options.keep_sums) {
        Ok(there) if there.parts.iter().flat_map(|part| [part, "\n"]).collect::<String>() == digests => {
            if there.is_intact() && there.satisfies(options)? {
                (built.was_current, built.layout) = (true, Some(there.layout));
                built.data_digest = there.data_digest;
                return Ok((target, built));
            }
        }
        // Only a union has no sources of its own.
        Ok(there) if !there.task.acquisition.sources.is_empty() => {
            let why = "another final: expected a union of these members, or another name to merge into";
            return Err(OutputError::content(&target.path(), why));
        }
        // Of the same members as they were before: it is made anew.
        Ok(_) => (),
        Err(OutputError::Io { why, .. }) if why.kind() == ErrorKind::NotFound => (),
        Err(error @ (OutputError::Io { .. } | OutputError::NotOwned { .. })) => return Err(error),
        Err(error) => {
            sets_aside = true;
            built.warnings.push(error.to_string());
        }
    }
    if options.policy == WritePolicy::WhenComplete && !built.is_final_state() {
        return Ok((target, BuildOutcome { layout: None, ..built }));
    }
    members.iter().try_for_each(MergeMember::check_sums)?;
    let MergePlan { recipe, finish, shared, supply, .. } = &union;
    let warnings = RefCell::default();
    let content = OutputContent {
        target: &target,
        recipe,
        finish: *finish,
        shared,
        parts: &[],
        existing: None,
        supply,
        part_digests: &digests,
        layout: built.layout.unwrap_or_default(),
        keep_sums: options.keep_sums,
        average: options.average,
        warnings: &warnings,
        renames_damaged: sets_aside,
    };
    let note = |file: &Group| write_members(file, &members, &solid_angles).map_err(OutputError::hdf5(&target.path()));
    built.data_digest = write_verified(&content, &mut union.frames()?, watch, was, note)?;
    built.warnings.append(&mut warnings.borrow_mut());
    Ok((target, built))
}

/// What of one scan and recipe goes into a union.
struct MergeMember<'a> {
    attempt: OutputInputs<'a>,
    recipe: Recipe,
    shared: Arc<SharedBins>,
    finish: Normalizer,
    supply: RowSources,
}

impl<'a> MergeMember<'a> {
    fn new(target: OutputSpec, options: &'a OutputOptions, watch: &'a dyn BuildObserver) -> Result<Self, OutputError> {
        let attempt = OutputInputs::new(target, options, true, watch)?;
        let nothing = || OutputError::content(&attempt.target.path(), "nothing is integrated yet");
        let (recipe, shared) = attempt.recipe_and_bins()?.ok_or_else(nothing)?;
        let finish = Normalizer::new(&recipe);
        let supply = RowSources::new(&attempt.target, &attempt.parts, attempt.existing.as_ref(), &finish);
        Ok(Self { attempt, recipe, shared, finish, supply })
    }

    fn path(&self) -> PathBuf {
        self.attempt.target.path()
    }

    fn scan(&self) -> &Acquisition {
        &self.attempt.target.task().acquisition
    }

    fn digest(&self) -> &str {
        self.attempt.existing.as_ref().map_or("", |existing| &existing.data_digest)
    }

    /// Whether the sums of both are of one quantity over the same bins.
    fn check_mergeable(&self, other: &Self) -> Result<(), OutputError> {
        let unlike = |why: String| Err(OutputError::NotMergeable { one: self.path(), two: other.path(), why });
        let edges = |member: &Self| (member.recipe.radial_edges.clone(), member.recipe.azimuth_edges.clone());
        if self.shared.axes != other.shared.axes || edges(self) != edges(other) {
            let [one, two] = [self, other].map(|member| describe_axes(&member.shared.axes, &member.recipe));
            return unlike(format!(
                "{one}, and {two}: expected the same unit, range and bins (plan-split --unit, --radial-range, --npt, or \
                 --radial-edges)"
            ));
        }
        if self.supply.status.len() != other.supply.status.len() {
            let [one, two] = [self, other].map(|member| member.supply.status.len());
            return unlike(format!(
                "{one} frames, and {two}: frame k is merged with frame k, so there must be as many; give gather scans of \
                 one length, or take the average of each by itself (--average)"
            ));
        }
        let corrected = |member: &Self| (member.recipe.solid_angle, member.recipe.polarization.is_some());
        if corrected(self) != corrected(other) {
            return unlike("corrected for solid angle and polarization in one, and not so in the other".to_owned());
        }
        let errors = |member: &Self| (member.recipe.error_model, member.recipe.error, member.recipe.error_floor);
        if errors(self) != errors(other) {
            return unlike(
                "errors of two models: expected the same --error-model, --error and --error-floor".to_owned(),
            );
        }
        let is_by_mean = |member: &Self| !member.finish.needs_only_own_frame();
        if (is_by_mean(self) || is_by_mean(other)) && self.recipe.monitor != other.recipe.monitor {
            return unlike(
                "divided by the means of two monitors, which have no mean in common: expected the same --monitor and \
                 --monitor-reference, or a number as reference"
                    .to_owned(),
            );
        }
        if self.attempt.target.out_root() != other.attempt.target.out_root() {
            return unlike("below two output roots: expected one".to_owned());
        }
        Ok(())
    }

    /// Pixel area over distance², steradian; 1 where it is not corrected for.
    fn solid_angle(&self) -> Result<f64, OutputError> {
        if !self.recipe.solid_angle {
            return Ok(1.0);
        }
        let wrong = |why: String| OutputError::content(&self.path(), format!("its PONI file: {why}"));
        let poni = Poni::parse(&self.recipe.poni).map_err(|why| wrong(why.to_string()))?;
        let area = match (&poni.detector.config.pixel1, &poni.detector.config.pixel2, poni.detector.file()) {
            (Some(pixel1), Some(pixel2), Some(_)) => pixel1 * pixel2,
            (_, _, Some(_)) => 1.0,
            (_, _, None) => {
                let framing = self.recipe.framing(&self.scan().frame_layout());
                let view = Detector::from_poni(&poni).and_then(|detector| PixelMapping::new(&detector, &framing));
                let detector = view.map_err(|why| wrong(why.to_string()))?.detector;
                detector.pixel1 * detector.pixel2
            }
        };
        Ok(area / (poni.dist * poni.dist))
    }

    fn check_sums(&self) -> Result<(), OutputError> {
        let frames = self.supply.frames_from_output();
        if let Some(existing) = &self.attempt.existing {
            let damaged = frames.intersection(&existing.damaged_sums.iter().copied().collect());
            if !damaged.is_empty() {
                return Err(OutputError::SumsDamaged { path: self.path(), frames: damaged });
            }
        }
        let has_sums = self.attempt.existing.as_ref().is_none_or(|existing| existing.has_sums);
        match frames.is_empty() || has_sums {
            true => Ok(()),
            false => Err(OutputError::SumsGone { path: self.path(), what: "--merge", frames }),
        }
    }
}

/// Divides the monitors of all members by one mean, that of all their scans' frames: by a mean of its own each, a scan of thrice the
/// flux would count as much as one that it is to be compared with.
fn use_common_monitor_mean(members: &mut [MergeMember]) {
    if members.iter().all(|member| member.finish.needs_only_own_frame()) {
        return;
    }
    // The detectors of a scan have one counter, of which some may have read more than others.
    let mut scans: BTreeMap<_, MonitorReadings> = BTreeMap::new();
    for member in members.iter() {
        let scan = member.scan();
        let readings = scans.entry((scan.file.to_path_buf(), scan.entry.clone())).or_default();
        if readings.count < member.supply.readings.count {
            *readings = member.supply.readings;
        }
    }
    let mean = scans.into_values().fold(MonitorReadings::default(), MonitorReadings::combined_with).mean();
    members.iter_mut().for_each(|member| member.supply.reference = mean);
}

fn describe_axes(axes: &PatternAxes, recipe: &Recipe) -> String {
    let axis = |(axis, [low, high]): (&crate::PatternAxis, [f64; 2])| {
        format!("{} of {low:.6} to {high:.6} in {} bins", axis.label(), axis.centers.len())
    };
    axes.iter().zip(axes.bin_ranges(recipe)).map(axis).collect::<Vec<_>>().join(" by ")
}

/// What is to be written.
struct MergePlan<'a> {
    members: &'a [MergeMember<'a>],
    /// What each member's weights are multiplied by.
    factors: Vec<f64>,
    recipe: Recipe,
    finish: Normalizer,
    shared: SharedBins,
    supply: RowSources,
}

impl<'a> MergePlan<'a> {
    fn new(members: &'a [MergeMember], solid_angles: &[f64], watch: &dyn BuildObserver) -> Result<Self, OutputError> {
        super::options::check_cancelled(watch)?;
        let first = &members[0];
        let factors: Vec<f64> = solid_angles.iter().map(|angle| angle / solid_angles[0]).collect();
        // The monitors have gone into the weights.
        let recipe = Recipe { monitor: Vec::new(), ..first.recipe.clone() };
        let of_each = members.iter().zip(&factors).map(|(member, factor)| (&member.shared.weights, *factor));
        let shared = SharedBins { axes: first.shared.axes.clone(), weights: sum_weights(of_each) };
        let frames = first.supply.status.len();
        let worst = |frame: usize| {
            members.iter().map(|member| member.supply.status[frame]).find(|status| *status != Status::Ok)
        };
        let supply = RowSources {
            sources: vec![RowSource::None; frames],
            status: (0..frames).map(|frame| worst(frame).unwrap_or_default()).collect(),
            monitor: vec![NAN64; frames],
            stored_digest: vec![0; frames],
            reference: 1.0,
            ..RowSources::default()
        };
        let finish = Normalizer::new(&recipe);
        Ok(Self { members, factors, finish, recipe, shared, supply })
    }

    /// The union as a final of its own: of a scan that is all of theirs, by a recipe that is all of theirs.
    fn output_spec(&self, name: &str, scope: MergeScope) -> Result<OutputSpec, OutputError> {
        let first = &self.members[0];
        let task = first.attempt.target.task();
        let identity = |what: &str, of: &dyn Fn(&Task) -> String| {
            self.members.iter().fold(IdHasher::new(what).add_text(name), |digest, member| {
                digest.add_text(&of(member.attempt.target.task()))
            })
        };
        let final_file = match scope {
            MergeScope::Scans => PathBuf::from(format!("{name}.h5")),
            MergeScope::Detectors => {
                let stem = task.final_file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let tail = format!("_{}", escape_name(&first.scan().detector));
                let head = stem.rfind(&tail).map_or(stem.as_str(), |at| &stem[..at]).to_owned();
                task.final_file.with_file_name(format!("{head}_{name}.h5"))
            }
        };
        if let Some(member) = self.members.iter().find(|member| *member.attempt.target.task().final_file == *final_file)
        {
            return Err(OutputError::content(
                &member.path(),
                "a pattern of its own: expected another name to merge into",
            ));
        }
        let scan = identity("union", &|task| task.scan.clone()).to_short_hex();
        let recipe_digest = identity("union", &|task| task.recipe_digest.clone()).to_hex();
        let complete = self.members.iter().all(|member| member.scan().complete);
        // It got as far as the member that got least far, and lacks what any of them lacks.
        let least = self.members.iter().map(MergeMember::scan).min_by_key(|scan| completion_rank(scan.scan_state()));
        let least = least.unwrap_or(first.scan());
        let absent = self.members.iter().flat_map(|member| member.attempt.target.absent()).collect();
        let mut acquisition = Acquisition {
            detector: name.to_owned(),
            sources: Vec::new(),
            absent,
            complete,
            start_time: least.start_time.clone(),
            end_time: least.end_time.clone(),
            end_reason: least.end_reason.clone(),
            ..first.scan().clone()
        };
        if scope == MergeScope::Scans {
            // Counters and positions are those of one scan.
            acquisition.dataset.clear();
            acquisition.counters.clear();
        }
        let final_file = final_file.into();
        let range = Spans::first_n(acquisition.frames);
        let task = Task { scan, recipe_digest, final_file, range, acquisition, monitor_readings: None, ..task.clone() };
        OutputSpec::new(first.attempt.target.out_root(), &task)
    }

    fn frames(&'a self) -> Result<MergedFrames<'a>, OutputError> {
        let merge = |member: &'a MergeMember| {
            let MergeMember { attempt, supply, shared, finish, .. } = member;
            ScanFrames::new(supply, &attempt.parts, attempt.existing.as_ref(), shared, finish, true)
        };
        Ok(MergedFrames { union: self, merges: self.members.iter().map(merge).collect::<Result<_, _>>()? })
    }
}

/// The frames of a union.
struct MergedFrames<'a> {
    union: &'a MergePlan<'a>,
    merges: Vec<ScanFrames<'a>>,
}

impl FrameSource for MergedFrames<'_> {
    fn read_frame(&mut self, frame: usize) -> Result<OutputFrame, OutputError> {
        let MergePlan { factors, finish, supply, shared, .. } = self.union;
        let nothing = |status| OutputFrame { status, pattern: None, sums: None, scale: f64::NAN, counted: None };
        let status = supply.status[frame];
        if status != Status::Ok {
            return Ok(nothing(status));
        }
        let merged = self.merges.iter_mut().map(|merge| merge.read_frame(frame)).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        for (merged, merge) in merged.iter().zip(&self.merges) {
            let Some(row) = &merged.sums else { return Ok(nothing(Status::NotIntegrated)) };
            rows.push((row, merge.weights(row), merged.scale));
        }
        let weights = rows.iter().zip(factors).map(|((_, weights, scale), factor)| (*weights, scale * factor));
        let own = sum_weights(weights);
        let (variance, counted) = self.variance(&rows);
        let row = FrameRow {
            frame: frame as u64,
            monitor: NAN64,
            signal: sum_lists(rows.iter().map(|(row, ..)| (&row.signal[..], 1.0))),
            variance,
            weight_override: (own != shared.weights).then_some(own),
            ..FrameRow::default()
        };
        let pattern = finish.without_variance_rule().normalize(&row, self.shared_weights(), 1.0);
        Ok(OutputFrame { status, pattern, sums: Some(row), scale: 1.0, counted })
    }

    fn shared_weights(&self) -> &BinWeights {
        &self.union.shared.weights
    }
}

/// The order in which scans are further than others.
fn completion_rank(state: ScanState) -> u8 {
    match state {
        ScanState::Running => 0,
        ScanState::Aborted => 1,
        ScanState::Unknown => 2,
        ScanState::Ended => 3,
    }
}

impl MergedFrames<'_> {
    /// Returns the variance of the members' sums as their error floor has it, and by the counts alone; `None` where a member
    /// has no errors.
    fn variance(&self, rows: &[(&FrameRow, &BinWeights, f64)]) -> (Option<Vec<f64>>, Option<(PhotonVariance, usize)>) {
        let variances: Option<Vec<&[f64]>> = rows.iter().map(|(row, ..)| row.variance.as_deref()).collect();
        let Some(variances) = variances else { return (None, None) };
        let mut counted = PhotonVariance::new(self.union.shared.axes.bins());
        for ((row, own, _), member) in rows.iter().zip(self.union.members) {
            member.finish.variance_rule().add_frame_variance(row, own, &member.shared.weights, &mut counted);
        }
        let all_pixels = sum_lists(variances.into_iter().map(|variance| (variance, 1.0)));
        (
            Some(self.union.finish.variance_rule().merged_variance(all_pixels, &counted, rows.len())),
            Some((counted, rows.len())),
        )
    }
}

/// The weights of several, each multiplied by a factor.
fn sum_weights<'a>(of: impl Iterator<Item = (&'a BinWeights, f64)> + Clone) -> BinWeights {
    BinWeights {
        norm: sum_lists(of.clone().map(|(weights, factor)| (&weights.norm[..], factor))),
        norm_sq: sum_lists(of.clone().map(|(weights, factor)| (&weights.norm_sq[..], factor * factor))),
        count: sum_lists(of.map(|(weights, _)| (&weights.count[..], 1.0))),
    }
}

/// Lists added bin by bin, each multiplied by a factor.
fn sum_lists<'a>(lists: impl Iterator<Item = (&'a [f64], f64)>) -> Vec<f64> {
    let mut sums = Vec::new();
    for (list, factor) in lists {
        sums.resize(list.len(), 0.0);
        sums.iter_mut().zip(list).for_each(|(sum, value)| *sum += value * factor);
    }
    sums
}

/// Writes whose patterns they are: `members/01_<detector>`, each with its recipe and PONI text.
fn write_members(file: &Group, members: &[MergeMember], solid_angles: &[f64]) -> h5::Result<()> {
    let all = create_nexus_group(&default_process(file)?, "members", "NXcollection")?;
    for (number, (member, solid_angle)) in (1..).zip(members.iter().zip(solid_angles)) {
        let (task, scan) = (member.attempt.target.task(), member.scan());
        let note = create_nexus_group(&all, &format!("{number:02}_{}", escape_name(&scan.detector)), "NXnote")?;
        note.write_text("type", "application/toml")?;
        note.write_text("data", &member.recipe.to_toml())?;
        note.write_text("poni", &member.recipe.poni)?;
        note.write_text("final", &task.final_file.to_string_lossy())?;
        note.write_text("entry", &scan.entry)?;
        note.write_text("data_digest", member.digest())?;
        let dataset = note.write_list("solid_angle", &[*solid_angle])?;
        dataset.set_text("units", "sr")?;
    }
    Ok(())
}
