//! [`OutputFile`]: an open final file, which frames it covers, and the verification of its rows.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recipe::Recipe;
use records::{Record, Spans, Task};
use system::ownership;

use super::schema::{PROGRAM, entry_name, name};
use super::unusable_output::{UnusableOutput, open_error};
use super::{AveragedPatterns, OutputError, OutputLayout, OutputOptions, digest};
use crate::compression::Compression;
use crate::h5::{self, Group, VerifiableBytes};
use crate::row_digest::row_digest;
use crate::sparse_pixels::{SparseIndex, SparseReader};
use crate::weight_overrides::WeightOverrides;
use crate::{BinWeights, Normalizer, PatternAxes, PatternAxis, SharedBins, Status};

/// An open final file.
pub struct OutputFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Task of the whole scan, with all sources and the recipe's digest.
    pub task: Task,
    /// Recipe of the patterns.
    pub recipe: Recipe,
    /// Storage of the patterns.
    pub layout: OutputLayout,
    /// Compression of cakes; `None` for patterns of one dimension, and where they are in the parts.
    pub compression: Option<Compression>,
    /// Axes and weights that the frames have in common.
    pub shared: Arc<SharedBins>,
    /// Status of each frame.
    pub status: Vec<Status>,
    /// Monitor of each frame; all NaN if the recipe has no monitor.
    pub monitor: Vec<f64>,
    /// XXH3-64 of each frame's stored bytes.
    pub stored_digest: Vec<u64>,
    /// Reference that the monitors were divided by.
    pub reference: f64,
    /// Digest of the data.
    pub data_digest: String,
    /// Checksums of the parts whose frames are in the file.
    pub parts: Vec<String>,
    /// True if the file has the frames' sums.
    pub has_sums: bool,
    /// True if the raw file could not be opened for want of permission when the file was written,
    /// so that counters and positions may be missing.
    pub(super) raw_file_denied: bool,
    /// True if averages, and merged patterns, count medians and quantile means by the pixels that the
    /// quantiles picked, as early versions did.
    pub(crate) counts_picked_pixels: bool,
    /// Average patterns, if the file has any.
    pub averaged: Option<AveragedPatterns>,
    /// True for each row that was verified and is not damaged. Rows of virtual final files can't be
    /// verified here, because they are rows of the parts.
    pub(super) intact: Vec<bool>,
    /// All bytes of the file. Final files of early versions have no checksums.
    pub(super) bytes: VerifiableBytes,
    /// Frames whose sums are damaged.
    damaged_sums: BTreeSet<u64>,
    /// First bytes that were changed after writing, whatever they hold, once
    /// [`verify_bytes`](Self::verify_bytes) has found them.
    pub(super) damaged_bytes: Option<String>,
    row_digest: Vec<u64>,
    /// Index of the sparse pixels, if the file has any and they are not damaged.
    pub(crate) sparse: Option<SparseIndex>,
    /// True if the file has sparse pixels whose index is damaged.
    pub(super) has_damaged_sparse: bool,
    /// Frames whose sparse pixels are damaged, once [`verify_sparse`](Self::verify_sparse) has found
    /// them.
    pub(super) damaged_sparse: Spans,
    pub(super) integrated: Group,
    pub(super) process: Group,
}

