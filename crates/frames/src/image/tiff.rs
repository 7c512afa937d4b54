//! Reads TIFF through the `tiff` crate: only grey images, every page.

use std::io::{Read, Seek};

use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::{SampleFormat, Tag};

use super::file_bytes::{FileBytes, FormatError};
use super::{Dtype, Image, ImageFormat, ImageHeader, PixelData};

/// Tagged Image File Format, written by Dectris, EPICS and most cameras.
pub(super) const TIFF: ImageFormat = ImageFormat {
    name: "tiff",
    label: "TIFF",
    suffixes: &["tif", "tiff"],
    is_searched_for: true,
    has_format: |start| {
        matches!(start, [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..])
    },
    read_header,
    first_image_end,
    read_image,
};

/// Maximum compression ratio of an image. Deflate reaches 1032, LZW about 2700; a header that
/// claims more is wrong.
const MAX_EXPANSION: u64 = 4096;

/// `PhotometricInterpretation` of an image whose smallest value is white.
const WHITE_IS_ZERO: u16 = 0;

/// `Compression` of an image that is stored as it is.
const UNCOMPRESSED: u16 = 1;

fn read_header(content: &mut FileBytes<'_>) -> Result<ImageHeader, FormatError> {
    let len = content.len();
    let mut decoder = open_decoder(content)?;
    let (shape, kind) = (image_shape(&mut decoder)?, image_dtype(&mut decoder)?);
    let described = described_images(&mut decoder)?;
    let mut frames = 1_usize;
    check_is_whole(&mut decoder, 0, len)?;
    while skip_pages(&mut decoder, 1)? > 0 {
        check_is_whole(&mut decoder, frames, len)?;
        frames = frames.saturating_add(1);
    }
    drop(decoder);
    // A single image may have kept the description of its stack.
    let image_bytes = [shape[0], shape[1], kind.size()].map(|size| size as u64);
    let image_bytes = image_bytes.into_iter().fold(1, u64::saturating_mul);
    let has_room = |images: usize| len >= image_bytes.saturating_mul(images as u64);
    if let Some(described) = described.filter(|images| *images > frames && has_room(*images)) {
        return Err(FormatError::Broken(format!(
            "an ImageJ stack of {described} images with a directory for {frames} of them, as ImageJ writes more than 4 GB: \
             expected a directory for each; save the stack as a series of files"
        )));
    }
    Ok(ImageHeader { format: TIFF.name, shape, kind, frames, is_unverified: false })
}

fn first_image_end(content: &mut FileBytes<'_>) -> Result<Option<u64>, FormatError> {
    let len = content.len();
    let mut decoder = open_decoder(content)?;
    let end = check_is_whole(&mut decoder, 0, len)?;
    Ok(decoder.more_images().then_some(end))
}

fn read_image(content: &mut FileBytes<'_>, frame: usize) -> Result<Image, FormatError> {
    let mut decoder = open_decoder(content)?;
    let skipped = skip_pages(&mut decoder, frame)?;
    if skipped < frame {
        return Err(FormatError::NoFrame { frame, frames: skipped.saturating_add(1) });
    }
    let shape = image_shape(&mut decoder)?;
    image_dtype(&mut decoder)?;
    let pixels = match decoder.read_image().map_err(into_format_error)? {
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
        DecodingResult::F16(_) => {
            return Err(FormatError::invalid(
                "float16 pixels: expected integers of 8 to 64 bits, or floats of 32 or 64",
            ));
        }
    };
    let pixels: PixelData = pixels;
    if shape[0].checked_mul(shape[1]) != Some(pixels.len()) {
        return Err(FormatError::Broken(format!(
            "{} decoded pixels: expected {} x {}",
            pixels.len(),
            shape[0],
            shape[1]
        )));
    }
    Ok(Image { shape, pixels })
}

fn open_decoder<'a>(
    content: &'a mut FileBytes<'_>,
) -> Result<Decoder<impl Read + Seek + 'a>, FormatError> {
    let most = usize::try_from(content.len().saturating_mul(MAX_EXPANSION)).unwrap_or(usize::MAX);
    let mut limits = Limits::default();
    limits.decoding_buffer_size = most;
    limits.intermediate_buffer_size = most;
    Ok(Decoder::new(content.reader()?).map_err(into_format_error)?.with_limits(limits))
}

/// Skips up to `pages` pages, and returns the number of pages skipped.
fn skip_pages<R: Read + Seek>(
    decoder: &mut Decoder<R>,
    pages: usize,
) -> Result<usize, FormatError> {
    let mut skipped = 0_usize;
    while skipped < pages && decoder.more_images() {
        decoder.next_image().map_err(into_format_error)?;
        skipped = skipped.saturating_add(1);
    }
    Ok(skipped)
}

