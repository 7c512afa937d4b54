//! Plots of final files.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::collections::HashSet;
use std::path::Path;

use patterns::output::{self, Average, AverageMethod, OutputFile, OutputOptions, OutputSpec};
use patterns::part::{PartMetadata, PartWriter};
use patterns::plot::{ScanArrangement, ScanCurves};
use patterns::{BinWeights, FrameRow, PatternAxes, PatternAxis, SharedBins, plot};
use records::Spans;
use support::*;
use system::ownership::ReplacePolicy;

/// Builds a final file of powder rings that move with the frame; frames 40 to 49 are missing.
fn rings(out: &Path, frames: u64) -> OutputFile {
    rings_in_bins(out, frames, 800, |_, counts| counts)
}

/// Builds a final file as [`rings`] does, with this number of bins, and with other counts: those of
/// a bin in a frame are what `change` makes of the number of the value and its counts.
fn rings_in_bins(
    out: &Path,
    frames: u64,
    bins: usize,
    change: impl Fn(u64, f64) -> f64,
) -> OutputFile {
    let centers: Vec<f64> = (0..bins).map(|bin| 5.0 + 40.0 * bin as f64 / bins as f64).collect();
    let weights = BinWeights {
        norm: vec![100.0; bins],
        norm_sq: vec![100.0; bins],
        count: vec![100.0; bins],
    };
    let radial =
        PatternAxis { name: "q".to_owned(), units: "nm^-1".to_owned(), centers: centers.clone() };
    let shared = SharedBins { axes: PatternAxes { radial, chi: None }, weights };
    let line = |q: f64, at: f64, height: f64| height * (-((q - at) / 0.12).powi(2)).exp();
    let rows = |frame: u64| {
        let shift = 0.01 * frame as f64;
        let intensity = |q: &f64| {
            20.0 + 300.0 * (-q / 8.0).exp()
                + line(*q, 15.1 + shift, 900.0)
                + line(*q, 21.4 + shift, 400.0)
                + line(*q, 26.2 + 1.5 * shift, 150.0)
                + line(*q, 33.9 + 2.0 * shift, 60.0)
        };
        let at =
            |bin: usize| change(frame * bins as u64 + bin as u64, 100.0 * intensity(&centers[bin]));
        let signal: Vec<f64> = (0..bins).map(at).collect();
        FrameRow {
            frame,
            variance: Some(signal.iter().map(|sum| sum.abs()).collect()),
            signal,
            ..row(frame)
        }
    };
    let (recipe, scan) = (recipe(), acquisition(frames, |_| 7));
    let task = task(&scan, &recipe, &Spans::first_n(frames));
    let mut writer = PartWriter::create(
        out,
        &task.part,
        &PartMetadata { task: task.clone(), recipe },
        &shared,
        Default::default(),
    )
    .unwrap();
    (0..frames)
        .filter(|frame| !(40..50).contains(frame))
        .for_each(|frame| writer.push_row(&rows(frame)).unwrap());
    writer.finish().unwrap();
    let target = OutputSpec::new(out, &task).unwrap();
    output::build(
        &target,
        &OutputOptions {
            average: Some(Average::all_frames(AverageMethod::Mean)),
            ..OutputOptions::default()
        },
        &(),
    )
    .unwrap();
    OutputFile::open(&target.path()).unwrap()
}

#[test]
fn a_png_shows_map_and_curve() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("rings.png");
    plot::draw(&rings(out.path(), 120), &path, &ReplacePolicy::default()).unwrap();
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (1200, 900));
    let colours: HashSet<&[u8]> = pixels.chunks(3).collect();
    assert!(colours.len() > 200, "{} colours", colours.len());
    let grey = pixels.chunks(3).filter(|pixel| *pixel == [214, 214, 218]).count();
    assert!((20_000..100_000).contains(&grey), "{grey} pixels without data");
}

#[test]
fn an_svg_names_its_axes() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("rings.svg");
    plot::draw(&rings(out.path(), 60), &path, &ReplacePolicy::default()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    for label in [
        "q (nm⁻¹)",
        "Mean intensity (counts)",
        ">\nIntensity (counts)\n<",
        "frame",
        "50 of 60 frames",
        "ascan rot 0 90 100 0.1",
    ] {
        assert!(text.contains(label), "{label}");
    }
    let wrong =
        plot::draw(&rings(out.path(), 3), &out.path().join("rings.gif"), &ReplacePolicy::default())
            .unwrap_err()
            .to_string();
    assert!(wrong.contains("expected a name that ends in .png, .svg or .pdf"), "{wrong}");
}

#[test]
fn one_frame_is_a_curve() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("one.svg");
    plot::draw(&rings(out.path(), 1), &path, &ReplacePolicy::default()).unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains(">\nframe\n<"));
}

/// A number from 0 to 1 that looks random.
fn noise(number: u64) -> f64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11).wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64
        / u64::MAX as f64
}

#[test]
fn vector_graphics_of_many_noisy_frames_are_small() {
    let out = tempfile::tempdir().unwrap();
    let many =
        rings_in_bins(out.path(), 1000, 2500, |number, counts| counts * (0.5 + noise(number)));
    for name in ["many.svg", "many.pdf"] {
        let path = out.path().join(name);
        plot::draw(&many, &path, &ReplacePolicy::default()).unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!((30_000..300_000).contains(&bytes), "{name}: {bytes} bytes");
        // It is azpipe's own, and may be drawn again.
        plot::draw(&many, &path, &ReplacePolicy::default()).unwrap();
    }
}

#[test]
fn scans_share_a_plot_if_their_axes_do() {
    let [one, two] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let (near, far) = (rings(one.path(), 3), rings(two.path(), 5));
    for arrangement in [ScanArrangement::Overlaid, ScanArrangement::Stacked] {
        let mut curves = ScanCurves::new(arrangement);
        assert!(curves.add(&near).unwrap() && curves.add(&far).unwrap());
        let path = one.path().join("both.svg");
        plot::draw_scans(&curves, &path, &ReplacePolicy::default()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = near.path.file_stem().unwrap().to_str().unwrap();
        assert_eq!(text.matches(name).count(), 2, "each curve is named");
        assert_eq!(text.contains("above the last"), arrangement == ScanArrangement::Stacked);
    }
}
