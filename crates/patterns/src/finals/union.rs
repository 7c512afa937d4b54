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

use super::build::{Attempt, identity_of_final, open_verified, store};
use super::merge::{Frames, Merge, Merged};
use super::read::default_process;
use super::supply::{Origin, Supply};
use super::tree::{group, plain};
use super::write::Content;
use super::{Built, Error, Layout, Options, Target, Want, Watch, register};
use crate::coverage::directory;
use crate::finish::NAN64;
use crate::h5::{self, Group};
use crate::variance::Counted;
use crate::{Axes, Finish, Row, Shared, Status, Weights};

/// Whose patterns are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
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
pub fn unite(
    members: &[Target],
    name: &str,
    scope: Scope,
    options: &Options,
    watch: &dyn Watch,
) -> Result<(Target, Built), Error> {
    let mut members: Vec<Target> = members.to_vec();
    members.sort_by_key(Target::path);
    let locks = members.iter().map(|target| {
        let task = target.task();
        let directory = directory(target.out_root(), &task.scan, &task.recipe_digest);
        let directory = directory.expect("a target stays below its root");
        ownership::create_directories(&directory).map_err(Error::io(&directory))?;
        register::lock(&directory, watch)
    });
    let _locks: Vec<_> = locks.collect::<Result<_, Error>>()?;
    let mut members: Vec<Member> =
        members.into_iter().map(|target| Member::new(target, options, watch)).collect::<Result<_, _>>()?;
    let [first, others @ ..] = &members[..] else {
        return Err(Error::content(Path::new(name), "nothing to merge: expected two patterns or more"));
    };
    if others.is_empty() {
        return Err(Error::content(&first.path(), "nothing to merge it with: expected another detector or scan"));
    }
    others.iter().try_for_each(|other| first.check(other))?;
    share_mean(&mut members);
    let solid_angles = members.iter().map(Member::solid_angle).collect::<Result<Vec<_>, _>>()?;
    let union = Union::new(&members, &solid_angles, watch)?;
    let target = union.target(name, scope)?;
    let mut built = Built::of(&target, &union.supply);
    let digests: String = members.iter().flat_map(|member| [member.digest(), "\n"]).collect();
    built.layout = Some(options.layout).filter(|layout| layout.holds_patterns()).or(Some(Layout::Copy));
    let was = identity_of_final(&target.path())?;
    let mut sets_aside = false;
    match open_verified(&target.path(), options.keep_sums) {
        Ok(there) if there.parts.iter().flat_map(|part| [part, "\n"]).collect::<String>() == digests => {
            if there.is_intact() && there.has_all_of(options)? {
                (built.found, built.layout) = (true, Some(there.layout));
                built.data_digest = there.data_digest;
                return Ok((target, built));
            }
        }
        // Only a union has no sources of its own.
        Ok(there) if !there.task.acquisition.sources.is_empty() => {
            let why = "another final: expected a union of these members, or another name to merge into";
            return Err(Error::content(&target.path(), why));
        }
        // Of the same members as they were before: it is made anew.
        Ok(_) => (),
        Err(Error::Io { why, .. }) if why.kind() == ErrorKind::NotFound => (),
        Err(error @ (Error::Io { .. } | Error::Foreign { .. })) => return Err(error),
        Err(error) => {
            sets_aside = true;
            built.warnings.push(error.to_string());
        }
    }
    if options.want == Want::Complete && !built.is_settled() {
        return Ok((target, Built { layout: None, ..built }));
    }
    members.iter().try_for_each(Member::check_sums)?;
    let Union { recipe, finish, shared, supply, .. } = &union;
    let warnings = RefCell::default();
    let content = Content {
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
        sets_aside,
    };
    let note = |file: &Group| write_members(file, &members, &solid_angles).map_err(Error::hdf5(&target.path()));
    built.data_digest = store(&content, &mut union.frames()?, watch, was, note)?;
    built.warnings.append(&mut warnings.borrow_mut());
    Ok((target, built))
}

/// What of one scan and recipe goes into a union.
struct Member<'a> {
    attempt: Attempt<'a>,
    recipe: Recipe,
    shared: Arc<Shared>,
    finish: Finish,
    supply: Supply,
}

