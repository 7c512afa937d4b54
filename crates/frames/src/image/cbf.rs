//! Reads CBF, the Crystallographic Binary File, as written by Dectris: text, a MIME header, and one
//! image with byte-offset compression.
//!
//! Source: the CBFlib manual, chapters 3.2.2 (binary sections) and 3.3.3 (byte-offset compression).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::file_bytes::{FileBytes, FormatError};
use super::{Dtype, Image, ImageFormat, ImageHeader, PixelData};

/// Crystallographic Binary File, written by Dectris (miniCBF).
pub(super) const CBF: ImageFormat = ImageFormat {
    name: "cbf",
    label: "CBF",
    suffixes: &["cbf"],
    is_searched_for: true,
    has_format: |start| start.starts_with(b"###CBF"),
    read_header,
    first_image_end: |_| Ok(None),
    read_image,
};

/// Marker before the MIME header.
const SECTION_START: &[u8] = b"--CIF-BINARY-FORMAT-SECTION--";
/// Marker between the MIME header and the compressed bytes.
const BINARY_START: &[u8] = b"\x0c\x1a\x04\xd5";
/// Maximum size of the text before the first image, in bytes; more than in any known file.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// The validated MIME header of an image.
struct CbfHeader {
    shape: [usize; 2],
    kind: Dtype,
    /// Offset of the compressed bytes in the file.
    offset: u64,
    size: u64,
    md5: Option<String>,
}

fn read_header(content: &mut FileBytes<'_>) -> Result<ImageHeader, FormatError> {
    let section = read_section(content)?;
    let (shape, kind, is_unverified) = (section.shape, section.kind, section.md5.is_none());
    Ok(ImageHeader { format: CBF.name, shape, kind, frames: 1, is_unverified })
}

fn read_image(content: &mut FileBytes<'_>, frame: usize) -> Result<Image, FormatError> {
    if frame > 0 {
        return Err(FormatError::NoFrame { frame, frames: 1 });
    }
    let section = read_section(content)?;
    let stored = content.read_exact(section.offset, section.size, "compressed image")?;
    if let Some(expected) = &section.md5 {
        let found = STANDARD.encode(Md5::digest(&stored));
        if found != *expected {
            return Err(FormatError::Broken(format!(
                "compressed image has MD5 {found}, but Content-MD5 is {expected}: the file is damaged"
            )));
        }
    }
    // `read_section` has checked that this is at most the size of the file.
    let count = section.shape[0].saturating_mul(section.shape[1]);
    let kind = section.kind;
    let pixels = match kind {
        Dtype::U8 => decode_byte_offset::<u8>(&stored, count, kind)?.into(),
        Dtype::I8 => decode_byte_offset::<i8>(&stored, count, kind)?.into(),
        Dtype::U16 => decode_byte_offset::<u16>(&stored, count, kind)?.into(),
        Dtype::I16 => decode_byte_offset::<i16>(&stored, count, kind)?.into(),
        Dtype::U32 => decode_byte_offset::<u32>(&stored, count, kind)?.into(),
        _ => PixelData::from(decode_byte_offset::<i32>(&stored, count, kind)?),
    };
    Ok(Image { shape: section.shape, pixels })
}

