//! Raw data that are written while somebody follows: scans with a master and files of some frames each,
//! and series of images, whose pattern says which frame of which scan it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sample::random::Random;

use super::uniform_frames::{COLUMNS, ROWS, RawDirectory, write_frames};
use crate::support::{create_hdf5, files_below, nexus_group, uniform_edf, write_text};

const MOST_FILES: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A master, rewritten as the scan ends, and files of some frames each.
    Bliss,
    /// Images that are numbered.
    Series,
}

/// How a file is written.
pub enum How {
    Whole,
    InPieces,
    CutShort,
}

pub struct Scan {
    pub format: Format,
    pub frames_per_file: usize,
    /// Which files are there.
    pub written: Vec<bool>,
    pub has_ended: bool,
    pub first_count: u16,
    /// How many frames were to come.
    pub asked: usize,
}

impl Scan {
    fn counts(&self, file: usize) -> Vec<u16> {
        let first = file * self.frames_per_file;
        (first..first + self.frames_per_file).map(|frame| self.first_count + frame as u16).collect()
    }

    /// The next file that is not there as a whole.
    pub fn next(&self) -> Option<usize> {
        self.written.iter().position(|written| !written)
    }
}

/// The raw data of a sequence.
pub struct LiveRawData {
    pub place: RawDirectory,
    pub scans: Vec<Scan>,
    pub random: Random,
    /// The time of the last change.
    pub changed: Instant,
}

impl LiveRawData {
    /// Creates a directory `raw` without scans.
    pub fn new(random: Random) -> Self {
        let place = RawDirectory::new();
        fs::create_dir(place.path("raw")).unwrap();
        Self { place, scans: Vec::new(), random, changed: Instant::now() }
    }

    fn directory(&self, scan: usize) -> PathBuf {
        self.place.path("raw").join(format!("s{scan}"))
    }

    fn file(&self, scan: usize, file: usize) -> PathBuf {
        self.directory(scan).join(match self.scans[scan].format {
            Format::Bliss => format!("scan0001/p3_{file:04}.h5"),
            Format::Series => format!("a_{file:04}.edf"),
        })
    }

    pub fn pause(&mut self, most_ms: usize) {
        std::thread::sleep(Duration::from_millis(self.random.index(most_ms) as u64));
    }

    pub fn begin(&mut self) {
        let format = if self.random.index(3) == 0 { Format::Series } else { Format::Bliss };
        let is_series = format == Format::Series;
        let frames_per_file = if is_series { 1 } else { 1 + self.random.index(3) };
        let files = 1 + self.random.index(MOST_FILES);
        let first_count = 100 + 20 * self.scans.len() as u16;
        let written = vec![false; files];
        self.scans.push(Scan {
            format,
            frames_per_file,
            written,
            has_ended: is_series,
            first_count,
            asked: files * frames_per_file,
        });
        let scan = self.scans.len() - 1;
        fs::create_dir_all(self.file(scan, 0).parent().unwrap()).unwrap();
        if !is_series {
            self.write_master(scan);
        }
    }

    /// Puts a file at its place at once.
    fn place_whole(&self, path: &Path, bytes: &[u8]) {
        let made = self.place.path("being-made");
        fs::write(&made, bytes).unwrap();
        fs::rename(made, path).unwrap();
    }

    /// Copies a file to its place, with a pause in the middle.
    fn place_in_pieces(&mut self, path: &Path, bytes: &[u8]) {
        let middle = self.random.index(bytes.len());
        fs::write(path, &bytes[..middle]).unwrap();
        self.pause(600);
        fs::write(path, bytes).unwrap();
    }

