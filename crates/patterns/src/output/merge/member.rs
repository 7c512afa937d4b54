//! [`MergeMember`]: one scan and recipe that is merged with others, and the conditions for merging.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use recipe::{Combination, Mismatches, Recipe};
use records::{Acquisition, MonitorReadings};

use crate::h5::{self, Group};
use crate::output::inputs::OutputInputs;
use crate::output::reader::default_process;
use crate::output::row_sources::RowSources;
use crate::output::schema::{create_nexus_group, escape_name};
use crate::output::{BuildObserver, OutputError, OutputFile, OutputOptions, OutputSpec};
use crate::solid_angle::reference_solid_angle;
use crate::{Normalizer, PatternAxes, SharedBins};

/// Name of the group of the members.
const MEMBERS: &str = "members";

/// Inputs of one member of a merged final file.
pub(super) struct MergeMember<'a> {
    pub inputs: OutputInputs<'a>,
    pub recipe: Recipe,
    pub shared: Arc<SharedBins>,
    pub normalizer: Normalizer,
    pub row_sources: RowSources,
}

impl<'a> MergeMember<'a> {
    /// Reads the parts and the final file of one member, with sums.
    pub fn new(
        target: OutputSpec,
        options: &'a OutputOptions,
        observer: &'a dyn BuildObserver,
    ) -> Result<Self, OutputError> {
        let inputs = OutputInputs::new(target, options, true, observer)?;
        let nothing = || {
            OutputError::content(
                &inputs.target.path(),
                "not integrated yet; run ai-integrate before gather --merge",
            )
        };
        let (recipe, shared) = inputs.recipe_and_bins().ok_or_else(nothing)?;
        let normalizer = Normalizer::new(&recipe);
        let row_sources = inputs.choose_rows(&normalizer)?;
        Ok(Self { inputs, recipe, shared, normalizer, row_sources })
    }

    /// Returns the path of the member's own final file.
    pub fn path(&self) -> PathBuf {
        self.inputs.target.path()
    }

    pub fn scan(&self) -> &Acquisition {
        &self.inputs.target.task().acquisition
    }

    /// Returns the data digest of the member's own final file; empty if there is none.
    pub fn digest(&self) -> &str {
        self.inputs.existing.as_ref().map_or("", |existing| &existing.data_digest)
    }

    /// Returns the digest of the counters and motors that the member's own final file holds; empty if there is
    /// none.
    pub fn numbers_digest(&self) -> Result<String, OutputError> {
        self.inputs.existing.as_ref().map_or(Ok(String::new()), OutputFile::numbers_digest)
    }

    /// Returns whether patterns are not enough: if empty bins are 0, which can't be told from measured
    /// zeros, or if they were divided by another mean of the monitor than that of all members.
    pub fn needs_sums(&self) -> bool {
        self.normalizer.empty_value() == 0.0 || !self.normalizer.needs_only_own_frame()
    }

    /// Checks that the sums of two members are of the same quantity and over the same bins.
    pub fn check_mergeable(&self, other: &Self) -> Result<(), OutputError> {
        let unlike = |why: String| {
            Err(OutputError::NotMergeable { one: self.path(), two: other.path(), why })
        };
        if !self.shared.axes.agrees_with(&other.shared.axes) {
            let [one, two] =
                [self, other].map(|member| describe_axes(&member.shared.axes, &member.recipe));
            return unlike(format!(
                "their axes are {one} and {two}; integrate both with the same --unit, --radial-range and --npt, or the same \
                 --radial-edges"
            ));
        }
        if self.row_sources.status.len() != other.row_sources.status.len() {
            let [one, two] = [self, other].map(|member| member.row_sources.status.len());
            return unlike(format!(
                "their scans have {one} and {two} frames; frame k is merged with frame k, so both need the same number: \
                 merge scans of equal length, or average each of them (--average)"
            ));
        }
        let mismatches = self.mismatches(other);
        if mismatches.are_refused() {
            return unlike(mismatches.describe(&"the first", &"the second"));
        }
        if self.inputs.target.out_root() != other.inputs.target.out_root() {
            return unlike("they are in different output directories; expected one".to_owned());
        }
        Ok(())
    }

    /// Returns the settings in which the recipes of two members differ.
    pub fn mismatches(&self, other: &Self) -> Mismatches {
        let same_detector = self.scan().detector == other.scan().detector;
        self.recipe.mismatches(&other.recipe, Combination::Sum { same_detector })
    }

    /// Returns the solid angle of a pixel at normal incidence, pixel area / distance², in
    /// steradian; 1 without the solid-angle correction. The sums of a detector that moves refer to
    /// the distance in the recipe's PONI text.
    pub fn solid_angle(&self) -> Result<f64, OutputError> {
        reference_solid_angle(&self.recipe, self.scan())
            .map_err(|why| OutputError::content(&self.path(), format!("its PONI file: {why}")))
    }
}

