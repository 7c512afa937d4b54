//! Writes a final: the tree, then frame after frame, then what answers for coverage.

use std::cell::RefCell;
use std::io::ErrorKind;

use recipe::Recipe;
use records::{Acquisition, Record, Spans, Task};

use super::average_group::AverageWriter;
use super::frame_source::{FrameSource, OutputFrame};
use super::options::check_cancelled;
use super::row_sources::RowSources;
use super::schema::{NexusTree, name};
use super::{Average, BuildObserver, OutputFile, OutputLayout, OutputSpec, digest, integrator_layout, virtual_layout};
use crate::h5::{self, Group};
use crate::normalize::{NAN32, NAN64, canonical_nan};
use crate::part::{Part, row_dataset};
use crate::row_writer::RowWriter;
use crate::weight_overrides::WeightOverridesWriter;
use crate::{Normalizer, SharedBins};

/// Frames between two looks at whoever watches.
const CANCEL_CHECK_FRAMES: usize = 64;

/// What goes into a final.
pub(super) struct OutputContent<'a> {
    pub target: &'a OutputSpec,
    pub recipe: &'a Recipe,
    pub finish: Normalizer,
    pub shared: &'a SharedBins,
    pub parts: &'a [Part],
    /// The final whose place it takes.
    pub existing: Option<&'a OutputFile>,
    pub supply: &'a RowSources,
    /// The checksums of all parts that have gone into it, now and before.
    pub part_digests: &'a str,
    pub layout: OutputLayout,
    pub keep_sums: bool,
    pub average: Option<Average>,
    /// What could not be had for it, each worth a warning.
    pub warnings: &'a RefCell<Vec<String>>,
    /// Whether a damaged file lies in its place, which is kept under another name.
    pub renames_damaged: bool,
}

impl OutputContent<'_> {
    /// Whether the final is to have the frames' sums.
    pub fn has_sums(&self) -> bool {
        self.layout == OutputLayout::Virtual || self.keep_sums
    }

    /// Opens the raw file of the scan; `None` where it is not there, or is an image, which has no counters. One that can't be read gives a warning: it may well be
    /// there for whoever reads the final.
    pub fn raw_file(&self) -> Option<h5::Hdf5File> {
        let scan = &self.target.task().acquisition;
        if scan.dataset.is_empty() && scan.counters.is_empty() {
            return None;
        }
        match h5::Hdf5File::open(&scan.file) {
            Ok(raw) => Some(raw),
            Err(h5::Hdf5Error::Io(why)) if why.kind() == ErrorKind::NotFound => None,
            Err(why) => {
                self.warn_of_raw_file(&why);
                None
            }
        }
    }

    /// Warns that something is not in the final because the raw file can't be read.
    pub fn warn_of_raw_file(&self, why: &h5::Hdf5Error) {
        let path = self.target.task().acquisition.file.display();
        let warning = format!("{path}: {why}: its counters and positions are not copied");
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Writes a final into a new file, and returns the digest of its data.
///
/// # Errors
/// Of reading rows, and of writing.
pub(super) fn write_output(
    file: &Group,
    content: &OutputContent,
    frames: &mut dyn FrameSource,
    watch: &dyn BuildObserver,
) -> Result<String, super::OutputError> {
    let path = content.target.path();
    let hdf5 = super::OutputError::hdf5(&path);
    let tree = NexusTree::create(file, content).map_err(&hdf5)?;
    let mut body = RowDatasets::create(&tree, content).map_err(&hdf5)?;
    for frame in 0..content.supply.status.len() {
        if frame % CANCEL_CHECK_FRAMES == 0 {
            check_cancelled(watch)?;
            watch.advance(CANCEL_CHECK_FRAMES.min(content.supply.status.len().saturating_sub(frame)) as u64);
        }
        let merged = frames.read_frame(frame)?;
        body.push(frame as u64, &merged).map_err(&hdf5)?;
        if let Some(averager) = &mut body.averager {
            averager.push(frame as u64, &merged, frames)?;
        }
    }
    let digest = body.finish(&tree).map_err(&hdf5)?;
    if content.layout == OutputLayout::Integrator {
        integrator_layout::write_integrator_names(file, &tree, content).map_err(&hdf5)?;
    }
    Ok(digest)
}

/// The datasets of one row a frame.
struct RowDatasets<'a> {
    content: &'a OutputContent<'a>,
    intensity: Option<RowWriter<f32>>,
    errors: Option<RowWriter<f32>>,
    signal: Option<RowWriter<f64>>,
    variance: Option<RowWriter<f64>>,
    exceptions: Option<WeightOverridesWriter>,
    averager: Option<AverageWriter<'a>>,
    row_digests: Vec<u64>,
}

