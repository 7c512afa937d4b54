//! Measures how many frames per second one core, or each OpenCL device, integrates: from stored
//! chunks in memory to sums.
//!
//! Frames are synthetic, of an Eiger 4M and other detectors, with 1000 bins. Errors are
//! Poisson's, but for METHODs that end in `azimuthal`.
//!
//! `cargo run --release -p azpipe-kernels --example throughput -- [CASE-SUBSTRING]
//! [FRAMES-PER-BATCH] [portable|avx2|avx512|opencl] [METHOD]`
//!
//! METHOD is sum, azimuthal, clip, clip-azimuthal, split-clip, split-clip-azimuthal, median or
//! quartiles. Pixels are split by their bounding boxes, but not by `clip` and `clip-azimuthal`.
#![allow(clippy::print_stdout)]

mod opencl;
mod upper_bounds;

use std::hint::black_box;
use std::time::{Duration, Instant};

use kernels::{
    CsrMatrix, EncodedFrame, IntegrationPlan, InvalidValues, Isa, Pipeline, PixelType, Scratch,
    Statistic, TiledCsc, VarianceModel, integrate_batch,
};

const NBINS: usize = 1000;
/// Number of different frames per case.
const DISTINCT: usize = 16;

struct Case {
    name: &'static str,
    shape: [usize; 2],
    dtype: PixelType,
    light: Light,
    /// True if the beam loses a fifth of its strength over the frames.
    fades: bool,
    /// True if module gaps hold the largest value of the type (-1 for signed types); the mask
    /// excludes them.
    gaps: bool,
    /// One in this many pixels is dead, and not in the mask.
    dead: Option<u64>,
    store: Store,
}

#[derive(Clone, Copy)]
enum Store {
    Bslz4,
    Bszstd,
    /// LZ4 without bitshuffle, one block per frame.
    Lz4,
    Deflate,
    Raw,
}

#[derive(Clone, Copy)]
enum Light {
    /// Mean counts per pixel, the same everywhere.
    Flat(f64),
    /// Powder rings with this many counts at their maxima, over a weak background.
    Rings(f64),
}

const EIGER: [usize; 2] = [2167, 2070];

const CASE: Case = Case {
    name: "",
    shape: EIGER,
    dtype: PixelType::U32,
    light: Light::Rings(3.),
    fades: false,
    gaps: true,
    dead: None,
    store: Store::Bslz4,
};

const fn flat(name: &'static str, mean: f64) -> Case {
    Case { name, light: Light::Flat(mean), gaps: false, ..CASE }
}

const CASES: [Case; 23] = [
    flat("eiger-u32 0.001", 0.001),
    flat("eiger-u32 0.1", 0.1),
    flat("eiger-u32 2", 2.),
    flat("eiger-u32 50", 50.),
    flat("eiger-u32 1000", 1000.),
    Case { name: "eiger-u32 rings gaps", ..CASE },
    Case { name: "eiger-u32 bright gaps", light: Light::Rings(900.), ..CASE },
    Case { fades: true, ..flat("eiger-u32 7 fading", 7.) },
    flat("eiger-u32 7 steady", 7.),
    Case { name: "eiger-u32 bright fading gaps", light: Light::Rings(900.), fades: true, ..CASE },
    Case { name: "eiger-u32 rings dead", dead: Some(100_000), ..CASE },
    Case { name: "eiger-u32 rings rotten", dead: Some(100), ..CASE },
    Case { name: "eiger2-u32 rings gaps", shape: [2162, 2068], ..CASE },
    Case { name: "eiger-u16 rings gaps", dtype: PixelType::U16, ..CASE },
    Case { name: "eiger-u8 rings gaps", dtype: PixelType::U8, ..CASE },
    Case {
        name: "pilatus-i32 rings gaps",
        shape: [1679, 1475],
        dtype: PixelType::I32,
        light: Light::Rings(20.),
        ..CASE
    },
    Case { name: "eiger-f32 rings", dtype: PixelType::F32, gaps: false, ..CASE },
    Case { name: "eiger-u32 bszstd", store: Store::Bszstd, ..CASE },
    Case { name: "eiger-u32 lz4", store: Store::Lz4, ..CASE },
    Case { name: "eiger-u32 deflate", store: Store::Deflate, ..CASE },
    Case { name: "eiger-u32 raw", store: Store::Raw, ..CASE },
    Case { name: "eiger-u16 raw", store: Store::Raw, dtype: PixelType::U16, ..CASE },
    Case { name: "eiger-f32 raw", store: Store::Raw, dtype: PixelType::F32, gaps: false, ..CASE },
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let batch: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(16);
    let isa = arguments.next().unwrap_or_default();
    let method = arguments.next().unwrap_or_else(|| "sum".to_owned());
    if isa == "opencl" {
        return opencl::run(
            CASES.iter().filter(|case| case.name.contains(&wanted)),
            batch,
            &method,
        );
    }
    let isa = Isa::available().into_iter().find(|i| format!("{i:?}").to_lowercase().contains(&isa));
    let isa = isa.unwrap_or(Isa::Portable);
    println!("{isa:?}, {batch} frames a batch, {method}");
    println!(
        "{:<24} {:>6} {:>9} {:>9} {:>9} {:>9}",
        "case", "ratio", "decode ms", "ms", "spread", "frames/s"
    );
    for case in CASES.iter().filter(|case| case.name.contains(&wanted)) {
        case.run(batch, isa, &method);
    }
}