impl OutputFile {
    /// Opens a final file and verifies everything but its rows: also the presence, type and shape
    /// of every dataset. Whether a final can be used is decided here alone; later only rows may
    /// turn out to be damaged.
    ///
    /// # Errors
    /// Fails if the file can't be read, is damaged, is not a final file of azpipe, or was written by a
    /// newer one.
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let file = h5::Hdf5File::open(path).map_err(|why| open_error(path, why))?;
        match file.text_attribute(name::CREATOR) {
            Ok(creator) if creator == PROGRAM => (),
            Ok(_) => return Err(OutputError::NotOwned { path: path.to_path_buf() }),
            Err(why) => return Err(open_error(path, why)),
        }
        read_output(path, &file).map_err(|why| why.into_error(path, file.bytes()))
    }

    /// Returns whether the patterns were merged from other final files: only those have no sources
    /// of their own.
    pub fn is_merged(&self) -> bool {
        self.task.acquisition.sources.is_empty()
    }

    /// Returns whether there is a file with the mark of a final file of azpipe. It may be damaged.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn is_output(path: &Path) -> io::Result<bool> {
        match h5::Hdf5File::open(path).and_then(|file| file.text_attribute(name::CREATOR)) {
            Ok(creator) => Ok(creator == PROGRAM),
            Err(h5::Hdf5Error::Io(why)) if why.kind() == ErrorKind::NotFound => Ok(false),
            Err(h5::Hdf5Error::Io(why)) => Err(why),
            // Its checksums exist and don't match, or the library hangs on it. Exports mention the
            // program, too, but have no creator.
            Err(h5::Hdf5Error::Damaged(_)) => {
                Ok(ownership::mentions(path, PROGRAM)? && ownership::mentions(path, name::CREATOR)?)
            }
            Err(_) => Ok(false),
        }
    }

    /// Reads the rows of a range, and remembers which of them are damaged.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn verify(&mut self, range: Range<usize>) -> Result<(), OutputError> {
        if self.layout == OutputLayout::Virtual {
            return Ok(());
        }
        let mut intact = Vec::with_capacity(range.len());
        let mut rows = self.rows()?;
        for row in range.clone() {
            // A row beyond the end of a truncated file is damaged, too.
            intact.push(match rows.read_unverified(row) {
                Ok((intensity, errors)) => self.matches_digest(row, intensity, errors),
                Err(h5::Hdf5Error::Io(why)) if why.kind() != ErrorKind::UnexpectedEof => {
                    return Err(OutputError::io(&self.path)(why));
                }
                Err(_) => false,
            });
        }
        drop(rows);
        self.intact[range].copy_from_slice(&intact);
        Ok(())
    }

    /// Reads the sums of a range, if the file has sums, and remembers which of them are damaged.
    /// Sums without checksums count as intact.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn verify_sums(&mut self, range: Range<usize>) -> Result<(), OutputError> {
        if self.layout == OutputLayout::Virtual || !self.has_sums || !self.bytes.have_checksums() {
            return Ok(());
        }
        let mut damaged = Vec::new();
        let mut rows = self.rows()?;
        for row in range {
            match rows.sums(row) {
                Err(OutputError::Hdf5 { .. }) => {
                    damaged.push(row);
                    // The library would take damaged values of further rows from its caches, and
                    // not read them again.
                    drop(rows);
                    rows = self.rows()?;
                }
                sums => drop(sums?),
            }
        }
        drop(rows);
        self.damaged_sums.extend(damaged.into_iter().map(|row| row as u64));
        Ok(())
    }

    /// Verifies all bytes that were not read yet, such as those of counters and of the instrument,
    /// which nothing is made from but which other programs read.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(super) fn verify_bytes(&mut self) -> Result<(), OutputError> {
        self.damaged_bytes = match self.bytes.verify_all() {
            Err(h5::Hdf5Error::Damaged(why)) => Some(why),
            verified => verified.map(|()| None).map_err(OutputError::hdf5(&self.path))?,
        };
        Ok(())
    }

    /// Reads the sparse pixels, and leaves out those of frames in which they are damaged.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn verify_sparse(&mut self) -> Result<(), OutputError> {
        let Some(index) = &mut self.sparse else { return Ok(()) };
        let damaged = SparseReader::find_damaged_rows(&self.process, index)
            .map_err(OutputError::hdf5(&self.path))?;
        index.leave_out(&damaged);
        let damaged: Spans = damaged.into_iter().map(|row| row as u64).collect();
        self.damaged_sparse = self.damaged_sparse.union(&damaged);
        Ok(())
    }

    /// Returns the title of the intensities with their unit, such as `Intensity (counts)`; without
    /// a unit in final files of earlier versions.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn intensity_label(&self) -> Result<String, OutputError> {
        let label = self
            .integrated
            .dataset(name::INTENSITY)
            .and_then(|dataset| dataset.text_attribute("long_name"));
        match label {
            Err(h5::Hdf5Error::NotFound(_)) => Ok("Intensity".to_owned()),
            label => label.map_err(OutputError::hdf5(&self.path)),
        }
    }

    /// Returns whether the file has a group at a path of its entry. In final files of earlier
    /// versions, `instrument` and `sample` are themselves links to the raw file, and not groups.
    pub(super) fn has_group(&self, path: &str) -> h5::Result<bool> {
        let entry = format!("/{}", entry_name(&self.task.acquisition.entry));
        if !self.process.group(&entry)?.has_attribute(name::RAW_FILE)? {
            return Ok(false);
        }
        self.process.contains(path)
    }

    /// Returns whether the file has sums without checksums.
    pub(super) fn has_unverified_sums(&self) -> bool {
        self.has_sums && !self.bytes.have_checksums() && self.layout != OutputLayout::Virtual
    }

    /// Returns whether a pattern has the checksum of a frame.
    pub(super) fn matches_digest(
        &self,
        frame: usize,
        intensity: &[f32],
        errors: Option<&[f32]>,
    ) -> bool {
        row_digest(self.status[frame], intensity, errors) == self.row_digest[frame]
    }

    /// Returns whether the file has the sums, the compression and the average patterns that the
    /// options ask for.
    ///
    /// # Errors
    /// Fails if the average patterns can't be read.
    pub(super) fn satisfies(&self, options: &OutputOptions) -> Result<bool, OutputError> {
        let has_compression = |asked| self.compression.is_none_or(|has| has == asked);
        if (options.keep_sums && !self.has_sums) || !options.compression.is_none_or(has_compression)
        {
            return Ok(false);
        }
        match (options.average, &self.averaged) {
            (None, _) => Ok(true),
            (Some(average), Some(has)) if has.average == average => {
                has.is_intact().map_err(OutputError::hdf5(&self.path))
            }
            _ => Ok(false),
        }
    }

    /// Returns the frames whose sums were verified and are damaged.
    pub(super) fn frames_with_damaged_sums(&self) -> Spans {
        self.damaged_sums.iter().copied().collect()
    }

    /// Returns whether all rows were verified and none is damaged.
    pub fn is_intact(&self) -> bool {
        self.intact.iter().all(|intact| *intact) && self.damaged_sums.is_empty()
    }

    /// Returns whether a row was verified, and neither its pattern nor its sums are damaged.
    pub fn is_intact_at(&self, frame: u64) -> bool {
        self.intact.get(frame as usize).is_some_and(|intact| *intact)
            && !self.damaged_sums.contains(&frame)
    }
}