impl<'a> RowDatasets<'a> {
    fn create(tree: &NexusTree, content: &'a OutputContent) -> h5::Result<Self> {
        let (group, shape) = (&tree.integrated, content.shared.axes.shape());
        let (finish, rows) = (&content.finish, content.supply.status.len());
        let is_virtual = content.layout == OutputLayout::Virtual;
        // What depends on a frame alone is mapped, what depends on the whole scan is stored.
        let map_patterns = is_virtual && finish.needs_only_own_frame();
        let has_sums = content.has_sums();
        let patterns =
            [(true, name::INTENSITY, row_dataset::INTENSITY), (finish.has_errors(), name::ERRORS, row_dataset::ERRORS)];
        let sums = [
            (has_sums, name::SIGNAL, row_dataset::SIGNAL),
            (has_sums && finish.has_errors(), name::VARIANCE, row_dataset::VARIANCE),
        ];
        let [intensity, errors] = patterns.map(|(wanted, name, in_part)| match (wanted, map_patterns) {
            (true, false) => RowWriter::with_rows(group, name, rows, &shape).map(Some),
            (true, true) => virtual_layout::create_virtual_dataset(group, name, in_part, NAN32, content).map(|()| None),
            (false, _) => Ok(None),
        });
        let [signal, variance] = sums.map(|(wanted, name, in_part)| match (wanted, is_virtual) {
            (true, false) => RowWriter::with_rows(group, name, rows, &shape).map(Some),
            (true, true) => virtual_layout::create_virtual_dataset(group, name, in_part, NAN64, content).map(|()| None),
            (false, _) => Ok(None),
        });
        Ok(Self {
            content,
            intensity: intensity?,
            errors: errors?,
            signal: signal?,
            variance: variance?,
            exceptions: has_sums.then(|| WeightOverridesWriter::create(group)).transpose()?,
            averager: content
                .average
                .map(|average| AverageWriter::create(&tree.process, average, content))
                .transpose()?,
            row_digests: Vec::with_capacity(rows),
        })
    }

    fn push(&mut self, frame: u64, merged: &OutputFrame) -> h5::Result<()> {
        let bins = self.content.shared.axes.bins();
        let nothing = vec![NAN32; bins];
        let (intensity, errors) = match &merged.pattern {
            Some((intensity, errors)) => (intensity, errors.as_ref()),
            None => (&nothing, None),
        };
        let errors = self.content.finish.has_errors().then(|| errors.unwrap_or(&nothing));
        self.row_digests.push(digest::row_digest(merged.status, intensity, errors.map(Vec::as_slice)));
        self.intensity.as_mut().map_or(Ok(()), |table| table.push(intensity.iter().copied()))?;
        if let (Some(table), Some(errors)) = (&mut self.errors, errors) {
            table.push(errors.iter().copied())?;
        }
        let sums = merged.sums.as_ref();
        push_or_nan(&mut self.signal, sums.map(|row| &row.signal), bins)?;
        push_or_nan(&mut self.variance, sums.and_then(|row| row.variance.as_ref()), bins)?;
        let Some(row) = sums else { return Ok(()) };
        match (&mut self.exceptions, &row.weight_override) {
            (Some(exceptions), Some(own)) => exceptions.push(frame, own, &self.content.shared.weights),
            _ => Ok(()),
        }
    }

