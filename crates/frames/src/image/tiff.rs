//! TIFF, through the `tiff` crate: grey images only, every page.

use std::io::{Read, Seek};

use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::{SampleFormat, Tag};

use super::file::{Content, Flaw};
use super::{Image, PixelKind, Pixels};

/// No compression of TIFF makes a file this many times smaller: deflate reaches 1032, LZW some
/// 2700. A header that asks for more memory than that lies.
const MOST_EXPANSION: u64 = 4096;

/// `PhotometricInterpretation` of an image whose numbers count down to white.
const WHITE_IS_ZERO: u16 = 0;

pub(super) fn header<R: Read + Seek>(content: &mut Content<R>) -> Result<([usize; 2], PixelKind, usize), Flaw> {
    let mut decoder = open(content)?;
    let (shape, kind) = (shape(&mut decoder)?, kind(&mut decoder)?);
    Ok((shape, kind, skip(&mut decoder, usize::MAX)?.saturating_add(1)))
}

pub(super) fn read<R: Read + Seek>(content: &mut Content<R>, frame: usize) -> Result<Image, Flaw> {
    let mut decoder = open(content)?;
    let skipped = skip(&mut decoder, frame)?;
    if skipped < frame {
        return Err(Flaw::NoFrame { frame, frames: skipped.saturating_add(1) });
    }
    let shape = shape(&mut decoder)?;
    kind(&mut decoder)?;
    let pixels = match decoder.read_image().map_err(broken)? {
        DecodingResult::U8(values) => values.into(),
        DecodingResult::U16(values) => values.into(),
        DecodingResult::U32(values) => values.into(),
        DecodingResult::U64(values) => values.into(),
        DecodingResult::I8(values) => values.into(),
        DecodingResult::I16(values) => values.into(),
        DecodingResult::I32(values) => values.into(),
        DecodingResult::I64(values) => values.into(),
        DecodingResult::F32(values) => values.into(),
        DecodingResult::F64(values) => values.into(),
        DecodingResult::F16(_) => return Err(Flaw::broken("pixels of 16-bit floats are not read")),
    };
    let pixels: Pixels = pixels;
    if shape[0].checked_mul(shape[1]) != Some(pixels.len()) {
        return Err(Flaw::Broken(format!("{} pixels for {} x {}", pixels.len(), shape[0], shape[1])));
    }
    Ok(Image { shape, pixels })
}

fn open<R: Read + Seek>(content: &mut Content<R>) -> Result<Decoder<&mut R>, Flaw> {
    let most = usize::try_from(content.len().saturating_mul(MOST_EXPANSION)).unwrap_or(usize::MAX);
    let mut limits = Limits::default();
    limits.decoding_buffer_size = most;
    limits.intermediate_buffer_size = most;
    Ok(Decoder::new(content.reader()?).map_err(broken)?.with_limits(limits))
}

/// Goes on by up to `pages`, and says by how many.
fn skip<R: Read + Seek>(decoder: &mut Decoder<R>, pages: usize) -> Result<usize, Flaw> {
    let mut skipped = 0_usize;
    while skipped < pages && decoder.more_images() {
        decoder.next_image().map_err(broken)?;
        skipped = skipped.saturating_add(1);
    }
    Ok(skipped)
}

fn shape<R: Read + Seek>(decoder: &mut Decoder<R>) -> Result<[usize; 2], Flaw> {
    let (columns, rows) = decoder.dimensions().map_err(broken)?;
    if columns == 0 || rows == 0 {
        return Err(Flaw::Broken(format!("an image of {rows} x {columns} pixels")));
    }
    Ok([rows as usize, columns as usize])
}

/// The type of the pixels, if they are one number each and stored as they count.
fn kind<R: Read + Seek>(decoder: &mut Decoder<R>) -> Result<PixelKind, Flaw> {
    let bits = match decoder.colortype().map_err(broken)? {
        ColorType::Gray(bits) => bits,
        other => return Err(Flaw::Broken(format!("{other:?} pixels: expected one grey value a pixel"))),
    };
    let photometric = decoder.find_tag_unsigned(Tag::PhotometricInterpretation).map_err(broken)?;
    if photometric == Some(WHITE_IS_ZERO) {
        return Err(Flaw::broken("white-is-zero image: expected black-is-zero, where a pixel's number is its count"));
    }
    let format = match decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).map_err(broken)?.as_deref() {
        Some([format, ..]) => SampleFormat::from_u16_exhaustive(*format),
        _ => SampleFormat::Uint,
    };
    Ok(match (format, bits) {
        (SampleFormat::Uint, 8) => PixelKind::U8,
        (SampleFormat::Uint, 16) => PixelKind::U16,
        (SampleFormat::Uint, 32) => PixelKind::U32,
        (SampleFormat::Uint, 64) => PixelKind::U64,
        (SampleFormat::Int, 8) => PixelKind::I8,
        (SampleFormat::Int, 16) => PixelKind::I16,
        (SampleFormat::Int, 32) => PixelKind::I32,
        (SampleFormat::Int, 64) => PixelKind::I64,
        (SampleFormat::IEEEFP, 32) => PixelKind::F32,
        (SampleFormat::IEEEFP, 64) => PixelKind::F64,
        _ => {
            return Err(Flaw::Broken(format!(
                "{bits}-bit {format:?} pixels: expected integers of 8 to 64 bits or floats of 32 or 64"
            )));
        }
    })
}

fn broken(error: tiff::TiffError) -> Flaw {
    match error {
        tiff::TiffError::IoError(why) if why.kind() != std::io::ErrorKind::UnexpectedEof => Flaw::Io(why),
        tiff::TiffError::IoError(_) => Flaw::broken("the file ends before the image does"),
        tiff::TiffError::LimitsExceeded => {
            Flaw::broken("the header asks for an image far larger than the file can hold")
        }
        other => Flaw::Broken(other.to_string()),
    }
}
