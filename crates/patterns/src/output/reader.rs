//! Reads a final: what it covers, and its rows.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recipe::Recipe;
use records::{Record, Task};

use super::schema::{PROGRAM, name};
use super::{AveragedPatterns, OutputError, OutputLayout, OutputOptions, digest};
use crate::h5::{self, Group};
use crate::{BinWeights, PatternAxes, PatternAxis, SharedBins, Status};

/// A final file.
pub struct OutputFile {
    /// Where it is.
    pub path: PathBuf,
    /// The scan, with all sources, and the recipe's digest.
    pub task: Task,
    /// The recipe.
    pub recipe: Recipe,
    /// How the patterns are stored.
    pub layout: OutputLayout,
    /// Axes and weights.
    pub shared: Arc<SharedBins>,
    /// What became of each frame.
    pub status: Vec<Status>,
    /// Each frame's monitor; NaN throughout without one.
    pub monitor: Vec<f64>,
    /// XXH3-64 of each frame's stored bytes.
    pub stored_digest: Vec<u64>,
    /// What the monitors were divided by.
    pub reference: f64,
    /// The digest of the data.
    pub data_digest: String,
    /// The checksums of the parts that were put into it.
    pub parts: Vec<String>,
    /// Whether the frames' sums are kept.
    pub has_sums: bool,
    /// The patterns of many frames, if they were asked for.
    pub averaged: Option<AveragedPatterns>,
    /// Which rows are as they were written. Nothing is known of the rows of virtual finals, which are
    /// those of its parts.
    pub(super) intact: Vec<bool>,
    /// Whether all bytes are verified before they are used: not so in finals of earlier versions.
    pub(super) has_checksums: bool,
    /// The frames whose sums were found to be other ones than were written.
    pub(super) damaged_sums: BTreeSet<u64>,
    row_digest: Vec<u64>,
    pub(super) integrated: Group,
    pub(super) process: Group,
}

impl OutputFile {
    /// Opens a final and checks what it says of itself, but none of its rows.
    ///
    /// # Errors
    /// Not a final of azpipe, or a damaged one.
    pub fn open(path: &Path) -> Result<Self, OutputError> {
        let file = h5::Hdf5File::open(path).map_err(|why| open_error(path, why))?;
        match file.text_attribute(name::CREATOR) {
            Ok(creator) if creator == PROGRAM => (),
            Ok(_) => return Err(OutputError::NotOwned { path: path.to_path_buf() }),
            Err(why) => return Err(open_error(path, why)),
        }
        read_output(path, &file).map_err(|why| match why {
            UnusableOutput::Hdf5(why) => OutputError::hdf5(path)(why),
            UnusableOutput::Content(why) => OutputError::content(path, format!("damaged: {why}")),
        })
    }