    fn finish(self, tree: &NexusTree) -> h5::Result<String> {
        let Self { content, intensity, errors, signal, variance, exceptions, averager, row_digests } = self;
        let shared = content.shared;
        intensity.into_iter().chain(errors).try_for_each(|mut table| table.flush())?;
        signal.into_iter().chain(variance).try_for_each(|mut table| table.flush())?;
        exceptions.map_or(Ok(()), |mut exceptions| exceptions.flush())?;
        tree.describe(shared, content.finish.has_errors())?;
        tree.write_status(&content.supply.status)?;
        if let Some(name) = content.recipe.monitor_name() {
            tree.write_monitor(&name, &content.supply.monitor, content.supply.reference)?;
        }
        averager.map_or(Ok(()), |averager| averager.finish(&tree.coverage))?;
        write_coverage(&tree.coverage, content, &row_digests)
    }
}

fn push_or_nan(table: &mut Option<RowWriter<f64>>, sums: Option<&Vec<f64>>, bins: usize) -> h5::Result<()> {
    match (table, sums) {
        (Some(table), Some(sums)) => table.push(sums.iter().copied().map(canonical_nan)),
        (Some(table), None) => table.push(std::iter::repeat_n(NAN64, bins)),
        (None, _) => Ok(()),
    }
}

/// Writes what a rerun asks for: the scan with the stamps of its sources, the parts that have gone in,
/// and the digests by which it sees that all is as it was written.
fn write_coverage(group: &Group, content: &OutputContent, row_digests: &[u64]) -> h5::Result<String> {
    let supply = content.supply;
    let task = Record::from(whole_scan_task(content.target, supply)).to_line();
    let data_digest = digest::data_digest(content.shared, row_digests);
    let texts = [task.as_str(), &content.recipe.to_toml(), content.part_digests];
    let monitor = match content.recipe.monitor.is_empty() {
        true => vec![NAN64; supply.monitor.len()],
        false => supply.monitor.clone(),
    };
    let coverage_digest = digest::coverage_digest(&texts, &monitor, &[&supply.stored_digest, row_digests]);
    group.write_text(name::TASK, &task)?;
    group.write_text(name::PARTS, content.part_digests)?;
    group.write_list(name::ROW_DIGEST, row_digests)?;
    group.write_list(name::STORED_DIGEST, &supply.stored_digest)?;
    group.set_number(name::REFERENCE, supply.reference)?;
    group.set_text(name::LAYOUT, content.layout.name())?;
    group.set_text(name::DATA_DIGEST, &data_digest)?;
    group.set_text(name::COVERAGE_DIGEST, &coverage_digest)?;
    group.set_text(name::CHECKSUMS, "of all bytes, behind the end of the file")?;
    Ok(data_digest)
}

/// The task whose range is the whole scan.
fn whole_scan_task(target: &OutputSpec, supply: &RowSources) -> Task {
    let (task, range) = (target.task(), Spans::first_n(target.frames()));
    let sources = supply.stamps.sources(target.frames());
    let absent = target.absent();
    // As long as tasks that nothing was heard of have some, the scan is not one without.
    let absent_elsewhere = if absent.is_empty() { task.acquisition.absent_elsewhere } else { 0 };
    Task {
        id: Task::compute_id(&task.scan, [task.recipe_digest.as_str()], &range),
        part: Task::part_path(&task.scan, &task.recipe_digest, &range),
        bytes: sources.iter().map(|source| source.bytes).sum(),
        range,
        monitor_readings: Some(supply.readings).filter(|readings| readings.count > 0),
        acquisition: Acquisition { sources, absent, absent_elsewhere, ..task.acquisition.clone() },
        ..task.clone()
    }
}
