//! Some frames side by side: pixel by pixel, the counts of all of them.

use std::cell::OnceCell;

use crate::backend::Backend;
use crate::decode::DecodeError;
use crate::fused::lane::{Lane, Width};
use crate::fused::source::{Buffers, Place};
use crate::fused::{Rules, Source};
use crate::order::TILE;
use crate::pixel::Pixel;
use crate::plan::Plan;

/// Frames side by side.
pub(crate) const LANES: usize = 8;

/// Stands for what has no place among 16 bits: invalid pixels, and any that are no smaller count.
pub(crate) const ELSEWHERE: u16 = u16::MAX;

/// Of the pixels of all lanes, this part may be elsewhere; more make the lists a slow way.
const FEW: usize = 256;

/// The pixels of [`LANES`] frames: 16 bytes for each pixel of a frame.
pub(crate) struct Columns {
    /// Pixels without entries hold anything.
    pub(super) pixels: Vec<[u16; LANES]>,
    /// By lane: the pixels with entries that are elsewhere, rising, and what they are: NaN where they are invalid.
    elsewhere: [Vec<(u32, f64)>; LANES],
    lanes: Vec<Lane>,
    buffers: Vec<Buffers>,
    low: Bytes,
    high: Bytes,
}

/// A tile's bytes of one significance, by pixel.
type Bytes = Box<[[u8; LANES]; TILE]>;

impl Default for Columns {
    fn default() -> Columns {
        let bytes = || -> Bytes {
            let zeros = vec![[0; LANES]; TILE].into_boxed_slice();
            zeros.try_into().unwrap_or_else(|_| unreachable!("the length is TILE"))
        };
        Columns {
            pixels: Vec::new(),
            elsewhere: Default::default(),
            lanes: (0..LANES).map(|_| Lane::default()).collect(),
            buffers: (0..LANES).map(|_| Buffers::default()).collect(),
            low: bytes(),
            high: bytes(),
        }
    }
}

impl Columns {
    /// Bytes of the pixels of a plan's frames.
    pub(super) fn bytes(plan: &Plan) -> usize {
        plan.unused.len() * TILE * size_of::<[u16; LANES]>()
    }

    /// Reads as many as [`LANES`] frames for a plan. A source that fails leaves its error, and anything in its lane.
    /// False where too many pixels have no place here; then the sources are used up, and nothing is read.
    pub(super) fn read<T: Pixel, B: Backend<LANES>>(
        &mut self,
        backend: B,
        plan: &Plan,
        rules: &Rules<T>,
        sources: &mut [Result<Source<'_>, DecodeError>],
    ) -> bool {
        let few = plan.pixels() * LANES / FEW;
        self.pixels.resize(plan.unused.len() * TILE, [0; LANES]);
        self.elsewhere.iter_mut().for_each(Vec::clear);
        for lane in &mut self.lanes {
            (lane.width, lane.invalid) = (Width::Zero, Vec::new());
        }
        for (number, unused) in plan.unused.iter().enumerate() {
            // All lit pixels are taken, bright or not.
            let place = Place { number, pixels: plan.pixels(), unused, dense: true, used: &OnceCell::new() };
            let lanes = self.lanes.iter_mut().zip(&mut self.buffers).zip(&mut self.elsewhere);
            for (source, ((lane, buffers), elsewhere)) in sources.iter_mut().zip(lanes) {
                let Ok(opened) = source else { continue };
                match opened.read(backend, place, rules, buffers, lane) {
                    Ok(()) => settle(lane, place, elsewhere),
                    Err(error) => {
                        lane.width = Width::Zero;
                        *source = Err(error);
                    }
                }
            }
            if self.elsewhere.iter().map(Vec::len).sum::<usize>() > few {
                return false;
            }
            self.put(backend, number);
        }
        true
    }

    /// Puts the tile that the lanes hold among the pixels.
    fn put<B: Backend<LANES>>(&mut self, backend: B, number: usize) {
        let Columns { pixels, lanes, low, high, .. } = self;
        let pixels = &mut pixels[number * TILE..][..TILE];
        let width = lanes.iter().map(|lane| lane.width).max().unwrap_or_default();
        for lane in lanes.iter_mut() {
            lane.widen(width);
        }
        let lanes: [&Lane; LANES] = std::array::from_fn(|lane| &lanes[lane]);
        if width == Width::Zero {
            pixels.fill([0; LANES]);
            return;
        }
        backend.interleave(lanes.map(|lane| &lane.low), low);
        if width == Width::Narrow {
            for (pixel, low) in pixels.iter_mut().zip(low.iter()) {
                *pixel = low.map(u16::from);
            }
            return;
        }
        backend.interleave(lanes.map(|lane| &lane.high), high);
        for (pixel, (low, high)) in pixels.iter_mut().zip(low.iter().zip(high.iter())) {
            *pixel = std::array::from_fn(|lane| u16::from_le_bytes([low[lane], high[lane]]));
        }
    }

    /// A pixel of a frame as a number, given what stands in its column: NaN where it is invalid.
    #[inline(always)]
    pub(super) fn value(&self, pixel: u32, lane: usize, column: u16) -> f64 {
        if column == ELSEWHERE { self.look_up(pixel, lane) } else { f64::from(column) }
    }

    #[cold]
    fn look_up(&self, pixel: u32, lane: usize) -> f64 {
        let list = &self.elsewhere[lane];
        list.binary_search_by_key(&pixel, |(pixel, _)| *pixel).map_or(f64::NAN, |found| list[found].1)
    }
}

/// Makes a lane's pixels fit in 16 bits, those that do not being elsewhere.
fn settle(lane: &mut Lane, place: Place<'_>, elsewhere: &mut Vec<(u32, f64)>) {
    let (first, known) = (place.number * TILE, elsewhere.len());
    let Lane { low, high, .. } = lane;
    let pixels = low.iter_mut().zip(high.iter_mut());
    match lane.width {
        Width::Zero | Width::Narrow => {}
        Width::Middle => {
            let is_elsewhere = |low: u8, high: u8| low & high == u8::MAX;
            if low.iter().zip(high.iter()).fold(false, |any, (&low, &high)| any | is_elsewhere(low, high)) {
                // Gaps, too, are such pixels, but nobody looks at them.
                let used = place.used().iter().map(|&used| used != 0);
                let wide = low.iter().zip(high.iter()).zip(used).enumerate();
                let wide = wide.filter(|(_, ((low, high), used))| is_elsewhere(**low, **high) && *used);
                elsewhere.extend(wide.map(|(pixel, _)| ((first + pixel) as u32, f64::from(u16::MAX))));
            }
        }
        Width::Real => {
            for ((pixel, (low, high)), &value) in pixels.enumerate().zip(&lane.real) {
                let fits = (0. ..f64::from(ELSEWHERE)).contains(&value) && value.fract() == 0.;
                [*low, *high] = if fits { value as u16 } else { ELSEWHERE }.to_le_bytes();
                if !fits {
                    elsewhere.push(((first + pixel) as u32, value));
                }
            }
            lane.width = Width::Middle;
        }
    }
    if !lane.invalid.is_empty() {
        lane.widen(Width::Middle);
        for pixel in lane.invalid.drain(..) {
            let in_tile = pixel as usize - first;
            (lane.low[in_tile], lane.high[in_tile]) = (u8::MAX, u8::MAX);
            elsewhere.push((pixel, f64::NAN));
        }
        elsewhere[known..].sort_unstable_by_key(|(pixel, _)| *pixel);
    }
}
