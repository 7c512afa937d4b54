//! Plots of final files.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::collections::HashSet;
use std::path::Path;

use patterns::output::{self, Average, AverageMethod, OutputFile, OutputOptions, OutputSpec};
use patterns::part::{PartMetadata, PartWriter};
use patterns::{BinWeights, FrameRow, PatternAxes, PatternAxis, SharedBins, plot};
use records::Spans;
use support::*;
use system::ownership::ReplacePolicy;

/// Builds a final file of powder rings that move with the frame; frames 40 to 49 are missing.
fn rings(out: &Path, frames: u64) -> OutputFile {
    const BINS: usize = 800;
    let centers: Vec<f64> = (0..BINS).map(|bin| 5.0 + 0.05 * bin as f64).collect();
    let weights = BinWeights { norm: vec![100.0; BINS], norm_sq: vec![100.0; BINS], count: vec![100.0; BINS] };
    let radial = PatternAxis { name: "q".to_owned(), units: "nm^-1".to_owned(), centers: centers.clone() };
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
        let signal: Vec<f64> = centers.iter().map(|q| 100.0 * intensity(q)).collect();
        FrameRow { frame, variance: Some(signal.clone()), signal, ..row(frame) }
    };
    let (recipe, scan) = (recipe(), acquisition(frames, |_| 7));
    let task = task(&scan, &recipe, &Spans::first_n(frames));
    let mut writer =
        PartWriter::create(out, &task.part, &PartMetadata { task: task.clone(), recipe }, &shared).unwrap();
    (0..frames).filter(|frame| !(40..50).contains(frame)).for_each(|frame| writer.push_row(&rows(frame)).unwrap());
    writer.finish().unwrap();
    let target = OutputSpec::new(out, &task).unwrap();
    output::build(
        &target,
        &OutputOptions { average: Some(Average::all_frames(AverageMethod::Mean)), ..OutputOptions::default() },
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
        "mean intensity (counts)",
        ">\nIntensity (counts)\n<",
        "frame",
        "50 of 60 frames",
        "ascan rot 0 90 100 0.1",
    ] {
        assert!(text.contains(label), "{label}");
    }
    let wrong = plot::draw(&rings(out.path(), 3), &out.path().join("rings.gif"), &ReplacePolicy::default())
        .unwrap_err()
        .to_string();
    assert!(wrong.contains("expected a name that ends in .png or .svg"), "{wrong}");
}

#[test]
fn one_frame_is_a_curve() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("one.svg");
    plot::draw(&rings(out.path(), 1), &path, &ReplacePolicy::default()).unwrap();
    assert!(!std::fs::read_to_string(&path).unwrap().contains(">\nframe\n<"));
}
