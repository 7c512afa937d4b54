//! References for the tests: random frames and matrices, an encoder, and sums by plain loops.
#![allow(dead_code)] // each test program uses a part of it

pub mod series;

use kernels::PixelType;

/// A xorshift generator. It gives the same numbers on every machine, so that a failure can be
/// repeated by its seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A matrix in CSC form, as the arguments of `TiledCsc::new`.
#[derive(Debug, Default)]
pub struct Csc {
    pub starts: Vec<u64>,
    pub bins: Vec<u32>,
    pub weights: Vec<f32>,
    pub nbins: usize,
}

impl Csc {
    /// Creates a random matrix. Neighbouring pixels have similar bins; some pixels have many bins,
    /// some have none.
    pub fn random(pixels: usize, nbins: usize, random: &mut Random) -> Csc {
        let mut csc = Csc { starts: vec![0], nbins, ..Csc::default() };
        for pixel in 0..pixels {
            let first = (pixel as u64 / 3 + random.below(3)) % nbins as u64;
            let entries = [0, 1, 2, 2, 2, 2, 2, 2, 1, 3, 5][random.below(11) as usize];
            let mut bin = first;
            for _ in 0..entries {
                if bin < nbins as u64 {
                    csc.bins.push(bin as u32);
                    csc.weights.push(match random.below(12) {
                        0 => 1.,
                        1 => 1e-7,
                        _ => random.below(1000) as f32 / 999.,
                    });
                }
                bin += 1 + random.below(10) / 9 * 3;
            }
            csc.starts.push(csc.bins.len() as u64);
        }
        csc
    }

    pub fn matrix(&self) -> kernels::TiledCsc {
        kernels::TiledCsc::new(&self.starts, &self.bins, &self.weights, self.nbins)
            .expect("a good matrix")
    }

    pub fn entries(&self, pixel: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.starts[pixel] as usize..self.starts[pixel + 1] as usize;
        range.map(|e| (self.bins[e] as usize, f64::from(self.weights[e]))).filter(|(_, w)| *w != 0.)
    }

    /// Returns all entries as (pixel, bin, weight) in the order of summation, straight from its
    /// definition.
    pub fn in_order(&self) -> Vec<(usize, usize, f64)> {
        let pixels = self.starts.len() - 1;
        let mut order = Vec::new();
        for tile in (0..pixels).step_by(2048) {
            for round in [1, 2] {
                for i in 0..512 {
                    for pixel in [0, 512, 1024, 1536].map(|stream| tile + stream + i) {
                        if pixel < pixels {
                            let first = self.entries(pixel).next().map_or(0, |(bin, _)| bin);
                            let of_round = self
                                .entries(pixel)
                                .filter(|(bin, _)| (*bin <= first + 1) == (round == 1));
                            order.extend(of_round.map(|(bin, weight)| (pixel, bin, weight)));
                        }
                    }
                }
            }
        }
        order
    }
}

/// A frame: its values, which of them are valid, and the native bytes.
pub struct Frame {
    pub dtype: PixelType,
    pub values: Vec<f64>,
    pub valid: Vec<bool>,
    pub bytes: Vec<u8>,
}

/// Ranges of invalid integers.
pub type Ranges = Vec<std::ops::RangeInclusive<i128>>;

/// A distribution of photons.
#[derive(Clone, Copy, Debug)]
pub enum Photons {
    /// One pixel in this many has counts.
    Sparse(u64),
    /// Fewer than this many counts in each pixel.
    Below(u64),
    /// Random bits.
    Noise,
}

impl Frame {
    /// Creates a random frame. One pixel in `invalid` has the value of a gap; with 0 none has.
    pub fn random(
        dtype: PixelType,
        pixels: usize,
        photons: Photons,
        invalid: u64,
        rule: &Ranges,
        random: &mut Random,
    ) -> Frame {
        let mut frame = Frame { dtype, values: vec![], valid: vec![], bytes: vec![] };
        for _ in 0..pixels {
            let count = match photons {
                Photons::Sparse(one_in) => {
                    u64::from(random.below(one_in) == 0) * (1 + random.below(3))
                }
                Photons::Below(end) => random.below(end),
                Photons::Noise => random.next(),
            };
            let bad = invalid > 0 && random.below(invalid) == 0;
            frame.push(if bad { u64::MAX - random.below(2) } else { count }, bad, rule);
        }
        frame
    }

    fn push(&mut self, bits: u64, bad: bool, rule: &Ranges) {
        macro_rules! integer {
            ($t:ty) => {{
                let pixel = bits as $t;
                self.bytes.extend(pixel.to_ne_bytes());
                (pixel as f64, !rule.iter().any(|range| range.contains(&i128::from(pixel))))
            }};
        }
        let (value, valid) = match self.dtype {
            PixelType::U8 => integer!(u8),
            PixelType::I8 => integer!(i8),
            PixelType::U16 => integer!(u16),
            PixelType::I16 => integer!(i16),
            PixelType::U32 => integer!(u32),
            PixelType::I32 => integer!(i32),
            PixelType::U64 => integer!(u64),
            PixelType::I64 => integer!(i64),
            PixelType::F32 => {
                let pixel = if bad { f32::NAN } else { (bits % 100_000) as f32 / 7. - 3. };
                self.bytes.extend(pixel.to_ne_bytes());
                (f64::from(pixel), !bad)
            }
            PixelType::F64 => {
                let pixel = if bad { f64::INFINITY } else { (bits % 100_000) as f64 / 7. - 3. };
                self.bytes.extend(pixel.to_ne_bytes());
                (pixel, !bad)
            }
        };
        self.values.push(value);
        self.valid.push(valid);
    }
}

/// Returns the values that detectors write into gaps and dead pixels: the two largest of an
/// unsigned type, -1 and -2 of a signed type.
pub fn gaps(dtype: PixelType) -> Ranges {
    match dtype.name().strip_prefix('u') {
        Some(bits) => {
            let end = 1i128 << bits.parse::<u32>().expect("a number of bits");
            vec![end - 2..=end - 1]
        }
        None => vec![-2..=-1],
    }
}

/// Encodes a frame as a bitshuffle chunk, bit by bit, each block compressed by `compress`.
pub fn bitshuffle(
    pixels: &[u8],
    element: usize,
    block: usize,
    compress: impl Fn(&[u8]) -> Vec<u8>,
) -> Vec<u8> {
    let mut stored = Vec::new();
    stored.extend((pixels.len() as u64).to_be_bytes());
    stored.extend(((block * element) as u32).to_be_bytes());
    let whole = pixels.len() / element / 8 * 8 * element;
    for block in pixels[..whole].chunks(block * element) {
        let elements = block.len() / element;
        let mut planes = vec![0u8; block.len()];
        for bit in 0..8 * element {
            for e in 0..elements {
                let set = block[e * element + bit / 8] >> (bit % 8) & 1;
                planes[bit * elements / 8 + e / 8] |= set << (e % 8);
            }
        }
        let compressed = compress(&planes);
        stored.extend((compressed.len() as u32).to_be_bytes());
        stored.extend(compressed);
    }
    stored.extend(&pixels[whole..]);
    stored
}

/// Encodes a frame with bitshuffle and LZ4.
pub fn bslz4(pixels: &[u8], element: usize, block: usize) -> Vec<u8> {
    bitshuffle(pixels, element, block, lz4_flex::block::compress)
}