    pub fn write(&mut self, scan: usize, file: usize, how: How) {
        let (counts, path) = (self.scans[scan].counts(file), self.file(scan, file));
        let bytes = match self.scans[scan].format {
            Format::Series => uniform_edf([ROWS, COLUMNS], counts[0]),
            Format::Bliss => {
                let made = self.place.path("lima.h5");
                {
                    let entry = nexus_group(&create_hdf5(&made), "entry_0000", "NXentry");
                    let measurement = nexus_group(&entry, "measurement", "NXcollection");
                    write_frames(&measurement, "data", &counts);
                }
                fs::read(made).unwrap()
            }
        };
        self.changed = Instant::now();
        match how {
            How::Whole => self.place_whole(&path, &bytes),
            How::InPieces => self.place_in_pieces(&path, &bytes),
            How::CutShort => {
                return fs::write(path, &bytes[..self.random.index(bytes.len())]).unwrap();
            }
        }
        self.changed = Instant::now();
        self.scans[scan].written[file] = true;
    }

    /// Writes the master of a scan that runs, or that has ended.
    pub fn write_master(&mut self, scan: usize) {
        let made = self.place.path("master.h5");
        self.make_master(scan, &made);
        let bytes = fs::read(made).unwrap();
        let path = self.directory(scan).join(format!("m{scan}.h5"));
        if self.random.index(3) == 0 {
            self.place_in_pieces(&path, &bytes);
        } else {
            self.place_whole(&path, &bytes);
        }
    }

    fn make_master(&self, scan: usize, path: &Path) {
        let Scan { frames_per_file, has_ended, asked, ref written, .. } = self.scans[scan];
        let files = written.len();
        let frames = files * frames_per_file;
        let entry = nexus_group(&create_hdf5(path), "1.1", "NXentry");
        write_text(&entry, "title", "timescan");
        write_text(&entry, "start_time", &format!("2026-03-04T10:20:{}+01:00", 10 + scan));
        let there = self.scans[scan].next().unwrap_or(files) * frames_per_file;
        if there > 0 {
            let first = self.scans[scan].first_count;
            let values: Vec<f64> =
                (0..there).map(|frame| f64::from(first) + frame as f64).collect();
            let measurement = nexus_group(&entry, "measurement", "NXcollection");
            let counter = measurement.new_dataset::<f64>().shape(there).create("value").unwrap();
            counter.write_raw(&values).unwrap();
        } else {
            nexus_group(&entry, "measurement", "NXcollection");
        }
        let instrument = nexus_group(&entry, "instrument", "NXinstrument");
        let detector = nexus_group(&instrument, "p3", "NXdetector");
        write_text(&detector, "type", "lima");
        let parameters = nexus_group(&detector, "acq_parameters", "NXcollection");
        let number = parameters.new_dataset::<i64>().create("acq_nb_frames").unwrap();
        number.write_scalar(&(asked as i64)).unwrap();
        write_text(&parameters, "saving_prefix", "p3_");
        if !has_ended {
            return;
        }
        write_text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
        let (whole, one) = ((frames, ROWS, COLUMNS), (frames_per_file, ROWS, COLUMNS));
        let mut builder = detector.new_dataset::<u16>().shape(whole);
        for file in 0..files {
            let first = file * frames_per_file;
            let rows = (first..first + frames_per_file, .., ..);
            let name = format!("scan0001/p3_{file:04}.h5");
            let data = "entry_0000/measurement/data";
            builder = builder.virtual_map(name, data, one, .., whole, rows);
        }
        builder.create("data").unwrap();
    }

    /// Ends a scan that has its first files, and none after them.
    pub fn abort(&mut self, scan: usize) {
        let there = self.scans[scan].next().unwrap_or_default();
        let has_later = files_below(&self.directory(scan).join("scan0001")).len() > there;
        let Scan { format, has_ended, ref mut written, .. } = self.scans[scan];
        if format == Format::Bliss && !has_ended && there > 0 && !has_later {
            written.truncate(there);
            self.end(scan);
        }
    }

    pub fn end(&mut self, scan: usize) {
        if !self.scans[scan].has_ended {
            self.scans[scan].has_ended = true;
            self.write_master(scan);
        }
    }
}