/// Sets the reference of all members' monitors to the mean over the frames of all scans. With a
/// separate mean for each scan, a scan with three times the flux would appear with the same
/// intensity.
pub(super) fn use_common_monitor_mean(members: &mut [MergeMember]) {
    if members.iter().all(|member| member.normalizer.needs_only_own_frame()) {
        return;
    }
    // The detectors of a scan have one counter in common, of which some members may have more
    // readings than others.
    let mut scans: BTreeMap<_, MonitorReadings> = BTreeMap::new();
    for member in members.iter() {
        let scan = member.scan();
        let readings = scans.entry((scan.file.to_path_buf(), scan.entry.clone())).or_default();
        if readings.count < member.row_sources.readings.count {
            *readings = member.row_sources.readings;
        }
    }
    let mean =
        scans.into_values().fold(MonitorReadings::default(), MonitorReadings::combined_with).mean();
    members.iter_mut().for_each(|member| member.row_sources.reference = mean);
}

fn describe_axes(axes: &PatternAxes, recipe: &Recipe) -> String {
    let axis = |(axis, [low, high]): (&crate::PatternAxis, [f64; 2])| {
        format!("{} of {low:.6} to {high:.6} in {} bins", axis.label(), axis.centers.len())
    };
    axes.iter().zip(axes.bin_ranges(recipe)).map(axis).collect::<Vec<_>>().join(" by ")
}

/// Writes a group `members/01_<detector>` for each member, with its recipe and PONI text, and the digest
/// `numbers` of its counters and motors if the merged file has them.
pub(super) fn write_members(
    file: &Group,
    members: &[MergeMember],
    solid_angles: &[f64],
    numbers: &[Option<String>],
) -> h5::Result<()> {
    let all = create_nexus_group(&default_process(file)?, MEMBERS, "NXcollection")?;
    let of_each = members.iter().zip(solid_angles).zip(numbers);
    for (number, ((member, solid_angle), numbers)) in (1..).zip(of_each) {
        let (task, scan) = (member.inputs.target.task(), member.scan());
        let note = create_nexus_group(
            &all,
            &format!("{number:02}_{}", escape_name(&scan.detector)),
            "NXnote",
        )?;
        note.write_text("type", "application/toml")?;
        note.write_text("data", &member.recipe.to_toml())?;
        if let Some(poni) = member.recipe.common_poni() {
            note.write_text("poni", poni)?;
        }
        note.write_text("final", &task.final_file.to_string_lossy())?;
        note.write_text("entry", &scan.entry)?;
        note.write_text("data_digest", member.digest())?;
        if let Some(numbers) = numbers {
            note.write_text("counters_digest", numbers)?;
        }
        let dataset = note.write_list("solid_angle", &[*solid_angle])?;
        dataset.set_text("units", "sr")?;
    }
    Ok(())
}

impl OutputFile {
    /// Returns the recipe of the frames: that of the file or, as a merged file has no monitor any
    /// more, that of its first member.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn recipe_of_frames(&self) -> Result<Recipe, OutputError> {
        let of_member =
            first_member_recipe(&self.process).map_err(OutputError::hdf5(&self.path))?;
        Ok(of_member.unwrap_or_else(|| self.recipe.clone()))
    }
}

/// Returns the recipe of the first member of a merged final file; `None` if the file is not merged.
fn first_member_recipe(process: &Group) -> h5::Result<Option<Recipe>> {
    if !process.contains(MEMBERS)? {
        return Ok(None);
    }
    let all = process.group(MEMBERS)?;
    let names = all.member_names()?;
    let first = names.iter().min().ok_or("no members")?;
    let recipe = toml::from_str(&all.group(first)?.text("data")?);
    recipe.map(Some).map_err(|why| format!("members/{first}: {why}").into())
}

/// A member of a merged final file, as [`write_members`] noted it.
pub(super) struct NotedMember {
    /// Path of its final file relative to the output root.
    pub final_file: String,
    /// Digest of its data.
    pub data: String,
    /// Digest of its counters and motors, if the merged file has them; earlier versions noted none.
    pub numbers: Option<String>,
}

/// Returns the members of a merged final file.
pub(super) fn merged_finals(process: &Group) -> h5::Result<Vec<NotedMember>> {
    let all = process.group(MEMBERS)?;
    let read = |name: &String| {
        let member = all.group(name)?;
        let has_numbers = member.contains("counters_digest")?;
        Ok(NotedMember {
            final_file: member.text("final")?,
            data: member.text("data_digest")?,
            numbers: has_numbers.then(|| member.text("counters_digest")).transpose()?,
        })
    };
    all.member_names()?.iter().map(read).collect()
}
