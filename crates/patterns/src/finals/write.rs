//! Writes a final: the tree, then frame after frame, then what answers for coverage.

use std::cell::RefCell;
use std::io::ErrorKind;

use recipe::Recipe;
use records::{Acquisition, Record, Spans, Task};

use super::averaged::Averager;
use super::merge::{Frames, Merged};
use super::options::go_on;
use super::supply::Supply;
use super::tree::{Tree, name};
use super::{Average, Final, Layout, Target, Watch, digest, integrator, mapped};
use crate::exceptions::ExceptionsWriter;
use crate::finish::{NAN32, NAN64, canonical};
use crate::h5::{self, Group};
use crate::part::{Part, row_dataset};
use crate::table::Table;
use crate::{Finish, Shared};

/// Frames between two looks at whoever watches.
const FRAMES_AT_ONCE: usize = 64;

/// What goes into a final.
pub(super) struct Content<'a> {
    pub target: &'a Target,
    pub recipe: &'a Recipe,
    pub finish: Finish,
    pub shared: &'a Shared,
    pub parts: &'a [Part],
    /// The final whose place it takes.
    pub existing: Option<&'a Final>,
    pub supply: &'a Supply,
    /// The checksums of all parts that have gone into it, now and before.
    pub part_digests: &'a str,
    pub layout: Layout,
    pub keep_sums: bool,
    pub average: Option<Average>,
    /// What could not be had for it, each worth a warning.
    pub warnings: &'a RefCell<Vec<String>>,
    /// Whether a damaged file lies in its place, which is kept under another name.
    pub sets_aside: bool,
}

impl Content<'_> {
    /// Whether the final is to have the frames' sums.
    pub fn has_sums(&self) -> bool {
        self.layout == Layout::Virtual || self.keep_sums
    }

    /// Opens the raw file of the scan; `None` where it is not there, or is an image, which has no counters. One that can't be read gives a warning: it may well be
    /// there for whoever reads the final.
    pub fn raw_file(&self) -> Option<h5::File> {
        let scan = &self.target.task().acquisition;
        if scan.dataset.is_empty() && scan.counters.is_empty() {
            return None;
        }
        match h5::File::open(&scan.file) {
            Ok(raw) => Some(raw),
            Err(h5::Error::Io(why)) if why.kind() == ErrorKind::NotFound => None,
            Err(why) => {
                self.warn_of_raw_file(&why);
                None
            }
        }
    }

    /// Warns that something is not in the final because the raw file can't be read.
    pub fn warn_of_raw_file(&self, why: &h5::Error) {
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
pub(super) fn write(
    file: &Group,
    content: &Content,
    frames: &mut dyn Frames,
    watch: &dyn Watch,
) -> Result<String, super::Error> {
    let path = content.target.path();
    let hdf5 = super::Error::hdf5(&path);
    let tree = Tree::begin(file, content).map_err(&hdf5)?;
    let mut body = Body::create(&tree, content).map_err(&hdf5)?;
    for frame in 0..content.supply.status.len() {
        if frame % FRAMES_AT_ONCE == 0 {
            go_on(watch)?;
            watch.advance(FRAMES_AT_ONCE.min(content.supply.status.len().saturating_sub(frame)) as u64);
        }
        let merged = frames.frame(frame)?;
        body.push(frame as u64, &merged).map_err(&hdf5)?;
        if let Some(averager) = &mut body.averager {
            averager.push(frame as u64, &merged, frames)?;
        }
    }
    let digest = body.finish(&tree).map_err(&hdf5)?;
    if content.layout == Layout::Integrator {
        integrator::write(file, &tree, content).map_err(&hdf5)?;
    }
    Ok(digest)
}

/// The datasets of one row a frame.
struct Body<'a> {
    content: &'a Content<'a>,
    intensity: Option<Table<f32>>,
    errors: Option<Table<f32>>,
    signal: Option<Table<f64>>,
    variance: Option<Table<f64>>,
    exceptions: Option<ExceptionsWriter>,
    averager: Option<Averager<'a>>,
    row_digests: Vec<u64>,
}

