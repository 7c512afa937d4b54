//! The pixels of a case, computed by the lines that pixels.py has, too.

use std::path::Path;

use super::case::Case;
use crate::support::npy;

/// 32 bits for each pixel.
fn hashed(pixel: usize, seed: u32) -> u32 {
    let mut bits = (pixel as u32).wrapping_mul(0x9E37_79B1).wrapping_add(seed);
    bits ^= bits >> 15;
    bits = bits.wrapping_mul(0x85EB_CA6B);
    bits ^= bits >> 13;
    bits = bits.wrapping_mul(0xC2B2_AE35);
    bits ^ (bits >> 16)
}

/// The frame's bytes in the machine's order.
pub fn frame(case: &Case) -> Vec<u8> {
    let value = |pixel| {
        let bits = hashed(pixel, case.seed);
        case.marks.get((bits >> 25) as usize).copied().unwrap_or(i64::from(bits % case.top))
    };
    let bytes = |pixel| match case.dtype.as_str() {
        "uint16" => (value(pixel) as u16).to_ne_bytes().to_vec(),
        _ => (value(pixel) as u32).to_ne_bytes().to_vec(),
    };
    (0..case.shape[0] * case.shape[1]).flat_map(bytes).collect()
}

/// One pixel in 64 and a block in the corner.
pub fn write_mask(path: &Path, case: &Case) {
    let [rows, columns] = case.shape;
    let masked = |pixel: usize| {
        let block = pixel / columns < rows / 5 && pixel % columns < columns / 4;
        u8::from(block || hashed(pixel, case.seed + 1) >> 26 == 0)
    };
    std::fs::write(
        path,
        npy("|u1", case.shape, &(0..rows * columns).map(masked).collect::<Vec<_>>()),
    )
    .unwrap();
}

/// Dark counts in quarters, or a flat field about 1.
pub fn write_image(path: &Path, case: &Case, seed: u32, value: impl Fn(u32) -> f32) {
    let pixels = 0..case.shape[0] * case.shape[1];
    let bytes = |pixel| value(hashed(pixel, case.seed + seed)).to_le_bytes();
    std::fs::write(path, npy("<f4", case.shape, &pixels.flat_map(bytes).collect::<Vec<_>>()))
        .unwrap();
}
