//! `sample-dataset` writes a synthetic dataset to try azpipe on, and prints where its parts are,
//! one `name path` per line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use sample::{Defect, Detector, Dtype, Options, Powder};

/// Write a small, realistic Bliss dataset to try azpipe on: powder rings on a detector with gaps.
///
/// DIRECTORY gets RAW_DATA (a Bliss master and its Lima files), a PONI file named after the powder,
/// and mask.edf. It is created if needed. Nothing that exists is overwritten.
#[derive(Parser)]
#[command(name = "sample-dataset", version)]
struct Args {
    /// Directory to write to
    directory: PathBuf,
    /// Number of scans without defects
    #[arg(long, value_name = "N", default_value_t = 2)]
    scans: usize,
    /// Add a scan with this defect; may be repeated
    #[arg(long = "defect", value_name = "DEFECT")]
    defects: Vec<Defect>,
    /// Frames per scan
    #[arg(long, value_name = "N", default_value_t = 20)]
    frames: usize,
    /// Frames per Lima file
    #[arg(long, value_name = "N", default_value_t = 8)]
    frames_per_file: usize,
    /// Different frames per scan; a longer scan repeats them
    #[arg(long, value_name = "N", default_value_t = 16)]
    distinct: usize,
    /// Detector: pilatus-1m, pilatus-2m, pilatus-300k, pilatus-100k, eiger-4m, eiger2-4m,
    /// eiger2-cdte-1m or eiger2-cdte-4m
    #[arg(long, value_name = "NAME", default_value = "pilatus-1m", value_parser = detector)]
    detector: &'static Detector,
    /// Pixel type [default: the type that the detector writes]
    #[arg(long)]
    dtype: Option<Dtype>,
    /// Sample in the beam
    #[arg(long, default_value = "lab6")]
    powder: Powder,
    /// Mark the pixels in the gaps between modules as invalid, as detectors do; with off they count
    /// photons
    #[arg(long, default_value = "on")]
    gaps: Switch,
    /// Mean counts per pixel
    #[arg(long, value_name = "COUNTS", default_value_t = 2.0)]
    mean: f64,
    /// Seed of the noise: equal seeds give equal pixels
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn detector(name: &str) -> Result<&'static Detector, String> {
    Detector::named(name).ok_or_else(|| "expected one of those that --help lists".to_owned())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let options = Options {
        scans: args.scans,
        defects: args.defects,
        frames: args.frames,
        frames_per_file: args.frames_per_file,
        distinct: args.distinct,
        detector: args.detector,
        dtype: args.dtype.unwrap_or(args.detector.dtype),
        powder: args.powder,
        gaps: args.gaps == Switch::On,
        mean: args.mean,
        seed: args.seed,
    };
    let poni = format!("{}.poni", args.powder.name().to_lowercase());
    let free = ["RAW_DATA", &poni, "mask.edf"]
        .iter()
        .map(|name| args.directory.join(name))
        .try_for_each(refuse_existing);
    let written =
        free.and_then(|()| sample::write(&args.directory, &options).map_err(|why| why.to_string()));
    let printed = written.and_then(|dataset| {
        let parts = [
            ("raw", dataset.raw),
            ("master", dataset.master),
            ("poni", dataset.poni),
            ("mask", dataset.mask),
        ];
        let lines: String =
            parts.iter().map(|(name, path)| format!("{name} {}\n", path.display())).collect();
        io::stdout().write_all(lines.as_bytes()).map_err(|why| format!("stdout: {why}"))
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "sample-dataset: {why}");
            ExitCode::from(2)
        }
    }
}

/// Fails if there is a file or directory at `path`, which may be a user's own.
fn refuse_existing(path: PathBuf) -> Result<(), String> {
    match path.symlink_metadata() {
        Ok(_) => Err(format!("{}: already exists; choose an empty directory", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
