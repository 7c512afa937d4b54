//! Frames: expected counts of a powder on a detector, and noise over them.

use rayon::prelude::*;

use crate::bitshuffle;
use crate::dtype::Value;
use crate::poni::{WAVELENGTH, view};
use crate::random::Random;
use crate::{Options, Powder};

/// Rings are Gaussian in 2θ with this standard deviation, in pixels at the centre.
const RING_WIDTH: f64 = 1.5;
/// The diffuse background beside the strongest ring's height.
const BACKGROUND: f64 = 0.04;
/// One pixel in so many is defective and says so, another one counts without photons and does not.
const ONE_IN: u64 = 50_021;
/// Counts of a hot pixel in every frame.
const HOT_COUNT: u32 = 60_000;

/// The expected counts of each pixel, without noise.
pub(crate) struct Scene {
    pixels: Vec<Pixel>,
}

#[derive(Clone, Copy)]
enum Pixel {
    /// Expected counts at the full beam.
    Lit(f32),
    Gap,
    Dead,
    Hot,
}

impl Scene {
    /// Rings of the powder, with the mean counts asked for on average over the pixels that count.
    pub(crate) fn new(options: &Options) -> Self {
        let &Options { detector, powder, mean, gaps, .. } = options;
        let width = RING_WIDTH * detector.pixel / detector.distance;
        let rings = angles(powder);
        let [rows, columns] = detector.shape;
        let mut pixels: Vec<Pixel> = (0..rows * columns)
            .into_par_iter()
            .map(|pixel| {
                let (row, column) = (pixel / columns, pixel % columns);
                match (
                    gaps && detector.is_gap(row, column),
                    Random::new(&[pixel as u64]).below(ONE_IN),
                ) {
                    (true, _) => Pixel::Gap,
                    (_, 0) => Pixel::Dead,
                    (_, 1) => Pixel::Hot,
                    _ if powder == Powder::None => Pixel::Lit(1.0),
                    _ => {
                        let (angle, solid_angle) = view(detector, row, column);
                        Pixel::Lit((profile(&rings, width, angle) * solid_angle) as f32)
                    }
                }
            })
            .collect();
        let lit = |pixel: &Pixel| {
            if let Pixel::Lit(expected) = pixel { Some(f64::from(*expected)) } else { None }
        };
        let count = pixels.iter().filter_map(lit).count();
        let scale = mean * count as f64 / pixels.iter().filter_map(lit).sum::<f64>();
        for pixel in &mut pixels {
            if let Pixel::Lit(expected) = pixel {
                *expected = (f64::from(*expected) * scale) as f32;
            }
        }
        Self { pixels }
    }

    /// Returns whether a pixel is hot: its value looks valid, so only a mask file can exclude it.
    pub(crate) fn is_hot(&self, pixel: usize) -> bool {
        matches!(self.pixels[pixel], Pixel::Hot)
    }

    /// The different frames of a scan, each as a chunk of its Lima file.
    pub(crate) fn chunks(&self, options: &Options, scan: usize) -> Vec<Vec<u8>> {
        let frames = options.distinct.min(options.frames);
        (0..frames)
            .into_par_iter()
            .map(|frame| {
                bitshuffle::encode(&self.frame(options, scan, frame), options.dtype.size(), 0)
            })
            .collect()
    }

    /// A frame's pixels, little-endian.
    fn frame(&self, options: &Options, scan: usize, frame: usize) -> Vec<u8> {
        let mut random = Random::new(&[options.seed, scan as u64, frame as u64]);
        let beam = beam(options, frame);
        let mut bytes = Vec::with_capacity(self.pixels.len() * options.dtype.size());
        for pixel in &self.pixels {
            let value = match pixel {
                Pixel::Lit(expected) => Value::Count(random.poisson(f64::from(*expected) * beam)),
                Pixel::Gap => Value::Gap,
                Pixel::Dead => Value::Dead,
                Pixel::Hot => Value::Count(HOT_COUNT),
            };
            options.dtype.append(value, &mut bytes);
        }
        bytes
    }
}

/// The beam's strength at a frame, 1 when the ring is full: it decays by a fifth over the
/// different frames and is topped up where they repeat.
pub(crate) fn beam(options: &Options, frame: usize) -> f64 {
    1.0 - 0.2 * (frame % options.distinct) as f64 / options.distinct as f64
}

/// 2θ in rad and height of the rings that the wavelength allows, rising.
fn angles(powder: Powder) -> Vec<(f64, f64)> {
    let angle = |(d, intensity): (f64, f64)| {
        let sine = WAVELENGTH / (2.0 * d);
        (sine < 1.0).then(|| (2.0 * sine.asin(), intensity / 100.0))
    };
    powder.rings().into_iter().filter_map(angle).collect()
}

/// Height of the pattern at an angle.
fn profile(rings: &[(f64, f64)], width: f64, angle: f64) -> f64 {
    let from = rings.partition_point(|(ring, _)| *ring < angle - 6.0 * width);
    let near = rings[from..].iter().take_while(|(ring, _)| *ring < angle + 6.0 * width);
    let peaks: f64 =
        near.map(|(ring, height)| height * (-0.5 * ((angle - ring) / width).powi(2)).exp()).sum();
    peaks + BACKGROUND * (1.0 + 2.0 * (-angle / 0.1).exp())
}
