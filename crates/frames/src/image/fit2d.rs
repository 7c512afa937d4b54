//! Reads Fit2D masks (`.msk`): a header of 1024 bytes, and one bit per pixel, 1 if masked.
//!
//! Source: fabio's `fit2dmaskimage`. The letters of MASK are at bytes 0, 4, 8 and 12; columns and
//! rows at 16 and 20, as little-endian 32-bit integers. Rows are padded to whole 32-bit integers,
//! with the first pixel in the lowest bit.

use super::file_bytes::{FileBytes, FormatError};
use super::{Dtype, Image, ImageFormat, ImageHeader, PixelData};

/// Mask file of Fit2D.
pub(super) const FIT2D: ImageFormat = ImageFormat {
    name: "fit2d",
    label: "a Fit2D mask",
    suffixes: &["msk"],
    is_searched_for: false,
    has_format: is_mask,
    read_header,
    first_image_end: |_| Ok(None),
    read_image,
};

const HEADER_BYTES: u64 = 1024;

/// Returns whether a file with these first bytes is a Fit2D mask.
fn is_mask(start: &[u8]) -> bool {
    start.len() > 12
        && start.iter().step_by(4).zip(b"MASK").all(|(found, expected)| found == expected)
}

fn read_header(content: &mut FileBytes<'_>) -> Result<ImageHeader, FormatError> {
    let header = content.read_exact(0, HEADER_BYTES, "header")?;
    // Columns and rows are the fifth and the sixth of the header's numbers.
    let (numbers, _) = header.as_chunks::<4>();
    let side = |nth: usize| u32::from_le_bytes(numbers[nth]) as usize;
    match [side(5), side(4)] {
        shape @ [rows, columns] if rows > 0 && columns > 0 => Ok(ImageHeader {
            format: FIT2D.name,
            shape,
            kind: Dtype::U8,
            frames: 1,
            is_unverified: false,
        }),
        [rows, columns] => Err(FormatError::invalid(format!(
            "{rows} x {columns} pixels: expected at least one row and one column"
        ))),
    }
}

fn read_image(content: &mut FileBytes<'_>, frame: usize) -> Result<Image, FormatError> {
    let ImageHeader { shape: shape @ [rows, columns], frames, .. } = read_header(content)?;
    if frame >= frames {
        return Err(FormatError::NoFrame { frame, frames });
    }
    // Rows and columns are 32-bit numbers, so the products fit in u64.
    let width = columns.div_ceil(32).saturating_mul(4);
    let bits =
        content.read_exact(HEADER_BYTES, (rows as u64).saturating_mul(width as u64), "bits")?;
    let pixel = |row: &[u8], column: usize| row[column / 8] >> (column % 8) & 1;
    let pixels =
        bits.chunks_exact(width).flat_map(|row| (0..columns).map(move |column| pixel(row, column)));
    Ok(Image { shape, pixels: PixelData::U8(pixels.collect()) })
}