/// Checks that all strips or tiles of an image, the decoder's current one, are in the file, and returns
/// the end of the last one. A decoder reads of uncompressed ones as much as their pixels take, whatever
/// size their header says.
fn check_is_whole<R: Read + Seek>(
    decoder: &mut Decoder<R>,
    image: usize,
    len: u64,
) -> Result<u64, FormatError> {
    let compression = decoder.find_tag_unsigned(Tag::Compression).map_err(into_format_error)?;
    let (width, rows) = decoder.chunk_dimensions();
    let most = match (compression.unwrap_or(UNCOMPRESSED), decoder.colortype()) {
        (UNCOMPRESSED, Ok(ColorType::Gray(bits))) => [u64::from(width), u64::from(rows)]
            .into_iter()
            .fold(u64::from(bits.div_ceil(8)), u64::saturating_mul),
        _ => u64::MAX,
    };
    let mut numbers = |tag: Tag| -> Result<Vec<u64>, FormatError> {
        let numbers = decoder.find_tag_unsigned_vec(tag).map_err(into_format_error)?;
        Ok(numbers.unwrap_or_default())
    };
    let strips = ("strip", numbers(Tag::StripOffsets)?, numbers(Tag::StripByteCounts)?);
    let tiles = ("tile", numbers(Tag::TileOffsets)?, numbers(Tag::TileByteCounts)?);
    let mut last_end = 0;
    for (name, offsets, sizes) in [strips, tiles] {
        for (nth, (offset, size)) in offsets.into_iter().zip(sizes).enumerate() {
            let (size, available) = (size.min(most), len.saturating_sub(offset));
            if size > available {
                return Err(FormatError::Broken(format!(
                    "the file ends before the image does: {name} {nth} of image {image}: \
                     expected {size} bytes at offset {offset}, the file has {available} there"
                )));
            }
            last_end = last_end.max(offset.saturating_add(size));
        }
    }
    Ok(last_end)
}

/// Returns the number of images that ImageJ says are in the file. Those of a stack that is too large for
/// the offsets of TIFF lie behind the first one, without directories of their own.
///
/// Source: `ij.io.TiffDecoder` of ImageJ, `images=` in the description.
fn described_images<R: Read + Seek>(
    decoder: &mut Decoder<R>,
) -> Result<Option<usize>, FormatError> {
    let description = match decoder.find_tag(Tag::ImageDescription) {
        Err(why @ tiff::TiffError::IoError(_)) => return Err(into_format_error(why)),
        // One that is no text is not of ImageJ.
        Err(_) | Ok(None) => return Ok(None),
        Ok(Some(description)) => description,
    };
    let Ok(text) = description.into_string() else { return Ok(None) };
    let images = text
        .starts_with("ImageJ=")
        .then(|| text.lines().find_map(|line| line.strip_prefix("images=")?.trim().parse().ok()));
    Ok(images.flatten())
}

fn image_shape<R: Read + Seek>(decoder: &mut Decoder<R>) -> Result<[usize; 2], FormatError> {
    let (columns, rows) = decoder.dimensions().map_err(into_format_error)?;
    if columns == 0 || rows == 0 {
        return Err(FormatError::Broken(format!(
            "{rows} x {columns} pixels: expected at least one row and one column"
        )));
    }
    Ok([rows as usize, columns as usize])
}

/// Returns the type of the pixels, if each is a single number that is not inverted.
fn image_dtype<R: Read + Seek>(decoder: &mut Decoder<R>) -> Result<Dtype, FormatError> {
    let bits = match decoder.colortype().map_err(into_format_error)? {
        ColorType::Gray(bits) => bits,
        other => {
            return Err(FormatError::Broken(format!(
                "{other:?} pixels: expected one grey value per pixel"
            )));
        }
    };
    let photometric =
        decoder.find_tag_unsigned(Tag::PhotometricInterpretation).map_err(into_format_error)?;
    if photometric == Some(WHITE_IS_ZERO) {
        return Err(FormatError::invalid(
            "white-is-zero image: expected black-is-zero, where a pixel's number is its count",
        ));
    }
    let format = match decoder
        .find_tag_unsigned_vec::<u16>(Tag::SampleFormat)
        .map_err(into_format_error)?
        .as_deref()
    {
        Some([format, ..]) => SampleFormat::from_u16_exhaustive(*format),
        _ => SampleFormat::Uint,
    };
    Ok(match (format, bits) {
        (SampleFormat::Uint, 8) => Dtype::U8,
        (SampleFormat::Uint, 16) => Dtype::U16,
        (SampleFormat::Uint, 32) => Dtype::U32,
        (SampleFormat::Uint, 64) => Dtype::U64,
        (SampleFormat::Int, 8) => Dtype::I8,
        (SampleFormat::Int, 16) => Dtype::I16,
        (SampleFormat::Int, 32) => Dtype::I32,
        (SampleFormat::Int, 64) => Dtype::I64,
        (SampleFormat::IEEEFP, 32) => Dtype::F32,
        (SampleFormat::IEEEFP, 64) => Dtype::F64,
        _ => {
            return Err(FormatError::Broken(format!(
                "{bits}-bit {format:?} pixels: expected integers of 8 to 64 bits, or floats of 32 or 64"
            )));
        }
    })
}

fn into_format_error(error: tiff::TiffError) -> FormatError {
    match error {
        tiff::TiffError::IoError(why) if why.kind() != std::io::ErrorKind::UnexpectedEof => {
            FormatError::Io(why)
        }
        tiff::TiffError::IoError(_) => FormatError::invalid("the file ends before the image does"),
        tiff::TiffError::LimitsExceeded => {
            FormatError::invalid("the header describes an image far larger than the file can hold")
        }
        other => FormatError::Broken(other.to_string()),
    }
}
