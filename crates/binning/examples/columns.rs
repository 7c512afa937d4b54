//! Measures how long one core takes to find the positions of pixels and to split them among bins:
//! nanoseconds per pixel of an Eiger2 4M, the best of five.
//!
//! `RAYON_NUM_THREADS=1 cargo run --release -p azpipe-binning --example columns`
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use binning::{
    AzimuthRequest, BinningRequest, BinsRequest, PairedColumns, PixelBinner, PixelSplitting,
};
use geometry::{Detector, Geometry, Poni, Unit};

const SHAPE: [usize; 2] = [2162, 2068];
/// Pixels whose columns are made at a time, as for a matrix.
const PIXELS_AT_ONCE: usize = 1 << 15;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let poni = Poni::parse(
        "poni_version: 2.1\nDetector: Eiger2_4M\nDetector_config: {\"orientation\": 3}\nDistance: 0.2\n\
         Poni1: 0.08\nPoni2: 0.075\nRot1: 0.01\nRot2: -0.005\nRot3: 0\nWavelength: 1e-10\n",
    )?;
    let geometry = Geometry::new(&poni, &Detector::from_poni(&poni)?, SHAPE)?;
    let uniform = |npt| BinsRequest::Uniform { npt, range: None };
    println!("{:<14} {:>10} {:>10} {:>10}", "splitting", "bins", "positions", "columns");
    for (name, split) in [
        ("no", PixelSplitting::No),
        ("bounding boxes", PixelSplitting::BBox),
        ("full", PixelSplitting::Full),
    ] {
        for (bins, azimuth) in [
            ("1000", AzimuthRequest::Sum(None)),
            ("2500", AzimuthRequest::Sum(None)),
            ("1000 x 360", AzimuthRequest::Bins(uniform(360))),
        ] {
            let npt = if bins == "2500" { 2500 } else { 1000 };
            let request =
                BinningRequest { unit: Unit::default(), radial: uniform(npt), azimuth, split };
            let (mut positions, mut columns) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..ROUNDS {
                let (seconds, binner) = time(|| {
                    PixelBinner::new(&geometry, vec![false; SHAPE[0] * SHAPE[1]], &request)
                });
                positions = positions.min(seconds);
                let binner = binner?;
                let (seconds, ()) = time(|| make_columns(&binner));
                columns = columns.min(seconds);
            }
            let per_pixel = |seconds: f64| 1e9 * seconds / (SHAPE[0] * SHAPE[1]) as f64;
            let (positions, columns) = (per_pixel(positions), per_pixel(columns));
            println!("{name:<14} {bins:>10} {positions:>10.1} {columns:>10.1}");
        }
    }
    Ok(())
}

/// Makes all columns, block by block.
fn make_columns(binner: &PixelBinner) {
    let mut columns = PairedColumns::default();
    for first in (0..SHAPE[0] * SHAPE[1]).step_by(PIXELS_AT_ONCE) {
        columns.clear();
        let end = SHAPE[0] * SHAPE[1];
        binner.append_columns(first..end.min(first + PIXELS_AT_ONCE), &mut columns);
        black_box(&columns);
    }
}

/// Returns how many seconds a call takes, and what it returns.
fn time<T>(call: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let result = call();
    (began.elapsed().as_secs_f64(), result)
}
