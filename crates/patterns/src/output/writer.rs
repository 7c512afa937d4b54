//! Writes a final file: the NeXus tree, then the rows frame by frame, then the group `coverage`.

use records::{Acquisition, Record, Spans, Task};

use super::averaging::AverageWriter;
use super::content::OutputContent;
use super::frame_source::{FrameSource, OutputFrame};
use super::nexus_tree::NexusTree;
use super::options::check_cancelled;
use super::row_sources::RowSources;
use super::schema::name;
use super::{
    BuildObserver, OutputLayout, OutputSpec, digest, esrf_integrator_layout, virtual_layout,
};
use crate::h5::{self, Group};
use crate::part::row_dataset;
use crate::rounding::{NAN32, NAN64, canonical_nan};
use crate::row_digest::row_digest;
use crate::row_writer::RowWriter;
use crate::sparse_pixels::SparseWriter;
use crate::weight_overrides::WeightOverridesWriter;

/// Number of frames between two looks at the observer.
const CANCEL_CHECK_FRAMES: usize = 64;

/// Writes the content of a final file into a new HDF5 file. Returns the digest of its data.
///
/// # Errors
/// Fails if a row can't be read or the file can't be written.
pub(super) fn write_output(
    file: &Group,
    content: &OutputContent,
    frames: &mut dyn FrameSource,
    observer: &dyn BuildObserver,
) -> Result<String, super::OutputError> {
    let path = content.target.path();
    let hdf5 = super::OutputError::hdf5(&path);
    let tree = NexusTree::create(file, content).map_err(&hdf5)?;
    let mut body = RowDatasets::create(&tree, content).map_err(&hdf5)?;
    for frame in 0..content.row_sources.status.len() {
        if frame % CANCEL_CHECK_FRAMES == 0 {
            check_cancelled(observer)?;
            observer.advance(
                CANCEL_CHECK_FRAMES.min(content.row_sources.status.len().saturating_sub(frame))
                    as u64,
            );
        }
        let output_frame = frames.read_frame(frame)?;
        body.push(frame as u64, &output_frame).map_err(&hdf5)?;
        if let Some(averager) = &mut body.averager {
            averager.push(frame as u64, &output_frame, frames)?;
        }
    }
    let digest = body.finish(&tree).map_err(&hdf5)?;
    if content.layout == OutputLayout::Integrator {
        esrf_integrator_layout::write_integrator_names(file, &tree, content).map_err(&hdf5)?;
    }
    Ok(digest)
}

/// Datasets with one row per frame.
struct RowDatasets<'a> {
    content: &'a OutputContent<'a>,
    intensity: Option<RowWriter<f32>>,
    errors: Option<RowWriter<f32>>,
    signal: Option<RowWriter<f64>>,
    variance: Option<RowWriter<f64>>,
    weight_overrides: Option<WeightOverridesWriter>,
    sparse: Option<SparseWriter>,
    averager: Option<AverageWriter<'a>>,
    row_digests: Vec<u64>,
}

impl<'a> RowDatasets<'a> {
    fn create(tree: &NexusTree, content: &'a OutputContent) -> h5::Result<Self> {
        let (group, shape) = (&tree.integrated, content.shared.axes.shape());
        let (normalizer, rows) = (&content.normalizer, content.row_sources.status.len());
        let is_virtual = content.layout == OutputLayout::Virtual;
        // Virtual files map what depends on one frame alone, and store what depends on the whole
        // scan.
        let compression = content.compression;
        let map_patterns = is_virtual && normalizer.needs_only_own_frame();
        let has_sums = content.has_sums();
        let patterns = [
            (true, name::INTENSITY, row_dataset::INTENSITY),
            (normalizer.has_errors(), name::ERRORS, row_dataset::ERRORS),
        ];
        let sums = [
            (has_sums, name::SIGNAL, row_dataset::SIGNAL),
            (has_sums && normalizer.has_errors(), name::VARIANCE, row_dataset::VARIANCE),
        ];
        let [intensity, errors] =
            patterns.map(|(wanted, name, in_part)| match (wanted, map_patterns) {
                (true, false) => {
                    RowWriter::with_rows(group, name, rows, &shape, compression).map(Some)
                }
                (true, true) => {
                    virtual_layout::create_virtual_dataset(group, name, in_part, NAN32, content)
                        .map(|()| None)
                }
                (false, _) => Ok(None),
            });
        let [signal, variance] = sums.map(|(wanted, name, in_part)| match (wanted, is_virtual) {
            (true, false) => RowWriter::with_rows(group, name, rows, &shape, compression).map(Some),
            (true, true) => {
                virtual_layout::create_virtual_dataset(group, name, in_part, NAN64, content)
                    .map(|()| None)
            }
            (false, _) => Ok(None),
        });
        Ok(Self {
            content,
            intensity: intensity?,
            errors: errors?,
            signal: signal?,
            variance: variance?,
            weight_overrides: has_sums.then(|| WeightOverridesWriter::create(group)).transpose()?,
            sparse: content
                .row_sources
                .has_sparse_pixels()
                .then(|| {
                    let scan = &content.target.task().acquisition;
                    SparseWriter::create(&tree.process, scan, content.recipe)
                })
                .transpose()?,
            averager: content
                .average
                .map(|average| AverageWriter::create(&tree.process, average, content))
                .transpose()?,
            row_digests: Vec::with_capacity(rows),
        })
    }

