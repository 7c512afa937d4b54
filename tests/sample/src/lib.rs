//! Synthetic Bliss scans: powder rings on detectors with gaps, as ESRF beamlines write them.
//!
//! A dataset is a directory with
//!
//! | path | what |
//! |---|---|
//! | `RAW_DATA/<sample>/<sample>_0001/<sample>_0001.h5` | the Bliss master: entries `1.1`, `1.2`, `2.1`, … |
//! | `RAW_DATA/<sample>/<sample>_0001/scan0001/<detector>_0000.h5` | Lima 1 files with bitshuffled, LZ4-compressed chunks |
//! | `<sample>.poni` | the geometry that the rings were drawn with |
//! | `mask.edf` | hot pixels that the detector does not flag itself |
//!
//! The pixels are Poisson noise over the rings of a powder, so that patterns integrated from them
//! can be checked against d spacings that nobody here computed. Equal [`Options`] give equal
//! pixels.
//!
//! This crate is for tests, the demo and the benchmarks. It is a package of its own, and not a
//! module that each test includes, so that it is compiled once and lists what it needs (HDF5, LZ4)
//! itself. It shares no code with the crates under test.

mod detector;
mod dtype;
mod edf;
mod ffi;
mod frame;
mod lima;
mod master;
mod poni;
mod powder;
pub mod random;

pub mod bitshuffle;
pub mod nexus;

pub use detector::Detector;
pub use dtype::Dtype;
pub use ffi::{announce_filter, write_chunk};
pub use powder::Powder;
pub use random::Random;

use std::io;
use std::path::{Path, PathBuf};

use frame::Scene;

/// Settings of a dataset.
#[derive(Clone, Debug)]
pub struct Options {
    /// Scans without defects.
    pub scans: usize,
    /// More scans, after those, with one defect each.
    pub defects: Vec<Defect>,
    /// Frames a scan.
    pub frames: usize,
    /// Frames a Lima file.
    pub frames_per_file: usize,
    /// Different frames a scan; a longer scan repeats them.
    pub distinct: usize,
    /// The detector that takes the frames.
    pub detector: &'static Detector,
    /// The pixels' type.
    pub dtype: Dtype,
    /// The powder in the beam.
    pub powder: Powder,
    /// `true` if pixels in the gaps between modules have the value for "no sensor", `false` if they
    /// count photons.
    pub gaps: bool,
    /// Mean counts a pixel.
    pub mean: f64,
    /// Chooses the noise.
    pub seed: u64,
}

impl Default for Options {
    /// Two scans of 20 frames of a Pilatus 1M behind LaB6, 8 frames a file.
    fn default() -> Self {
        let detector = &detector::DETECTORS[0];
        Self {
            scans: 2,
            defects: Vec::new(),
            frames: 20,
            frames_per_file: 8,
            distinct: 16,
            detector,
            dtype: detector.dtype,
            powder: Powder::LaB6,
            gaps: true,
            mean: 2.0,
            seed: 1,
        }
    }
}

/// A way in which a scan is damaged or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Defect {
    /// The second Lima file is not there; the master's virtual dataset still points to it.
    MissingFile,
    /// The middle frame's chunk was never written.
    UnwrittenChunk,
    /// The middle frame's chunk ends half way.
    TruncatedChunk,
    /// Stopped by the user at half of the frames: the Lima file of that time is allocated in full,
    /// later ones are not there, and the counters have one point more than there are frames.
    Aborted,
    /// Still being written: no `end_time`, no image dataset in the master, the last Lima file open.
    Running,
}

/// Where a dataset is.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The directory to give to scan-find.
    pub raw: PathBuf,
    /// The Bliss master.
    pub master: PathBuf,
    /// The geometry.
    pub poni: PathBuf,
    /// The hot pixels, 1 where masked.
    pub mask: PathBuf,
    /// The Lima files of each scan, in order, the missing ones among them.
    pub lima: Vec<Vec<PathBuf>>,
}

/// Why a dataset could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be made.
    #[error("{}: {why}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// HDF5 refused something.
    #[error("{}: {why}", path.display())]
    Hdf5 {
        /// In which file.
        path: PathBuf,
        /// HDF5's error.
        why: hdf5::Error,
    },
    /// A count of zero.
    #[error("{0}: expected at least 1")]
    Zero(&'static str),
}