/// Returns the CSR matrix that a method needs besides the plan; `None` for sums.
fn csr_matrix(method: &str, plan: &IntegrationPlan) -> Option<CsrMatrix> {
    let statistic = match method {
        "sum" | "azimuthal" => return None,
        "median" => Statistic::QuantileMean { low: 0.5, high: 0.5 },
        "quartiles" => Statistic::QuantileMean { low: 0.25, high: 0.75 },
        _ => Statistic::SigmaClip { threshold: 5., max_iter: 5 },
    };
    Some(CsrMatrix::new(plan, statistic))
}

impl Case {
    fn run(&self, batch: usize, isa: Isa, method: &str) {
        let pixels = self.shape[0] * self.shape[1];
        let plan = self.plan(method);
        let csr = csr_matrix(method, &plan);
        let (pipeline, invalid, chunks) = (self.pipeline(), self.invalid(), self.chunks());
        let stored: Vec<EncodedFrame<'_>> =
            chunks.iter().map(|bytes| EncodedFrame { bytes, filter_mask: 0 }).collect();
        let stored_bytes: usize = chunks.iter().map(Vec::len).sum();

        let mut frame = vec![0; pixels * self.dtype.size()];
        let decode = time(|| {
            stored
                .iter()
                .for_each(|s| pipeline.decode(0, s.bytes, &mut frame).expect("a good chunk"));
            black_box(&frame);
        });
        let mut scratch = Scratch::new(isa);
        let all: Vec<EncodedFrame<'_>> =
            stored.iter().copied().cycle().take(batch.max(DISTINCT)).collect();
        let integrate = time(|| {
            for frames in all.chunks(batch) {
                match &csr {
                    None => drop(black_box(integrate_batch(
                        &pipeline,
                        &plan,
                        &invalid,
                        frames,
                        &mut scratch,
                    ))),
                    Some(csr) => drop(black_box(csr.integrate(
                        &pipeline,
                        &plan,
                        &invalid,
                        frames,
                        &mut scratch,
                    ))),
                }
            }
        });
        let [best, median] = integrate.map(|d| d.as_secs_f64() / all.len() as f64);
        println!(
            "{:<24} {:>6.1} {:>9.3} {:>9.3} {:>8.1}% {:>9.0}",
            self.name,
            (DISTINCT * frame.len()) as f64 / stored_bytes as f64,
            decode[0].as_secs_f64() * 1e3 / DISTINCT as f64,
            best * 1e3,
            (median / best - 1.) * 100.,
            1. / best
        );
    }

    fn plan(&self, method: &str) -> IntegrationPlan {
        let [rows, columns] = self.shape;
        let errors = if method.ends_with("azimuthal") {
            VarianceModel::AZIMUTHAL
        } else {
            VarianceModel::POISSON
        };
        // The solid angle.
        let norm = |pixel: usize| {
            1. - 1e-4 * self.radius((pixel / columns) as f64, (pixel % columns) as f64)
        };
        let norms: Vec<f64> = (0..rows * columns).map(norm).collect();
        IntegrationPlan::new(self.matrix(!method.starts_with("clip")), &norms, errors, None)
            .expect("one norm a pixel")
    }

