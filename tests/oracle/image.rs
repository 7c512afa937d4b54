//! What a pixel holds: the same few lines stand in pyfai.py.

use std::path::Path;

use crate::case::Case;

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
    write_npy(path, "|u1", case.shape, (0..rows * columns).map(masked).collect());
}

/// Dark counts in quarters, or a flat field about 1.
pub fn write_image(path: &Path, case: &Case, seed: u32, value: impl Fn(u32) -> f32) {
    let pixels = 0..case.shape[0] * case.shape[1];
    let bytes = |pixel| value(hashed(pixel, case.seed + seed)).to_le_bytes();
    write_npy(path, "<f4", case.shape, pixels.flat_map(bytes).collect());
}

fn write_npy(path: &Path, descr: &str, [rows, columns]: [usize; 2], data: Vec<u8>) {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    let parts = [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), &data];
    std::fs::write(path, parts.concat()).unwrap();
}