impl<'a> Member<'a> {
    fn new(target: Target, options: &'a Options, watch: &'a dyn Watch) -> Result<Self, Error> {
        let attempt = Attempt::new(target, options, true, watch)?;
        let nothing = || Error::content(&attempt.target.path(), "nothing is integrated yet");
        let (recipe, shared) = attempt.bins()?.ok_or_else(nothing)?;
        let finish = Finish::of(&recipe);
        let supply = Supply::new(&attempt.target, &attempt.parts, attempt.existing.as_ref(), &finish);
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
    fn check(&self, other: &Self) -> Result<(), Error> {
        let unlike = |why: String| Err(Error::Unlike { one: self.path(), two: other.path(), why });
        let edges = |member: &Self| (member.recipe.radial_edges.clone(), member.recipe.azimuth_edges.clone());
        if self.shared.axes != other.shared.axes || edges(self) != edges(other) {
            let [one, two] = [self, other].map(|member| describe(&member.shared.axes, &member.recipe));
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
        let is_by_mean = |member: &Self| !member.finish.is_framewise();
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
    fn solid_angle(&self) -> Result<f64, Error> {
        if !self.recipe.solid_angle {
            return Ok(1.0);
        }
        let wrong = |why: String| Error::content(&self.path(), format!("its PONI file: {why}"));
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

    fn check_sums(&self) -> Result<(), Error> {
        let frames = self.supply.kept_by_final();
        if let Some(existing) = &self.attempt.existing {
            let damaged = frames.intersection(&existing.damaged_sums.iter().copied().collect());
            if !damaged.is_empty() {
                return Err(Error::SumsDamaged { path: self.path(), frames: damaged });
            }
        }
        let has_sums = self.attempt.existing.as_ref().is_none_or(|existing| existing.has_sums);
        match frames.is_empty() || has_sums {
            true => Ok(()),
            false => Err(Error::SumsGone { path: self.path(), what: "--merge", frames }),
        }
    }
}

/// Divides the monitors of all members by one mean, that of all their scans' frames: by a mean of its own each, a scan of thrice the
/// flux would count as much as one that it is to be compared with.
fn share_mean(members: &mut [Member]) {
    if members.iter().all(|member| member.finish.is_framewise()) {
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

fn describe(axes: &Axes, recipe: &Recipe) -> String {
    let axis = |(axis, [low, high]): (&crate::Axis, [f64; 2])| {
        format!("{} of {low:.6} to {high:.6} in {} bins", axis.label(), axis.centers.len())
    };
    axes.iter().zip(axes.limits(recipe)).map(axis).collect::<Vec<_>>().join(" by ")
}

/// What is to be written.
struct Union<'a> {
    members: &'a [Member<'a>],
    /// What each member's weights are multiplied by.
    factors: Vec<f64>,
    recipe: Recipe,
    finish: Finish,
    shared: Shared,
    supply: Supply,
}

impl<'a> Union<'a> {
    fn new(members: &'a [Member], solid_angles: &[f64], watch: &dyn Watch) -> Result<Self, Error> {
        super::options::go_on(watch)?;
        let first = &members[0];
        let factors: Vec<f64> = solid_angles.iter().map(|angle| angle / solid_angles[0]).collect();
        // The monitors have gone into the weights.
        let recipe = Recipe { monitor: Vec::new(), ..first.recipe.clone() };
        let of_each = members.iter().zip(&factors).map(|(member, factor)| (&member.shared.weights, *factor));
        let shared = Shared { axes: first.shared.axes.clone(), weights: sum(of_each) };
        let frames = first.supply.status.len();
        let worst = |frame: usize| {
            members.iter().map(|member| member.supply.status[frame]).find(|status| *status != Status::Ok)
        };
        let supply = Supply {
            origins: vec![Origin::Nothing; frames],
            status: (0..frames).map(|frame| worst(frame).unwrap_or_default()).collect(),
            monitor: vec![NAN64; frames],
            stored_digest: vec![0; frames],
            reference: 1.0,
            ..Supply::default()
        };
        let finish = Finish::of(&recipe);
        Ok(Self { members, factors, finish, recipe, shared, supply })
    }

    /// The union as a final of its own: of a scan that is all of theirs, by a recipe that is all of theirs.
    fn target(&self, name: &str, scope: Scope) -> Result<Target, Error> {
        let first = &self.members[0];
        let task = first.attempt.target.task();
        let identity = |what: &str, of: &dyn Fn(&Task) -> String| {
            self.members.iter().fold(IdHasher::new(what).add_text(name), |digest, member| {
                digest.add_text(&of(member.attempt.target.task()))
            })
        };
        let final_file = match scope {
            Scope::Scans => PathBuf::from(format!("{name}.h5")),
            Scope::Detectors => {
                let stem = task.final_file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let tail = format!("_{}", plain(&first.scan().detector));
                let head = stem.rfind(&tail).map_or(stem.as_str(), |at| &stem[..at]).to_owned();
                task.final_file.with_file_name(format!("{head}_{name}.h5"))
            }
        };
        if let Some(member) = self.members.iter().find(|member| *member.attempt.target.task().final_file == *final_file)
        {
            return Err(Error::content(&member.path(), "a pattern of its own: expected another name to merge into"));
        }
        let scan = identity("union", &|task| task.scan.clone()).to_short_hex();
        let recipe_digest = identity("union", &|task| task.recipe_digest.clone()).to_hex();
        let complete = self.members.iter().all(|member| member.scan().complete);
        // It got as far as the member that got least far, and lacks what any of them lacks.
        let least = self.members.iter().map(Member::scan).min_by_key(|scan| progress(scan.scan_state()));
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
        if scope == Scope::Scans {
            // Counters and positions are those of one scan.
            acquisition.dataset.clear();
            acquisition.counters.clear();
        }
        let final_file = final_file.into();
        let range = Spans::first_n(acquisition.frames);
        let task = Task { scan, recipe_digest, final_file, range, acquisition, monitor_readings: None, ..task.clone() };
        Target::new(first.attempt.target.out_root(), &task)
    }

    fn frames(&'a self) -> Result<United<'a>, Error> {
        let merge = |member: &'a Member| {
            let Member { attempt, supply, shared, finish, .. } = member;
            Merge::new(supply, &attempt.parts, attempt.existing.as_ref(), shared, finish, true)
        };
        Ok(United { union: self, merges: self.members.iter().map(merge).collect::<Result<_, _>>()? })
    }
}

/// The frames of a union.
struct United<'a> {
    union: &'a Union<'a>,
    merges: Vec<Merge<'a>>,
}

impl Frames for United<'_> {
    fn frame(&mut self, frame: usize) -> Result<Merged, Error> {
        let Union { factors, finish, supply, shared, .. } = self.union;
        let nothing = |status| Merged { status, pattern: None, sums: None, scale: f64::NAN, counted: None };
        let status = supply.status[frame];
        if status != Status::Ok {
            return Ok(nothing(status));
        }
        let merged = self.merges.iter_mut().map(|merge| merge.frame(frame)).collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        for (merged, merge) in merged.iter().zip(&self.merges) {
            let Some(row) = &merged.sums else { return Ok(nothing(Status::NotIntegrated)) };
            rows.push((row, merge.weights(row), merged.scale));
        }
        let weights = rows.iter().zip(factors).map(|((_, weights, scale), factor)| (*weights, scale * factor));
        let own = sum(weights);
        let (variance, counted) = self.variance(&rows);
        let row = Row {
            frame: frame as u64,
            monitor: NAN64,
            signal: add(rows.iter().map(|(row, ..)| (&row.signal[..], 1.0))),
            variance,
            exception: (own != shared.weights).then_some(own),
            ..Row::default()
        };
        let pattern = finish.with_variances_as_they_are().pattern(&row, self.shared_weights(), 1.0);
        Ok(Merged { status, pattern, sums: Some(row), scale: 1.0, counted })
    }

    fn shared_weights(&self) -> &Weights {
        &self.union.shared.weights
    }
}

/// The order in which scans are further than others.
fn progress(state: ScanState) -> u8 {
    match state {
        ScanState::Running => 0,
        ScanState::Aborted => 1,
        ScanState::Unknown => 2,
        ScanState::Ended => 3,
    }
}

impl United<'_> {
    /// Returns the variance of the members' sums as their error floor has it, and by the counts alone; `None` where a member
    /// has no errors.
    fn variance(&self, rows: &[(&Row, &Weights, f64)]) -> (Option<Vec<f64>>, Option<(Counted, usize)>) {
        let variances: Option<Vec<&[f64]>> = rows.iter().map(|(row, ..)| row.variance.as_deref()).collect();
        let Some(variances) = variances else { return (None, None) };
        let mut counted = Counted::new(self.union.shared.axes.bins());
        for ((row, own, _), member) in rows.iter().zip(self.union.members) {
            member.finish.variances().add_frame(row, own, &member.shared.weights, &mut counted);
        }
        let all_pixels = add(variances.into_iter().map(|variance| (variance, 1.0)));
        (Some(self.union.finish.variances().of_members(all_pixels, &counted, rows.len())), Some((counted, rows.len())))
    }
}

/// The weights of several, each multiplied by a factor.
fn sum<'a>(of: impl Iterator<Item = (&'a Weights, f64)> + Clone) -> Weights {
    Weights {
        norm: add(of.clone().map(|(weights, factor)| (&weights.norm[..], factor))),
        norm_sq: add(of.clone().map(|(weights, factor)| (&weights.norm_sq[..], factor * factor))),
        count: add(of.map(|(weights, _)| (&weights.count[..], 1.0))),
    }
}

/// Lists added bin by bin, each multiplied by a factor.
fn add<'a>(lists: impl Iterator<Item = (&'a [f64], f64)>) -> Vec<f64> {
    let mut sums = Vec::new();
    for (list, factor) in lists {
        sums.resize(list.len(), 0.0);
        sums.iter_mut().zip(list).for_each(|(sum, value)| *sum += value * factor);
    }
    sums
}

/// Writes whose patterns they are: `members/01_<detector>`, each with its recipe and PONI text.
fn write_members(file: &Group, members: &[Member], solid_angles: &[f64]) -> h5::Result<()> {
    let all = group(&default_process(file)?, "members", "NXcollection")?;
    for (number, (member, solid_angle)) in (1..).zip(members.iter().zip(solid_angles)) {
        let (task, scan) = (member.attempt.target.task(), member.scan());
        let note = group(&all, &format!("{number:02}_{}", plain(&scan.detector)), "NXnote")?;
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
