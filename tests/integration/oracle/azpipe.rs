//! A case as ai-integrate would do it: recipe, integrator, sums, quotients.

use std::path::Path;
use std::sync::Arc;

use frames::coding::{Dtype, Hdf5Filter, PixelCoding};
use geometry::{Detector, Geometry, Poni, Unit};
use integrator::opencl::{Device, DeviceQueues};
use integrator::{Decoder, EncodedFrame, Integrator, MultiIntegrator, PixelType, Scratch, Sums};
use recipe::{Recipe, Settings};
use records::FrameLayout;
use serde_json::{Map, Value, json};

use super::case::Case;
use super::image;

/// A pattern; NaN in bins without weight.
pub struct Pattern {
    pub axis: Vec<f64>,
    pub intensity: Vec<f64>,
    pub sem: Vec<f64>,
    pub std: Vec<f64>,
}

/// Integrates the case's frame.
pub fn integrate(case: &Case) -> Pattern {
    integrate_with(case, Map::new()).unwrap()
}

/// Integrates a case with more settings; `None` if no pixel is within the ranges.
pub fn integrate_with(case: &Case, more: Map<String, Value>) -> Option<Pattern> {
    let (integrator, decoder) = prepare(case, more, vec![])?;
    let frame = image::frame(case);
    let stored = EncodedFrame { bytes: &frame, filter_mask: 0 };
    let sums = MultiIntegrator::new(vec![&integrator]).integrate(
        &decoder,
        &[stored],
        &mut Scratch::default(),
    );
    Some(normalize(&integrator, sums.into_iter().next().unwrap().unwrap().remove(0)))
}

/// The case's frame by an OpenCL device, stored as detectors do.
pub fn integrate_on_device(device: &Arc<Device>, case: &Case) -> Pattern {
    let (integrator, decoder) =
        prepare(case, Map::new(), vec![Hdf5Filter { id: 32008, values: vec![0, 2] }]).unwrap();
    let frame = image::frame(case);
    let size = frame.len() / case.shape.iter().product::<usize>();
    let chunk = sample::bitshuffle::encode(&frame, size, 8192);
    let stored = EncodedFrame { bytes: &chunk, filter_mask: 0 };
    let mut queues = DeviceQueues::new(device.clone(), 1).unwrap();
    let together = MultiIntegrator::new(vec![&integrator]);
    assert_eq!(together.unsupported_on_device(device).count(), 0);
    let sums = together
        .integrate_on_device(&mut queues, &decoder, &[stored], &mut Scratch::default())
        .unwrap();
    assert_eq!(queues.disputed(), 0);
    normalize(&integrator, sums.into_iter().next().unwrap().unwrap().remove(0))
}

/// The case's integrator, and the decoder of frames that are stored so; `None` where no pixel is
/// within the ranges.
fn prepare(
    case: &Case,
    more: Map<String, Value>,
    filters: Vec<Hdf5Filter>,
) -> Option<(Integrator, Decoder)> {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(case, folder.path());
    settings.extend(more);
    let settings: Settings = serde_json::from_value(Value::Object(settings)).unwrap();
    let mut recipe = Recipe::resolve(&settings).unwrap();
    if let Some(file) = Poni::parse(&case.poni).unwrap().detector.file() {
        recipe = recipe.with_detector_file(file).unwrap();
    }
    let (dtype, kind) = match case.dtype.as_str() {
        "uint16" => (PixelType::U16, Dtype::U16),
        "uint32" => (PixelType::U32, Dtype::U32),
        "int32" => (PixelType::I32, Dtype::I32),
        other => panic!("pixels of {other}"),
    };
    let framing = FrameLayout::full_frame(case.shape.map(|length| length as u64));
    let integrator = match Integrator::new(&recipe, &framing, dtype) {
        Err(integrator::IntegratorError::NoPixels(_)) => return None,
        integrator => integrator.unwrap(),
    };
    let decoder =
        integrator.decoder(&PixelCoding { dtype: kind, big_endian: false, filters }).unwrap();
    Some((integrator, decoder))
}

