//! Reads a final: what it covers, and its rows.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdf5::Group;
use recipe::Recipe;
use records::{Record, Task};

use super::tree::{PROGRAM, name};
use super::{Averaged, Error, Layout, Options, digest};
use crate::{Axes, Axis, Shared, Status, Weights, h5};

/// A final file.
pub struct Final {
    /// Where it is.
    pub path: PathBuf,
    /// The scan, with all sources, and the recipe's digest.
    pub task: Task,
    /// The recipe.
    pub recipe: Recipe,
    /// How the patterns are stored.
    pub layout: Layout,
    /// Axes and weights.
    pub shared: Arc<Shared>,
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
    pub averaged: Option<Averaged>,
    /// Which rows are as they were written. Nothing is known of the rows of virtual finals, which are
    /// those of its parts.
    pub(super) intact: Vec<bool>,
    row_digest: Vec<u64>,
    pub(super) integrated: Group,
    pub(super) process: Group,
    _file: h5::Open,
}

impl Final {
    /// Opens a final and checks what it says of itself, but none of its rows.
    ///
    /// # Errors
    /// Not a final of azpipe, or a damaged one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        std::fs::File::open(path).map_err(Error::io(path))?;
        let file = open_own(path).ok_or_else(|| Error::Foreign { path: path.to_path_buf() })?;
        read(path, file).map_err(|why| Error::content(path, format!("damaged: {why}")))
    }

    /// Tells whether a file says that it is a final of azpipe, damaged or not.
    pub(super) fn is_at(path: &Path) -> bool {
        open_own(path).is_some()
    }

    /// Reads all rows of a range and notes which are as they were written.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn verify(&mut self, range: Range<usize>) -> Result<(), Error> {
        if self.layout == Layout::Virtual {
            return Ok(());
        }
        let mut intact = Vec::with_capacity(range.len());
        let mut rows = self.rows()?;
        for row in range.clone() {
            // A row that can't be read, in a file that was cut short, is not as it was written either.
            let stored = rows.stored(row);
            intact.push(stored.is_ok_and(|(intensity, errors)| {
                digest::of_row(self.status[row], intensity, errors) == self.row_digest[row]
            }));
        }
        drop(rows);
        self.intact[range].copy_from_slice(&intact);
        Ok(())
    }

    /// Whether it has the sums and the patterns of many frames that are asked for.
    pub(super) fn has_all_of(&self, options: &Options) -> bool {
        let average = options.average;
        (self.has_sums || !options.keep_sums)
            && average.is_none_or(|average| {
                self.averaged.as_ref().is_some_and(|has| has.average == average && has.is_intact())
            })
    }

    /// Whether all rows were found to be as they were written.
    pub fn is_intact(&self) -> bool {
        self.intact.iter().all(|intact| *intact)
    }

    /// Whether this row was found to be as it was written.
    pub fn is_intact_at(&self, frame: u64) -> bool {
        self.intact.get(frame as usize).is_some_and(|intact| *intact)
    }
}

fn open_own(path: &Path) -> Option<h5::Open> {
    h5::open(path).ok().filter(|file| h5::get_text(file, name::CREATOR).is_ok_and(|name| name == PROGRAM))
}

fn read(path: &Path, file: h5::Open) -> Result<Final, String> {
    let text = |why: hdf5::Error| why.to_string();
    let process = default_process(&file).map_err(text)?;
    let integrated = process.group(name::INTEGRATED).map_err(text)?;
    let (coverage, configuration) =
        (process.group(name::COVERAGE).map_err(text)?, process.group(name::CONFIGURATION).map_err(text)?);
    let recipe_text = h5::read_text(&configuration, name::DATA).map_err(text)?;
    let task_line = h5::read_text(&coverage, name::TASK).map_err(text)?;
    let Ok(Record::Task(task)) = Record::parse(&task_line) else { return Err("no task".to_owned()) };
    let recipe: Recipe = toml::from_str(&recipe_text).map_err(|why| format!("recipe: {why}"))?;
    let numbers: Vec<u8> = h5::read_list(&integrated, name::FRAME_STATUS).map_err(text)?;
    let status: Option<Vec<Status>> = numbers.into_iter().map(Status::from_number).collect();
    let parts_text = h5::read_text(&coverage, name::PARTS).map_err(text)?;
    let list = |name| h5::read_list::<u64>(&coverage, name).map_err(text);
    let frames = task.acquisition.frames as usize;
    let monitor = match integrated.link_exists(name::MONITOR) {
        true => h5::read_list(&integrated, name::MONITOR).map_err(text)?,
        false => vec![crate::finish::NAN64; frames],
    };
    let shared = read_shared(&integrated).map_err(text)?;
    let this = Final {
        path: path.to_path_buf(),
        layout: Layout::from_name(&h5::get_text(&coverage, name::LAYOUT).map_err(text)?).ok_or("unknown layout")?,
        averaged: Averaged::read(&process, &coverage, &shared).map_err(text)?,
        shared: Arc::new(shared),
        status: status.ok_or("unknown status")?,
        stored_digest: list(name::STORED_DIGEST)?,
        reference: h5::get_number(&coverage, name::REFERENCE).map_err(text)?,
        data_digest: h5::get_text(&coverage, name::DATA_DIGEST).map_err(text)?,
        parts: parts_text.lines().map(str::to_owned).collect(),
        has_sums: integrated.link_exists(name::SIGNAL),
        intact: vec![false; frames],
        row_digest: list(name::ROW_DIGEST)?,
        monitor,
        task: *task,
        recipe,
        integrated,
        process,
        _file: file,
    };
    if [this.status.len(), this.monitor.len(), this.stored_digest.len(), this.row_digest.len()] != [frames; 4] {
        return Err(format!("expected {frames} values of frame_status, monitor, stored_digest and row_digest"));
    }
    let found = digest::of_coverage(
        &[&task_line, &recipe_text, &parts_text],
        &this.monitor,
        &[&this.stored_digest, &this.row_digest],
    );
    if found != h5::get_text(&coverage, name::COVERAGE_DIGEST).map_err(text)? {
        return Err("its coverage is not as it was written".to_owned());
    }
    if digest::of_data(&this.shared, &this.row_digest) != this.data_digest {
        return Err("its axes or weights are not as they were written".to_owned());
    }
    Ok(this)
}

/// The NXprocess that the chain of defaults leads to.
pub(super) fn default_process(file: &Group) -> hdf5::Result<Group> {
    let entry = file.group(&h5::get_text(file, "default")?)?;
    let default = h5::get_text(&entry, "default")?;
    entry.group(default.split('/').next().unwrap_or_default())
}

fn read_shared(integrated: &Group) -> hdf5::Result<Shared> {
    let names: Vec<String> = h5::get_texts(integrated, "axes")?;
    let axis = |name: &String| -> hdf5::Result<Axis> {
        let dataset = integrated.dataset(name)?;
        Ok(Axis { name: name.clone(), units: h5::get_text(&dataset, "units")?, centers: dataset.read_raw()? })
    };
    let radial = axis(names.last().ok_or("no axes")?)?;
    let chi = names.get(1).filter(|_| names.len() > 2).map(axis).transpose()?;
    let weights = Weights {
        norm: integrated.dataset(name::NORM)?.read_raw()?,
        norm_sq: integrated.dataset(name::NORM_SQ)?.read_raw()?,
        count: integrated.dataset(name::COUNT)?.read_raw()?,
    };
    Ok(Shared { axes: Axes { radial, chi }, weights })
}