/// Writes a dataset below `root`, which is made if it is not there.
///
/// # Errors
/// A count of zero; a file that can't be written.
pub fn write(root: &Path, options: &Options) -> Result<Dataset, Error> {
    let counts = [
        ("frames", options.frames),
        ("frames per file", options.frames_per_file),
        ("distinct frames", options.distinct),
    ];
    if let Some((what, _)) = counts.iter().find(|(_, count)| *count == 0) {
        return Err(Error::Zero(what));
    }
    let sample = options.powder.name();
    let raw = root.join("RAW_DATA");
    let directory = raw.join(sample).join(format!("{sample}_0001"));
    let dataset = Dataset {
        master: directory.join(format!("{sample}_0001.h5")),
        poni: root.join(format!("{}.poni", sample.to_lowercase())),
        mask: root.join("mask.edf"),
        lima: Vec::new(),
        raw,
    };
    let io = |path: &Path| {
        let path = path.to_owned();
        move |why| Error::Io { path, why }
    };
    std::fs::create_dir_all(&directory).map_err(io(&directory))?;

    let detector = options.detector;
    let scene = Scene::new(options);
    std::fs::write(&dataset.poni, poni::text(detector)).map_err(io(&dataset.poni))?;
    let mask: Vec<u8> = (0..detector.pixels()).map(|pixel| scene.is_hot(pixel).into()).collect();
    std::fs::write(&dataset.mask, edf::bytes(detector.shape, &mask)).map_err(io(&dataset.mask))?;

    let hdf5 = |path: &Path| {
        let path = path.to_owned();
        move |why| Error::Hdf5 { path, why }
    };
    let mut master =
        master::Master::create(&dataset.master, sample).map_err(hdf5(&dataset.master))?;
    let defects = (0..options.scans).map(|_| None).chain(options.defects.iter().copied().map(Some));
    let mut lima = Vec::new();
    for (number, defect) in (1..).zip(defects) {
        let scan = Scan { number, defect, options };
        let folder = directory.join(scan.folder());
        std::fs::create_dir_all(&folder).map_err(io(&folder))?;
        let chunks = scene.chunks(options, number);
        for file in 0..scan.files() {
            let path = directory.join(scan.file(file));
            if scan.has_file(file) {
                lima::write(&path, &scan, file, &chunks).map_err(hdf5(&path))?;
            }
        }
        master.add(&scan).map_err(hdf5(&dataset.master))?;
        lima.push((0..scan.files()).map(|file| directory.join(scan.file(file))).collect());
    }
    Ok(Dataset { lima, ..dataset })
}

/// One scan of a dataset: its names, and which of its frames were written.
pub(crate) struct Scan<'a> {
    /// From 1, as Bliss counts.
    number: usize,
    defect: Option<Defect>,
    options: &'a Options,
}

impl Scan<'_> {
    fn folder(&self) -> String {
        format!("scan{:04}", self.number)
    }

    /// How many Lima files the scan was to have.
    fn files(&self) -> usize {
        self.options.frames.div_ceil(self.options.frames_per_file)
    }

    /// A Lima file's path beside the master.
    fn file(&self, file: usize) -> String {
        format!("{}/{}_{file:04}.h5", self.folder(), self.options.detector.device)
    }

    /// The scan's frames that Lima file `file` is for.
    fn frames_of(&self, file: usize) -> std::ops::Range<usize> {
        let first = file * self.options.frames_per_file;
        first..self.options.frames.min(first + self.options.frames_per_file)
    }

    /// The frame with the defect, where one frame has it; the first that was not taken, where the
    /// scan was stopped.
    fn middle(&self) -> usize {
        self.options.frames / 2
    }

    fn has_file(&self, file: usize) -> bool {
        match self.defect {
            Some(Defect::MissingFile) => file != 1,
            Some(Defect::Aborted | Defect::Running) => self.frames_of(file).start < self.middle(),
            _ => true,
        }
    }

    fn is_written(&self, frame: usize) -> bool {
        match self.defect {
            Some(Defect::UnwrittenChunk) => frame != self.middle(),
            Some(Defect::Aborted | Defect::Running) => frame < self.middle(),
            _ => true,
        }
    }

    /// Points of the counters.
    fn points(&self) -> usize {
        match self.defect {
            Some(Defect::Aborted | Defect::Running) => self.options.frames.min(self.middle() + 1),
            _ => self.options.frames,
        }
    }

    /// Returns whether Lima closed the file.
    fn is_closed(&self, file: usize) -> bool {
        self.defect != Some(Defect::Running) || self.frames_of(file).end < self.middle()
    }
}