    fn pipeline(&self) -> Pipeline {
        let filters: &[(u32, &[u32])] = match self.store {
            Store::Bslz4 => &[(32008, &[0, 4, 0, 0, 2])],
            Store::Bszstd => &[(32008, &[0, 4, 0, 0, 3])],
            Store::Lz4 => &[(32004, &[])],
            Store::Deflate => &[(2, &[]), (1, &[])],
            Store::Raw => &[],
        };
        Pipeline::from_hdf5(filters, self.dtype, false).expect("known filters")
    }

    fn invalid(&self) -> InvalidValues {
        let greatest = i128::from(u64::MAX >> (64 - 8 * self.dtype.size()));
        InvalidValues::from_integers([if self.dtype == PixelType::I32 {
            -2..=-1
        } else {
            greatest - 1..=greatest
        }])
    }

    fn chunks(&self) -> Vec<Vec<u8>> {
        (0..DISTINCT as u64).map(|i| self.store(&self.frame(i))).collect()
    }

    fn is_gap(&self, row: usize, column: usize) -> bool {
        // The modules of an Eiger: 1030 × 514 pixels, with gaps of 10 and 37 pixels.
        self.gaps && (column % 1040 >= 1030 || row % 551 >= 514)
    }

    fn radius(&self, row: f64, column: f64) -> f64 {
        let [rows, columns] = self.shape;
        ((row - rows as f64 * 0.48).powi(2) + (column - columns as f64 * 0.51).powi(2)).sqrt()
    }

    fn matrix(&self, split: bool) -> TiledCsc {
        let (starts, bins, weights) = self.entries(split);
        TiledCsc::new(&starts, &bins, &weights, NBINS).expect("a good matrix")
    }

    /// Returns the matrix of the pixels' bounding boxes in radius, or of their centres: the index
    /// of each pixel's first entry, the bins and the weights.
    fn entries(&self, split: bool) -> (Vec<u64>, Vec<u32>, Vec<f32>) {
        let [rows, columns] = self.shape;
        let corners = [(0., 0.), (0., 1.), (1., 0.), (1., 1.)];
        let largest = corners
            .map(|(r, c)| self.radius(r * rows as f64, c * columns as f64))
            .into_iter()
            .fold(0., f64::max);
        let width = largest * 1.0000001 / NBINS as f64;
        let (mut starts, mut bins, mut weights) = (vec![0], vec![], vec![]);
        for (row, column) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
            let centre = self.radius(row as f64 + 0.5, column as f64 + 0.5);
            let delta = corners
                .map(|(r, c)| (self.radius(row as f64 + r, column as f64 + c) - centre).abs())
                .into_iter()
                .fold(0., f64::max);
            let delta = if split { delta } else { 1e-9 };
            let (low, high) = ((centre - delta).max(0.) / width, (centre + delta) / width);
            for bin in low as usize..=(high as usize).min(NBINS - 1) {
                let share = (high.min(bin as f64 + 1.) - low.max(bin as f64)) / (high - low);
                if share > 0. && !self.is_gap(row, column) {
                    bins.push(bin as u32);
                    weights.push(share as f32);
                }
            }
            starts.push(bins.len() as u64);
        }
        (starts, bins, weights)
    }

    fn frame(&self, seed: u64) -> Vec<u64> {
        let [rows, columns] = self.shape;
        let mut random = 0x9e37_79b9_7f4a_7c15 ^ (seed + 1) << 32;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let beam = if self.fades { 1. - 0.2 * seed as f64 / DISTINCT as f64 } else { 1. };
        let levels: Vec<Vec<u16>> = match self.light {
            Light::Flat(mean) => vec![quantiles(mean * beam)],
            Light::Rings(crest) => (0..64)
                .map(|l| quantiles(beam * (0.05 + crest * (l as f64 / 63.).powi(2))))
                .collect(),
        };
        let greatest = u64::MAX >> (64 - 8 * self.dtype.size());
        let mut frame = Vec::with_capacity(rows * columns);
        for (row, column) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
            let random = next();
            let level = match self.light {
                Light::Flat(_) => 0,
                Light::Rings(_) => ring(self.radius(row as f64, column as f64)),
            };
            let dead = self.dead.is_some_and(|one_in| (random >> 16) % one_in == 0);
            let count = levels[level][(random & 0xffff) as usize];
            let count = if self.dtype == PixelType::F32 {
                f32::from(count).to_bits().into()
            } else {
                count.into()
            };
            frame.push(if dead || self.is_gap(row, column) { greatest } else { count });
        }
        frame
    }
}