    /// Tells whether a file says that it is a final of azpipe, damaged or not.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) fn is_output(path: &Path) -> io::Result<bool> {
        match h5::Hdf5File::open(path).and_then(|file| file.text_attribute(name::CREATOR)) {
            Ok(creator) => Ok(creator == PROGRAM),
            Err(h5::Hdf5Error::Io(why)) => Err(why),
            // Whose checksums are there.
            Err(h5::Hdf5Error::Damaged(_)) => Ok(true),
            Err(_) => Ok(false),
        }
    }

    /// Reads all rows of a range and notes which are as they were written.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn verify(&mut self, range: Range<usize>) -> Result<(), OutputError> {
        if self.layout == OutputLayout::Virtual {
            return Ok(());
        }
        let mut intact = Vec::with_capacity(range.len());
        let mut rows = self.rows()?;
        for row in range.clone() {
            // A row that can't be read, in a file that was cut short, is not as it was written either.
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

    /// Reads the sums of a range, where it has them, and notes which frames have other ones than were written. Sums that
    /// were written without checksums pass.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn verify_sums(&mut self, range: Range<usize>) -> Result<(), OutputError> {
        if self.layout == OutputLayout::Virtual || !self.has_sums || !self.has_checksums {
            return Ok(());
        }
        let mut damaged = Vec::new();
        let mut rows = self.rows()?;
        for row in range {
            match rows.sums(row) {
                Err(OutputError::Hdf5 { .. }) => damaged.push(row),
                sums => drop(sums?),
            }
        }
        drop(rows);
        self.damaged_sums.extend(damaged.into_iter().map(|row| row as u64));
        Ok(())
    }

    /// Whether there are sums that no checksum vouches for.
    pub(super) fn has_unverified_sums(&self) -> bool {
        self.has_sums && !self.has_checksums && self.layout != OutputLayout::Virtual
    }

    /// Whether a frame has this pattern, by its checksum.
    pub(super) fn matches_digest(&self, frame: usize, intensity: &[f32], errors: Option<&[f32]>) -> bool {
        digest::row_digest(self.status[frame], intensity, errors) == self.row_digest[frame]
    }

    /// Whether it has the sums and the patterns of many frames that are asked for.
    ///
    /// # Errors
    /// They can't be read.
    pub(super) fn satisfies(&self, options: &OutputOptions) -> Result<bool, OutputError> {
        if options.keep_sums && !self.has_sums {
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

    /// Whether all rows were found to be as they were written.
    pub fn is_intact(&self) -> bool {
        self.intact.iter().all(|intact| *intact) && self.damaged_sums.is_empty()
    }

    /// Whether this row was found to be as it was written.
    pub fn is_intact_at(&self, frame: u64) -> bool {
        self.intact.get(frame as usize).is_some_and(|intact| *intact) && !self.damaged_sums.contains(&frame)
    }
}

/// What keeps a file from being opened as a final: that it is none, but for files that can't be read, or whose checksums are
/// there and say that it is damaged.
fn open_error(path: &Path, why: h5::Hdf5Error) -> OutputError {
    match why {
        why @ (h5::Hdf5Error::Io(_) | h5::Hdf5Error::Damaged(_)) => OutputError::hdf5(path)(why),
        _ => OutputError::NotOwned { path: path.to_path_buf() },
    }
}

/// Why a file that azpipe wrote can't be used.
enum UnusableOutput {
    Hdf5(h5::Hdf5Error),
    /// What it holds does not fit together.
    Content(String),
}

impl From<h5::Hdf5Error> for UnusableOutput {
    fn from(why: h5::Hdf5Error) -> Self {
        Self::Hdf5(why)
    }
}

impl From<String> for UnusableOutput {
    fn from(why: String) -> Self {
        Self::Content(why)
    }
}

impl From<&str> for UnusableOutput {
    fn from(why: &str) -> Self {
        Self::Content(why.to_owned())
    }
}

fn read_output(path: &Path, file: &h5::Hdf5File) -> Result<OutputFile, UnusableOutput> {
    let process = default_process(file)?;
    let integrated = process.group(name::INTEGRATED)?;
    let (coverage, configuration) = (process.group(name::COVERAGE)?, process.group(name::CONFIGURATION)?);
    let recipe_text = configuration.text(name::DATA)?;
    let task_line = coverage.text(name::TASK)?;
    let Ok(Record::Task(task)) = Record::parse(&task_line) else { return Err("no task".into()) };
    let recipe: Recipe = toml::from_str(&recipe_text).map_err(|why| format!("recipe: {why}"))?;
    let numbers: Vec<u8> = integrated.read_list(name::FRAME_STATUS)?;
    let status: Option<Vec<Status>> = numbers.into_iter().map(Status::from_number).collect();
    let parts_text = coverage.text(name::PARTS)?;
    let list = |name| coverage.read_list::<u64>(name);
    let frames = task.acquisition.frames as usize;
    let status = status.ok_or("unknown status")?;
    // Before as many values are made up as there are said to be frames.
    if status.len() != frames {
        return Err(format!("{} values of frame_status: expected {frames}", status.len()).into());
    }
    let monitor = match integrated.contains(name::MONITOR)? {
        true => integrated.read_list(name::MONITOR)?,
        false => vec![crate::normalize::NAN64; frames],
    };
    let shared = read_shared(&integrated)?;
    let has_sums = integrated.contains(name::SIGNAL)?;
    let has_checksums = file.has_checksums();
    if coverage.has_attribute(name::CHECKSUMS)? && !has_checksums {
        return Err("its checksums are missing: it was cut short, or changed by another program".into());
    }
    check_shapes(&integrated, frames, &shared)?;
    let this = OutputFile {
        path: path.to_path_buf(),
        layout: OutputLayout::from_name(&coverage.text_attribute(name::LAYOUT)?).ok_or("unknown layout")?,
        averaged: AveragedPatterns::read(&process, &coverage, &shared)?,
        shared: Arc::new(shared),
        status,
        stored_digest: list(name::STORED_DIGEST)?,
        reference: coverage.number_attribute(name::REFERENCE)?,
        data_digest: coverage.text_attribute(name::DATA_DIGEST)?,
        parts: parts_text.lines().map(str::to_owned).collect(),
        has_sums,
        has_checksums,
        damaged_sums: BTreeSet::new(),
        intact: vec![false; frames],
        row_digest: list(name::ROW_DIGEST)?,
        monitor,
        task: *task,
        recipe,
        integrated,
        process,
    };
    if [this.status.len(), this.monitor.len(), this.stored_digest.len(), this.row_digest.len()] != [frames; 4] {
        return Err(format!("expected {frames} values of frame_status, monitor, stored_digest and row_digest").into());
    }
    let found = digest::coverage_digest(
        &[&task_line, &recipe_text, &parts_text],
        &this.monitor,
        &[&this.stored_digest, &this.row_digest],
    );
    if found != coverage.text_attribute(name::COVERAGE_DIGEST)? {
        return Err("its coverage is not as it was written".into());
    }
    if digest::data_digest(&this.shared, &this.row_digest) != this.data_digest {
        return Err("its axes or weights are not as they were written".into());
    }
    Ok(this)
}

/// The NXprocess that the chain of defaults leads to.
pub(super) fn default_process(file: &Group) -> h5::Result<Group> {
    let entry = file.group(&file.text_attribute("default")?)?;
    let default = entry.text_attribute("default")?;
    entry.group(default.split('/').next().unwrap_or_default())
}

fn read_shared(integrated: &Group) -> h5::Result<SharedBins> {
    let names: Vec<String> = integrated.texts_attribute("axes")?;
    let axis = |name: &String| -> h5::Result<PatternAxis> {
        let dataset = integrated.dataset(name)?;
        Ok(PatternAxis { name: name.clone(), units: dataset.text_attribute("units")?, centers: dataset.values()? })
    };
    let radial = axis(names.last().ok_or("no axes")?)?;
    let chi = names.get(1).filter(|_| names.len() > 2).map(axis).transpose()?;
    let weights = BinWeights {
        norm: integrated.read_list(name::NORM)?,
        norm_sq: integrated.read_list(name::NORM_SQ)?,
        count: integrated.read_list(name::COUNT)?,
    };
    Ok(SharedBins { axes: PatternAxes { radial, chi }, weights })
}

/// Checks that datasets have a value for each frame and bin.
fn check_shapes(integrated: &Group, frames: usize, shared: &SharedBins) -> Result<(), UnusableOutput> {
    let (bins, weights) = (shared.axes.bins(), &shared.weights);
    let lengths = [weights.norm.len(), weights.norm_sq.len(), weights.count.len()];
    if bins == 0 || lengths != [bins; 3] {
        return Err(format!("{lengths:?} values of norm, norm_sq, count: expected {bins} each, one a bin").into());
    }
    let expected = [vec![frames], shared.axes.shape()].concat();
    for name in [name::INTENSITY, name::ERRORS, name::SIGNAL, name::VARIANCE] {
        if let Some(dataset) = integrated.dataset_if_there(name)?
            && dataset.shape() != expected
        {
            return Err(format!("{name} of shape {:?}: expected {expected:?}", dataset.shape()).into());
        }
    }
    Ok(())
}