fn read_section(content: &mut FileBytes<'_>) -> Result<CbfHeader, FormatError> {
    let text = content.read_at_most(0, MAX_HEADER_BYTES)?;
    let binary = find_bytes(&text, BINARY_START).ok_or_else(|| {
        FormatError::Broken(format!(
            "no binary section: expected bytes 0C 1A 04 D5 in the first {} bytes",
            text.len()
        ))
    })?;
    let start = find_bytes(&text[..binary], SECTION_START).ok_or_else(|| {
        FormatError::invalid(
            "no MIME header: expected --CIF-BINARY-FORMAT-SECTION-- before the image",
        )
    })?;
    let mime = MimeHeader::parse(&text[start..binary][SECTION_START.len()..]);

    let coding = mime.text("Content-Type").unwrap_or_default();
    if !coding.contains("x-CBF_BYTE_OFFSET") {
        return Err(FormatError::Broken(format!(
            "Content-Type {coding:?}: expected conversions=\"x-CBF_BYTE_OFFSET\""
        )));
    }
    let transfer = mime.text("Content-Transfer-Encoding").unwrap_or("BINARY");
    if !transfer.eq_ignore_ascii_case("binary") {
        return Err(FormatError::Broken(format!(
            "Content-Transfer-Encoding {transfer:?}: expected BINARY"
        )));
    }
    let (columns, rows) = (
        mime.number("X-Binary-Size-Fastest-Dimension")?,
        mime.number("X-Binary-Size-Second-Dimension")?,
    );
    if mime.text("X-Binary-Size-Third-Dimension").is_some() {
        let images = mime.number("X-Binary-Size-Third-Dimension")?;
        if images > 1 {
            return Err(FormatError::Broken(format!(
                "X-Binary-Size-Third-Dimension {images}: expected one image in a file"
            )));
        }
    }
    let size = mime.number("X-Binary-Size")?;
    // A compressed pixel takes at least one byte.
    let count = columns
        .checked_mul(rows)
        .filter(|&count| 0 < count && count <= size && size <= content.len());
    if count.is_none() {
        return Err(FormatError::Broken(format!(
            "{rows} x {columns} pixels in {size} bytes of a file of {}: expected at least a pixel, and a byte for each",
            content.len()
        )));
    }
    Ok(CbfHeader {
        shape: [rows as usize, columns as usize],
        kind: parse_element_type(
            mime.text("X-Binary-Element-Type").unwrap_or("signed 32-bit integer"),
        )?,
        offset: binary.saturating_add(BINARY_START.len()) as u64,
        size,
        md5: mime.text("Content-MD5").map(str::to_owned),
    })
}

fn parse_element_type(name: &str) -> Result<Dtype, FormatError> {
    Ok(match name.trim_matches('"').to_ascii_lowercase().as_str() {
        "unsigned 8-bit integer" => Dtype::U8,
        "signed 8-bit integer" => Dtype::I8,
        "unsigned 16-bit integer" => Dtype::U16,
        "signed 16-bit integer" => Dtype::I16,
        "unsigned 32-bit integer" => Dtype::U32,
        "signed 32-bit integer" => Dtype::I32,
        _ => {
            return Err(FormatError::Broken(format!(
                "X-Binary-Element-Type {name}: expected an integer of 8, 16 or 32 bits"
            )));
        }
    })
}

/// Fields of a MIME header, with continuation lines joined.
struct MimeHeader(Vec<(String, String)>);

impl MimeHeader {
    fn parse(bytes: &[u8]) -> Self {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in String::from_utf8_lossy(bytes).lines() {
            match (line.starts_with([' ', '\t']), fields.last_mut(), line.split_once(':')) {
                (true, Some((_, value)), _) => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                (_, _, Some((key, value))) => {
                    fields.push((key.trim().to_owned(), value.trim().to_owned()))
                }
                _ => {}
            }
        }
        Self(fields)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Result<u64, FormatError> {
        let text = self
            .text(name)
            .ok_or_else(|| FormatError::Broken(format!("MIME header: no {name}")))?;
        text.parse().map_err(|_| {
            FormatError::Broken(format!("MIME header: {name} is {text:?}, expected a number"))
        })
    }
}

/// Decodes byte-offset compression. Each pixel is stored as the difference to the previous one: in
/// one byte or, after the lowest value of the shorter type as an escape, in two, four or eight
/// bytes, little-endian.
fn decode_byte_offset<T: TryFrom<i64>>(
    stored: &[u8],
    count: usize,
    kind: Dtype,
) -> Result<Vec<T>, FormatError> {
    let mut pixels = Vec::with_capacity(count);
    let (mut rest, mut value) = (stored, 0_i64);
    while pixels.len() < count {
        let delta = read_delta(&mut rest).ok_or_else(|| {
            FormatError::Broken(format!(
                "compressed image: ends after {} of {count} pixels",
                pixels.len()
            ))
        })?;
        value = value.wrapping_add(delta);
        let pixel = T::try_from(value).map_err(|_| {
            FormatError::Broken(format!(
                "compressed image: pixel {} is {value}: expected {kind}",
                pixels.len()
            ))
        })?;
        pixels.push(pixel);
    }
    Ok(pixels)
}

fn read_delta(rest: &mut &[u8]) -> Option<i64> {
    let byte = i8::from_le_bytes(take_bytes(rest)?);
    if byte != i8::MIN {
        return Some(byte.into());
    }
    let word = i16::from_le_bytes(take_bytes(rest)?);
    if word != i16::MIN {
        return Some(word.into());
    }
    let long = i32::from_le_bytes(take_bytes(rest)?);
    if long != i32::MIN {
        return Some(long.into());
    }
    Some(i64::from_le_bytes(take_bytes(rest)?))
}

fn take_bytes<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

fn find_bytes(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