/// The case's settings under the names of a recipe, with their files in `folder`.
pub fn settings(case: &Case, folder: &Path) -> Map<String, Value> {
    let at = |name: &str| folder.join(name);
    std::fs::write(at("a.poni"), &case.poni).unwrap();
    let mut settings = json!({
        "poni": at("a.poni"), "npt": case.npt, "unit": case.unit, "split": case.split,
        "radial-range": case.radial_range, "azimuth-range": case.azimuth_range,
        "polarization": case.polarization, "solid-angle": case.solid_angle,
        "error-model": case.error_model, "sigma-clip": case.sigma_clip, "median": case.median,
    });
    if case.mask {
        image::write_mask(&at("mask.npy"), case);
        settings["mask"] = json!(at("mask.npy"));
    }
    if case.dark {
        image::write_image(&at("dark.npy"), case, 2, |bits| (bits % 9) as f32 / 4.0);
        settings["dark"] = json!(at("dark.npy"));
    }
    if case.error_model.as_deref() == Some("variance") {
        image::write_image(&at("variance.npy"), case, 4, |bits| 0.5 + (bits % 512) as f32 / 8.0);
        settings["variance"] = json!(at("variance.npy"));
    }
    if case.flat {
        image::write_image(&at("flat.npy"), case, 3, |bits| 0.5 + (bits % 1024) as f32 / 1024.0);
        settings["flat"] = json!(at("flat.npy"));
    }
    let Value::Object(mut settings) = settings else { unreachable!("an object was made") };
    settings.retain(|_, value| !value.is_null());
    settings.extend(case.more.clone());
    settings
}

fn normalize(integrator: &Integrator, sums: Sums) -> Pattern {
    let (norm, norm_sq) = match &sums.weight_override {
        Some(exception) => (exception.norm.as_slice(), exception.norm_sq.as_slice()),
        None => (integrator.plan().norm(), integrator.plan().norm_sq()),
    };
    let quotient = |value: f64, norm: f64| if norm == 0.0 { f64::NAN } else { value / norm };
    let variance = sums.variance.unwrap();
    Pattern {
        axis: integrator.radial().centers.clone(),
        intensity: sums
            .signal
            .iter()
            .zip(norm)
            .map(|(&signal, &norm)| quotient(signal, norm))
            .collect(),
        std: variance
            .iter()
            .zip(norm_sq)
            .map(|(&variance, &norm_sq)| quotient(variance, norm_sq).sqrt())
            .collect(),
        sem: variance
            .iter()
            .zip(norm)
            .map(|(&variance, &norm)| quotient(variance.sqrt(), norm))
            .collect(),
    }
}

/// How far from the start of the axis pixels within two pixels of the beam reach, in the case's
/// unit: there azimuths run all the way round inside of one pixel, and no rule for outlines holds.
pub fn near_beam(case: &Case) -> f64 {
    let Some([row, column]) = case.centre else { return f64::NEG_INFINITY };
    let poni = Poni::parse(&case.poni).unwrap();
    let geometry = Geometry::new(&poni, &Detector::from_poni(&poni).unwrap(), case.shape).unwrap();
    let unit = Unit::parse(&case.unit).unwrap();
    let boxes = geometry.radial_intervals(unit).unwrap();
    let near = |at: usize, beam: f64| (at as f64 + 0.5 - beam).abs() <= 2.5;
    let [rows, columns] = case.shape;
    let pixels = (0..rows)
        .filter(|&r| near(r, row))
        .flat_map(|r| (0..columns).filter(|&c| near(c, column)).map(move |c| r * columns + c));
    pixels.map(|pixel| boxes.interval(pixel).1 * unit.scale()).fold(f64::NEG_INFINITY, f64::max)
}