    fn push(&mut self, frame: u64, output_frame: &OutputFrame) -> h5::Result<()> {
        if let Some(all) = &mut self.sparse {
            all.push(output_frame.sparse.as_ref())?;
        }
        if let Some(encoded) = &output_frame.encoded {
            self.row_digests.push(encoded.digest);
            self.intensity
                .as_mut()
                .map_or(Ok(()), |table| table.push_encoded(&encoded.intensity))?;
            return match (&mut self.errors, &encoded.errors) {
                (Some(table), Some(errors)) => table.push_encoded(errors),
                _ => Ok(()),
            };
        }
        let bins = self.content.shared.axes.bins();
        let nothing = vec![NAN32; bins];
        let (intensity, errors) = match &output_frame.pattern {
            Some((intensity, errors)) => (intensity, errors.as_ref()),
            None => (&nothing, None),
        };
        let errors = self.content.normalizer.has_errors().then(|| errors.unwrap_or(&nothing));
        self.row_digests.push(row_digest(
            output_frame.status,
            intensity,
            errors.map(Vec::as_slice),
        ));
        self.intensity.as_mut().map_or(Ok(()), |table| table.push(intensity.iter().copied()))?;
        if let (Some(table), Some(errors)) = (&mut self.errors, errors) {
            table.push(errors.iter().copied())?;
        }
        let sums = output_frame.sums.as_ref();
        push_or_nan(&mut self.signal, sums.map(|row| &row.signal), bins)?;
        push_or_nan(&mut self.variance, sums.and_then(|row| row.variance.as_ref()), bins)?;
        let Some(row) = sums else { return Ok(()) };
        match (&mut self.weight_overrides, &row.weight_override) {
            (Some(weight_overrides), Some(own)) => {
                weight_overrides.push(frame, own, &self.content.shared.weights)
            }
            _ => Ok(()),
        }
    }

    fn finish(self, tree: &NexusTree) -> h5::Result<String> {
        let Self {
            content,
            intensity,
            errors,
            signal,
            variance,
            weight_overrides,
            sparse,
            averager,
            row_digests,
        } = self;
        sparse.map_or(Ok(()), SparseWriter::finish)?;
        intensity.into_iter().chain(errors).try_for_each(|mut table| table.flush())?;
        signal.into_iter().chain(variance).try_for_each(|mut table| table.flush())?;
        weight_overrides.map_or(Ok(()), |mut weight_overrides| weight_overrides.flush())?;
        tree.write_status(&content.row_sources.status)?;
        if let Some(name) = content.recipe.monitor_name() {
            tree.write_monitor(&name, &content.row_sources.monitor, content.row_sources.reference)?;
        }
        tree.describe(content)?;
        averager.map_or(Ok(()), |averager| averager.finish(&tree.coverage))?;
        write_coverage(&tree.coverage, content, &row_digests)
    }
}

fn push_or_nan(
    table: &mut Option<RowWriter<f64>>,
    sums: Option<&Vec<f64>>,
    bins: usize,
) -> h5::Result<()> {
    match (table, sums) {
        (Some(table), Some(sums)) => table.push(sums.iter().copied().map(canonical_nan)),
        (Some(table), None) => table.push(std::iter::repeat_n(NAN64, bins)),
        (None, _) => Ok(()),
    }
}

/// Writes the group `coverage`: the task of the whole scan with its sources, the merged parts, and
/// digests that show whether anything was changed.
fn write_coverage(
    group: &Group,
    content: &OutputContent,
    row_digests: &[u64],
) -> h5::Result<String> {
    let row_sources = content.row_sources;
    let task = Record::from(whole_scan_task(content.target, row_sources)).to_line();
    let data_digest = digest::data_digest(content.shared, row_digests);
    let texts = [task.as_str(), &content.recipe.to_toml(), content.part_digests];
    let monitor = if content.recipe.monitor.is_empty() {
        vec![NAN64; row_sources.monitor.len()]
    } else {
        row_sources.monitor.clone()
    };
    let coverage_digest =
        digest::coverage_digest(&texts, &monitor, &[&row_sources.stored_digest, row_digests]);
    group.write_text(name::TASK, &task)?;
    group.write_text(name::PARTS, content.part_digests)?;
    group.write_list(name::ROW_DIGEST, row_digests)?;
    group.write_list(name::STORED_DIGEST, &row_sources.stored_digest)?;
    group.set_number(name::REFERENCE, row_sources.reference)?;
    group.set_text(name::LAYOUT, content.layout.name())?;
    group.set_text(name::DATA_DIGEST, &data_digest)?;
    group.set_text(name::COVERAGE_DIGEST, &coverage_digest)?;
    if content.raw_file_denied.get() {
        group.set_text(name::RAW_FILE_DENIED, "permission denied")?;
    }
    let copies_earlier = content.averages_to_copy.is_some()
        && content.existing.is_some_and(|existing| existing.counts_picked_pixels);
    if content.recipe.median.is_some() && !copies_earlier {
        group.set_text(name::COUNTED, "all pixels of a bin")?;
    }
    group.set_text(name::CHECKSUMS, "of all bytes, behind the end of the file")?;
    Ok(data_digest)
}

/// Returns the task of the whole scan.
fn whole_scan_task(target: &OutputSpec, row_sources: &RowSources) -> Task {
    let (task, range) = (target.task(), Spans::first_n(target.frames()));
    let sources = row_sources.stamps.sources(target.frames());
    let absent = target.absent();
    // A scan without known absent frames may have some in tasks that no record was read of.
    let absent_elsewhere = if absent.is_empty() { task.acquisition.absent_elsewhere } else { 0 };
    Task {
        id: Task::compute_id(&task.scan, [task.recipe_digest.as_str()], &range),
        part: Task::part_path(&task.scan, &task.recipe_digest, &range),
        bytes: sources.iter().map(|source| source.bytes).sum(),
        range,
        monitor_readings: Some(row_sources.readings).filter(|readings| readings.count > 0),
        acquisition: Acquisition { sources, absent, absent_elsewhere, ..task.acquisition.clone() },
        ..task.clone()
    }
}