fn read_output(path: &Path, file: &h5::Hdf5File) -> Result<OutputFile, UnusableOutput> {
    let process = default_process(file)?;
    let integrated = process.group(name::INTEGRATED)?;
    let (coverage, configuration) =
        (process.group(name::COVERAGE)?, process.group(name::CONFIGURATION)?);
    let recipe_text = configuration.text(name::DATA)?;
    let task_line = coverage.text(name::TASK)?;
    let Ok(Record::Task(task)) = Record::parse(&task_line) else {
        return Err(UnusableOutput::unknown("its task is not a record that this one can read"));
    };
    let recipe: Recipe = toml::from_str(&recipe_text)
        .map_err(|why| UnusableOutput::Unknown(format!("its recipe: {why}")))?;
    let numbers: Vec<u8> = integrated.read_list(name::FRAME_STATUS)?;
    let status: Option<Vec<Status>> = numbers.into_iter().map(Status::from_number).collect();
    let parts_text = coverage.text(name::PARTS)?;
    let frames = task.acquisition.frames as usize;
    let status = status.ok_or(UnusableOutput::unknown("an unknown frame status"))?;
    // Checked before a list of as many values is allocated.
    if status.len() != frames {
        return Err(format!("{} values of frame_status; expected {frames}", status.len()).into());
    }
    let monitor = if recipe.monitor_name().is_some() {
        integrated.read_array(name::MONITOR, &[frames])?
    } else {
        vec![crate::rounding::NAN64; frames]
    };
    let digests = |name| coverage.read_array::<u64>(name, &[frames]);
    let shared = read_shared(&integrated)?;
    let has_sums = integrated.contains(name::SIGNAL)?;
    let bytes = file.bytes().clone();
    if coverage.has_attribute(name::CHECKSUMS)? && !bytes.have_checksums() {
        return Err(
            "its checksums are missing: it was truncated, or changed by another program".into()
        );
    }
    let sparse = read_sparse(&process, &task, &recipe, frames)?;
    let has_errors = Normalizer::new(&recipe).has_errors();
    check_datasets(&integrated, frames, &shared, has_errors, has_sums)?;
    let this = OutputFile {
        path: path.to_path_buf(),
        layout: OutputLayout::from_name(&coverage.text_attribute(name::LAYOUT)?)
            .ok_or(UnusableOutput::unknown("an unknown layout"))?,
        compression: match shared.axes.chi {
            Some(_) => integrated.dataset(name::INTENSITY)?.compression()?,
            None => None,
        },
        averaged: AveragedPatterns::read(&process, &coverage, &shared, frames, has_errors)?,
        shared: Arc::new(shared),
        status,
        stored_digest: digests(name::STORED_DIGEST)?,
        reference: coverage.number_attribute(name::REFERENCE)?,
        data_digest: coverage.text_attribute(name::DATA_DIGEST)?,
        parts: parts_text.lines().map(str::to_owned).collect(),
        has_sums,
        has_damaged_sparse: sparse.is_none(),
        damaged_sparse: Spans::default(),
        sparse: sparse.unwrap_or_default(),
        raw_file_denied: coverage.has_attribute(name::RAW_FILE_DENIED)?,
        counts_picked_pixels: recipe.median.is_some() && !coverage.has_attribute(name::COUNTED)?,
        bytes,
        damaged_sums: BTreeSet::new(),
        damaged_bytes: None,
        intact: vec![false; frames],
        row_digest: digests(name::ROW_DIGEST)?,
        monitor,
        task: *task,
        recipe,
        integrated,
        process,
    };
    let found = digest::coverage_digest(
        &[&task_line, &recipe_text, &parts_text],
        &this.monitor,
        &[&this.stored_digest, &this.row_digest],
    );
    if found != coverage.text_attribute(name::COVERAGE_DIGEST)? {
        return Err("its coverage was changed after writing".into());
    }
    if digest::data_digest(&this.shared, &this.row_digest) != this.data_digest {
        return Err("its axes or weights were changed after writing".into());
    }
    Ok(this)
}