impl<'a> Body<'a> {
    fn create(tree: &Tree, content: &'a Content) -> h5::Result<Self> {
        let (group, shape) = (&tree.integrated, content.shared.axes.shape());
        let (finish, rows) = (&content.finish, content.supply.status.len());
        let is_virtual = content.layout == Layout::Virtual;
        // What depends on a frame alone is mapped, what depends on the whole scan is stored.
        let map_patterns = is_virtual && finish.is_framewise();
        let has_sums = content.has_sums();
        let patterns =
            [(true, name::INTENSITY, row_dataset::INTENSITY), (finish.has_errors(), name::ERRORS, row_dataset::ERRORS)];
        let sums = [
            (has_sums, name::SIGNAL, row_dataset::SIGNAL),
            (has_sums && finish.has_errors(), name::VARIANCE, row_dataset::VARIANCE),
        ];
        let [intensity, errors] = patterns.map(|(wanted, name, in_part)| match (wanted, map_patterns) {
            (true, false) => Table::fixed(group, name, rows, &shape).map(Some),
            (true, true) => mapped::create(group, name, in_part, NAN32, content).map(|()| None),
            (false, _) => Ok(None),
        });
        let [signal, variance] = sums.map(|(wanted, name, in_part)| match (wanted, is_virtual) {
            (true, false) => Table::fixed(group, name, rows, &shape).map(Some),
            (true, true) => mapped::create(group, name, in_part, NAN64, content).map(|()| None),
            (false, _) => Ok(None),
        });
        Ok(Self {
            content,
            intensity: intensity?,
            errors: errors?,
            signal: signal?,
            variance: variance?,
            exceptions: has_sums.then(|| ExceptionsWriter::create(group)).transpose()?,
            averager: content.average.map(|average| Averager::create(&tree.process, average, content)).transpose()?,
            row_digests: Vec::with_capacity(rows),
        })
    }

    fn push(&mut self, frame: u64, merged: &Merged) -> h5::Result<()> {
        let bins = self.content.shared.axes.bins();
        let nothing = vec![NAN32; bins];
        let (intensity, errors) = match &merged.pattern {
            Some((intensity, errors)) => (intensity, errors.as_ref()),
            None => (&nothing, None),
        };
        let errors = self.content.finish.has_errors().then(|| errors.unwrap_or(&nothing));
        self.row_digests.push(digest::of_row(merged.status, intensity, errors.map(Vec::as_slice)));
        self.intensity.as_mut().map_or(Ok(()), |table| table.push(intensity.iter().copied()))?;
        if let (Some(table), Some(errors)) = (&mut self.errors, errors) {
            table.push(errors.iter().copied())?;
        }
        let sums = merged.sums.as_ref();
        push_sums(&mut self.signal, sums.map(|row| &row.signal), bins)?;
        push_sums(&mut self.variance, sums.and_then(|row| row.variance.as_ref()), bins)?;
        let Some(row) = sums else { return Ok(()) };
        match (&mut self.exceptions, &row.exception) {
            (Some(exceptions), Some(own)) => exceptions.push(frame, own, &self.content.shared.weights),
            _ => Ok(()),
        }
    }

    fn finish(self, tree: &Tree) -> h5::Result<String> {
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

fn push_sums(table: &mut Option<Table<f64>>, sums: Option<&Vec<f64>>, bins: usize) -> h5::Result<()> {
    match (table, sums) {
        (Some(table), Some(sums)) => table.push(sums.iter().copied().map(canonical)),
        (Some(table), None) => table.push(std::iter::repeat_n(NAN64, bins)),
        (None, _) => Ok(()),
    }
}

/// Writes what a rerun asks for: the scan with the stamps of its sources, the parts that have gone in,
/// and the digests by which it sees that all is as it was written.
fn write_coverage(group: &Group, content: &Content, row_digests: &[u64]) -> h5::Result<String> {
    let supply = content.supply;
    let task = Record::from(whole_scan(content.target, supply)).to_line();
    let data_digest = digest::of_data(content.shared, row_digests);
    let texts = [task.as_str(), &content.recipe.to_toml(), content.part_digests];
    let monitor = match content.recipe.monitor.is_empty() {
        true => vec![NAN64; supply.monitor.len()],
        false => supply.monitor.clone(),
    };
    let coverage_digest = digest::of_coverage(&texts, &monitor, &[&supply.stored_digest, row_digests]);
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
fn whole_scan(target: &Target, supply: &Supply) -> Task {
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
