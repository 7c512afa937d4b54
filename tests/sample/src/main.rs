//! Writes a synthetic dataset and says on stdout where its parts are, one `name path` a line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use sample::{Defect, Detector, Dtype, Options, Powder};

/// Write a small, realistic Bliss dataset: powder rings on a detector with gaps.
#[derive(Parser)]
#[command(name = "sample-dataset", version)]
struct Args {
    /// Directory to write to.
    directory: PathBuf,
    /// Scans without defects.
    #[arg(long, value_name = "N", default_value_t = 2)]
    scans: usize,
    /// Add a scan with this defect. May be repeated.
    #[arg(long = "defect", value_name = "DEFECT")]
    defects: Vec<Defect>,
    /// Frames a scan.
    #[arg(long, value_name = "N", default_value_t = 20)]
    frames: usize,
    /// Frames a Lima file.
    #[arg(long, value_name = "N", default_value_t = 8)]
    frames_per_file: usize,
    /// Different frames a scan; a longer scan repeats them.
    #[arg(long, value_name = "N", default_value_t = 16)]
    distinct: usize,
    /// pilatus-1m, pilatus-2m, pilatus-300k, pilatus-100k, eiger-4m, eiger2-4m, eiger2-cdte-1m or eiger2-cdte-4m.
    #[arg(long, default_value = "pilatus-1m", value_parser = detector)]
    detector: &'static Detector,
    /// The pixels' type; that which the detector writes by default.
    #[arg(long)]
    dtype: Option<Dtype>,
    /// What the beam goes through.
    #[arg(long, default_value = "lab6")]
    powder: Powder,
    /// Whether the gaps between modules say that no sensor is there: on or off, where they count as others do.
    #[arg(long, value_name = "on|off", default_value = "on")]
    gaps: Switch,
    /// Mean counts a pixel.
    #[arg(long, value_name = "COUNTS", default_value_t = 2.0)]
    mean: f64,
    /// Chooses the noise.
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
    let written = sample::write(&args.directory, &options).map_err(|why| why.to_string());
    let told = written.and_then(|dataset| {
        let parts = [("raw", dataset.raw), ("master", dataset.master), ("poni", dataset.poni), ("mask", dataset.mask)];
        let lines: String = parts.iter().map(|(name, path)| format!("{name} {}\n", path.display())).collect();
        io::stdout().write_all(lines.as_bytes()).map_err(|why| format!("stdout: {why}"))
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "sample-dataset: {why}");
            ExitCode::from(2)
        }
    }
}
