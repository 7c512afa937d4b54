//! Reads NPY, a NumPy array in a file: a magic string, a version, the array's description as a
//! Python dictionary, and the elements.
//!
//! Source: `numpy.lib.format`. Only NumPy writes the description, always in the same form, so three
//! look-ups suffice to parse it.

use super::file_bytes::{FileBytes, FormatError};
use super::{Dtype, Image, ImageFormat, ImageHeader, PixelData};

/// Array in NumPy's own format.
pub(super) const NPY: ImageFormat = ImageFormat {
    name: "npy",
    label: "NPY",
    suffixes: &["npy"],
    is_searched_for: false,
    has_format: |start| start.starts_with(MAGIC),
    read_header,
    first_image_end,
    read_image,
};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The validated description of an array.
struct NpyHeader {
    frames: usize,
    shape: [usize; 2],
    kind: Dtype,
    big_endian: bool,
    fortran_order: bool,
    /// Offset of the elements in the file.
    offset: u64,
}

fn read_header(content: &mut FileBytes<'_>) -> Result<ImageHeader, FormatError> {
    let array = read_npy_header(content)?;
    let (shape, kind, frames) = (array.shape, array.kind, array.frames);
    Ok(ImageHeader { format: NPY.name, shape, kind, frames, is_unverified: false })
}

fn first_image_end(content: &mut FileBytes<'_>) -> Result<Option<u64>, FormatError> {
    let array = read_npy_header(content)?;
    let size = array.kind.frame_bytes(array.shape.map(|extent| extent as u64));
    Ok((array.frames > 1).then_some(array.offset.saturating_add(size)))
}

fn read_image(content: &mut FileBytes<'_>, frame: usize) -> Result<Image, FormatError> {
    let array = read_npy_header(content)?;
    if frame >= array.frames {
        return Err(FormatError::NoFrame { frame, frames: array.frames });
    }
    let [rows, columns] = array.shape;
    // `read_npy_header` has checked that all frames are in the file.
    let size = array.kind.frame_bytes(array.shape.map(|extent| extent as u64));
    let offset = size.saturating_mul(frame as u64).saturating_add(array.offset);
    let bytes = content.read_exact(offset, size, "elements")?;
    let stored = PixelData::from_bytes(array.kind, &bytes, array.big_endian);
    let pixels = if array.fortran_order { stored.transpose(columns, rows) } else { stored };
    Ok(Image { shape: array.shape, pixels })
}

fn read_npy_header(content: &mut FileBytes<'_>) -> Result<NpyHeader, FormatError> {
    let preamble = content.read_exact(0, 12, "preamble")?;
    // Version 1 has a 16-bit length of the description, versions 2 and 3 a 32-bit one.
    let (start, length) = match preamble[6] {
        1 => (10_u64, u64::from(u16::from_le_bytes([preamble[8], preamble[9]]))),
        2 | 3 => (
            12,
            u64::from(u32::from_le_bytes([preamble[8], preamble[9], preamble[10], preamble[11]])),
        ),
        version => {
            return Err(FormatError::Broken(format!("version {version}: expected 1, 2 or 3")));
        }
    };
    let text = content.read_exact(start, length, "description")?;
    let text = String::from_utf8_lossy(&text);

    let invalid_header =
        |what: &str| FormatError::Broken(format!("description {:?}: {what}", text.trim()));
    let descr = dict_value(&text, "descr").ok_or_else(|| invalid_header("no 'descr'"))?;
    let (kind, big_endian) = parse_descr(descr).ok_or_else(|| {
        invalid_header("expected booleans, integers of 8 to 64 bits, or floats of 32 or 64")
    })?;
    let fortran_order = dict_value(&text, "fortran_order")
        .ok_or_else(|| invalid_header("no 'fortran_order'"))?
        .starts_with("True");
    let extents = dict_value(&text, "shape")
        .and_then(parse_shape)
        .ok_or_else(|| invalid_header("no 'shape'"))?;
    let (frames, shape) = match extents[..] {
        [rows, columns] => (1, [rows, columns]),
        [frames, rows, columns] if !fortran_order => (frames, [rows, columns]),
        _ => {
            return Err(invalid_header(
                "expected an image (rows, columns) or, in C order, a stack of them",
            ));
        }
    };

    let offset = start.saturating_add(length);
    let available = content.len().saturating_sub(offset);
    let size = extents
        .iter()
        .try_fold(kind.size() as u64, |size, &extent| size.checked_mul(extent as u64));
    if size.is_none_or(|size| size == 0 || size > available) {
        return Err(invalid_header(&format!(
            "expected at least one element and no more than the {available} bytes that follow"
        )));
    }
    Ok(NpyHeader { frames, shape, kind, big_endian, fortran_order, offset })
}

/// Returns the text after `'key':`.
fn dict_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("'{key}'"))?;
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

/// Parses a `descr` such as `'<u4'`: the element type, and whether it is big-endian.
fn parse_descr(descr: &str) -> Option<(Dtype, bool)> {
    let mut letters = descr.strip_prefix('\'')?.split('\'').next()?.chars();
    let big_endian = match letters.next()? {
        '<' | '|' => false,
        '>' => true,
        _ => return None,
    };
    let kind = match letters.as_str() {
        "b1" | "u1" => Dtype::U8,
        "i1" => Dtype::I8,
        "u2" => Dtype::U16,
        "i2" => Dtype::I16,
        "u4" => Dtype::U32,
        "i4" => Dtype::I32,
        "u8" => Dtype::U64,
        "i8" => Dtype::I64,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        _ => return None,
    };
    Some((kind, big_endian))
}

/// Parses a `shape` such as `(1043, 981)`.
fn parse_shape(shape: &str) -> Option<Vec<usize>> {
    let (inside, _) = shape.strip_prefix('(')?.split_once(')')?;
    inside
        .split(',')
        .map(str::trim)
        .filter(|extent| !extent.is_empty())
        .map(|extent| extent.parse().ok())
        .collect()
}