/// Returns the brightness at a radius, in 0..64, with a maximum every 97 pixels.
fn ring(radius: f64) -> usize {
    let distance = (radius % 97. - 48.) / 6.;
    (63. * (-0.5 * distance * distance).exp()) as usize
}

/// Returns the quantiles of a Poisson distribution at 65536 equally likely levels.
fn quantiles(mean: f64) -> Vec<u16> {
    let (mut count, mut term, mut below) = (0u16, (-mean).exp(), 0.);
    if mean > 500. {
        // The first terms underflow. A normal distribution is close enough.
        return (0..65536)
            .map(|i| (mean + mean.sqrt() * 3. * ((i as f64 / 32768.) - 1.)) as u16)
            .collect();
    }
    (0..65536)
        .map(|i| {
            while below + term < (i as f64 + 0.5) / 65536. && count < u16::MAX {
                below += term;
                count += 1;
                term *= mean / f64::from(count);
            }
            count
        })
        .collect()
}

impl Case {
    /// Returns the chunk of a frame.
    fn store(&self, frame: &[u64]) -> Vec<u8> {
        let element = self.dtype.size();
        let bytes = |pixels: &[u64]| -> Vec<u8> {
            pixels.iter().flat_map(|p| p.to_le_bytes()[..element].to_vec()).collect()
        };
        let header = |block: usize| {
            let total = (frame.len() * element) as u64;
            [&total.to_be_bytes()[..], &(block as u32).to_be_bytes()].concat()
        };
        match self.store {
            Store::Raw => bytes(frame),
            Store::Deflate => {
                let bytes = bytes(frame);
                let shuffled: Vec<u8> = (0..element)
                    .flat_map(|byte| bytes.iter().skip(byte).step_by(element).copied())
                    .collect();
                let mut encoder =
                    flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(1));
                std::io::Write::write_all(&mut encoder, &shuffled).expect("memory");
                encoder.finish().expect("memory")
            }
            Store::Lz4 => {
                let compressed = lz4_flex::block::compress(&bytes(frame));
                [
                    header(frame.len() * element),
                    (compressed.len() as u32).to_be_bytes().to_vec(),
                    compressed,
                ]
                .concat()
            }
            Store::Bslz4 | Store::Bszstd => {
                let mut stored = header(8192);
                let whole = frame.len() / 8 * 8;
                for block in frame[..whole].chunks(8192 / element) {
                    let planes = planes(block, element);
                    let compressed = match self.store {
                        Store::Bszstd => zstd::bulk::compress(&planes, 3).expect("memory"),
                        _ => lz4_flex::block::compress(&planes),
                    };
                    stored.extend((compressed.len() as u32).to_be_bytes());
                    stored.extend(compressed);
                }
                stored.extend(bytes(&frame[whole..]));
                stored
            }
        }
    }
}

/// Returns the bit planes of a block.
fn planes(block: &[u64], element: usize) -> Vec<u8> {
    let mut planes = vec![0u8; block.len() * element];
    for (i, &pixel) in block.iter().enumerate() {
        let mut bits = pixel;
        while bits != 0 {
            planes[bits.trailing_zeros() as usize * block.len() / 8 + i / 8] |= 1 << (i % 8);
            bits &= bits - 1;
        }
    }
    planes
}

/// Measures the best and the median time of a call.
fn time(mut work: impl FnMut()) -> [Duration; 2] {
    let begun = Instant::now();
    work();
    // The clock may have a resolution of milliseconds, so calls are repeated until a tick is short
    // compared to them.
    let rounds = (SAMPLE.as_secs_f64() / begun.elapsed().as_secs_f64()).ceil().max(1.) as u32;
    let mut times: Vec<Duration> = (0..7)
        .map(|_| {
            let start = clock();
            (0..rounds).for_each(|_| work());
            (clock() - start) / rounds
        })
        .collect();
    times.sort_unstable();
    [times[0], times[times.len() / 2]]
}

/// Returns the minimum duration of one measurement.
const SAMPLE: Duration = Duration::from_millis(400);

/// Returns the CPU time of this thread, which other processes disturb less than the wall clock; or
/// the time of the wall clock, if the kernel does not report CPU time.
fn clock() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent =
        spent.and_then(|line| line.split(' ').next()?.parse().ok()).map(Duration::from_nanos);
    spent.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed())
}