/// Reads what each frame has of sparse pixels; `None` if that is damaged. The patterns can be used all
/// the same.
fn read_sparse(
    process: &Group,
    task: &Task,
    recipe: &Recipe,
    frames: usize,
) -> h5::Result<Option<Option<SparseIndex>>> {
    match SparseIndex::read(process, &task.acquisition, recipe, frames) {
        Err(h5::Hdf5Error::Io(why)) if why.kind() != ErrorKind::UnexpectedEof => {
            Err(h5::Hdf5Error::Io(why))
        }
        read => Ok(read.ok()),
    }
}

/// Opens the NXprocess group that the attributes `default` lead to.
pub(super) fn default_process(file: &Group) -> h5::Result<Group> {
    let entry = file.group(&file.text_attribute("default")?)?;
    let default = entry.text_attribute("default")?;
    entry.group(default.split('/').next().unwrap_or_default())
}

fn read_shared(integrated: &Group) -> h5::Result<SharedBins> {
    let names: Vec<String> = integrated.texts_attribute("axes")?;
    let axis = |name: &String| -> h5::Result<PatternAxis> {
        let dataset = integrated.dataset(name)?;
        dataset.check_stored_as::<f64>(&[dataset.size()?])?;
        Ok(PatternAxis {
            name: name.clone(),
            units: dataset.text_attribute("units")?,
            centers: dataset.values()?,
        })
    };
    let radial = axis(names.last().ok_or("no axes")?)?;
    let chi = names.get(1).filter(|_| names.len() > 2).map(axis).transpose()?;
    let axes = PatternAxes { radial, chi };
    let weights = |name| integrated.read_array(name, &axes.shape());
    let weights = BinWeights {
        norm: weights(name::NORM)?,
        norm_sq: weights(name::NORM_SQ)?,
        count: weights(name::COUNT)?,
    };
    Ok(SharedBins { axes, weights })
}

/// Checks that every dataset that rows are read from exists, in its type and with a value for each
/// frame and bin. Reading rows can then only fail for their values, or because the file can't be
/// read.
fn check_datasets(
    integrated: &Group,
    frames: usize,
    shared: &SharedBins,
    has_errors: bool,
    has_sums: bool,
) -> Result<(), UnusableOutput> {
    if shared.axes.bins() == 0 {
        return Err("axes without a bin".into());
    }
    for (name, is_expected) in
        [(name::ERRORS, has_errors), (name::VARIANCE, has_errors && has_sums)]
    {
        if integrated.contains(name)? && !is_expected {
            return Err(format!("{name} exists, but not according to its recipe").into());
        }
    }
    let rows = [vec![frames], shared.axes.shape()].concat();
    integrated.check_dataset::<f32>(name::INTENSITY, &rows)?;
    if has_errors {
        integrated.check_dataset::<f32>(name::ERRORS, &rows)?;
    }
    if has_sums {
        integrated.check_dataset::<f64>(name::SIGNAL, &rows)?;
        if has_errors {
            integrated.check_dataset::<f64>(name::VARIANCE, &rows)?;
        }
        WeightOverrides::open(integrated)?;
    }
    Ok(())
}
