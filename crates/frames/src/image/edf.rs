//! Reads EDF, the ESRF Data Format: for each image a text header in braces, padded to a multiple of
//! 512 bytes, and the uncompressed pixels.

use super::file_bytes::{FileBytes, FormatError};
use super::{Dtype, Image, ImageFormat, ImageHeader, PixelData};

/// ESRF data format.
pub(super) const EDF: ImageFormat = ImageFormat {
    name: "edf",
    label: "EDF",
    suffixes: &["edf"],
    is_searched_for: true,
    has_format: |start| start.trim_ascii_start().starts_with(b"{"),
    read_header,
    first_image_end,
    read_image,
};

/// Number of bytes read at a time while looking for the end of a header.
const HEADER_READ_BYTES: usize = 4096;
/// Maximum size of a header in bytes.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// The validated header of an image, or of several that follow each other, and the location of their
/// pixels.
struct EdfHeader {
    shape: [usize; 2],
    /// The number of images, by `Dim_3`.
    images: u64,
    kind: Dtype,
    big_endian: bool,
    /// Offset of the pixels in the file.
    offset: u64,
    /// Offset of the next header.
    next: u64,
}

fn read_header(content: &mut FileBytes<'_>) -> Result<ImageHeader, FormatError> {
    let first = read_header_block(content, 0)?.ok_or_else(no_image_error)?;
    let (mut next, mut frames) = (first.next, first.images);
    while let Some(block) = read_header_block(content, next)? {
        (next, frames) = (block.next, frames.saturating_add(block.images));
    }
    let (shape, kind, frames) = (first.shape, first.kind, frames as usize);
    Ok(ImageHeader { format: EDF.name, shape, kind, frames, is_unverified: false })
}

fn first_image_end(content: &mut FileBytes<'_>) -> Result<Option<u64>, FormatError> {
    let first = read_header_block(content, 0)?.ok_or_else(no_image_error)?;
    if first.images > 1 {
        let size = first.kind.frame_bytes(first.shape.map(|extent| extent as u64));
        return Ok(Some(first.offset.saturating_add(size)));
    }
    // The end of a file of one image that grows by another.
    Ok(read_header_block(content, first.next)?.map(|_| first.next))
}

fn read_image(content: &mut FileBytes<'_>, frame: usize) -> Result<Image, FormatError> {
    let (mut next, mut frames) = (0, 0_u64);
    while let Some(block) = read_header_block(content, next)? {
        if let Some(image) =
            (frame as u64).checked_sub(frames).filter(|&image| image < block.images)
        {
            let size = block.kind.frame_bytes(block.shape.map(|extent| extent as u64));
            let offset = block.offset.saturating_add(image.saturating_mul(size));
            let bytes = content.read_exact(offset, size, "pixels")?;
            return Ok(Image {
                shape: block.shape,
                pixels: PixelData::from_bytes(block.kind, &bytes, block.big_endian),
            });
        }
        (next, frames) = (block.next, frames.saturating_add(block.images));
    }
    let frames = frames as usize;
    Err(if frames == 0 { no_image_error() } else { FormatError::NoFrame { frame, frames } })
}

fn no_image_error() -> FormatError {
    FormatError::invalid("no image: expected a header in braces with Dim_1 and Dim_2")
}

/// Reads the image header at `offset`, or after the general header at `offset`; returns `None` at
/// the end of the file.
fn read_header_block(
    content: &mut FileBytes<'_>,
    offset: u64,
) -> Result<Option<EdfHeader>, FormatError> {
    let Some((keys, end)) = read_keys(content, offset)? else { return Ok(None) };
    if keys.text("EDF_DataFormatVersion").is_some() && keys.text("Dim_1").is_none() {
        // This is the file's general header, which may be followed by binary data of its own.
        let own = keys.number("EDF_BinarySize")?.unwrap_or(0);
        let Some((keys, end)) = self::read_keys(content, end.saturating_add(own))? else {
            return Ok(None);
        };
        return keys.parse_header(end, content.len()).map(Some);
    }
    keys.parse_header(end, content.len()).map(Some)
}

/// Reads the keys of the header at `offset`, and returns the end of the header.
fn read_keys(
    content: &mut FileBytes<'_>,
    offset: u64,
) -> Result<Option<(EdfKeys, u64)>, FormatError> {
    let mut text = Vec::new();
    loop {
        let more =
            content.read_at_most(offset.saturating_add(text.len() as u64), HEADER_READ_BYTES)?;
        let at_end = more.is_empty();
        // The brace may be the last byte of one read, and the line's end the first byte of the
        // next.
        let from = text.len().saturating_sub(2);
        text.extend(more);
        if at_end && text.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0) {
            return Ok(None);
        }
        if !text.trim_ascii_start().starts_with(b"{") {
            let found = text[..text.len().min(8)].escape_ascii();
            return Err(FormatError::Broken(format!(
                "offset {offset}: expected a header in braces, found \"{found}\""
            )));
        }
        if let Some(end) = end_of_header(&text, from) {
            return Ok(Some((EdfKeys::parse(&text[..end]), offset.saturating_add(end as u64))));
        }
        if at_end || text.len() > MAX_HEADER_BYTES {
            return Err(FormatError::Broken(format!(
                "header at offset {offset}: no closing brace in {} bytes",
                text.len()
            )));
        }
    }
}

/// Returns the offset of the pixels: after the first `}` at the end of a line, searched from `from`
/// on.
fn end_of_header(text: &[u8], from: usize) -> Option<usize> {
    (from..text.len()).find_map(|at| match text[at..] {
        [b'}', b'\n', ..] => at.checked_add(2),
        [b'}', b'\r', b'\n', ..] => at.checked_add(3),
        _ => None,
    })
}

/// The `key = value ;` pairs of a header. Keys are case-insensitive.
struct EdfKeys(Vec<(String, String)>);

impl EdfKeys {
    fn parse(header: &[u8]) -> Self {
        let blank = |c: char| c.is_whitespace() || c == '\0' || c == '{' || c == '}';
        let pair = |part: &str| {
            let (key, value) = part.split_once('=')?;
            Some((key.trim_matches(blank).to_owned(), value.trim_matches(blank).to_owned()))
        };
        Self(String::from_utf8_lossy(header).split(';').filter_map(pair).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Result<Option<u64>, FormatError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let to_error =
            |_| FormatError::Broken(format!("header: {name} is {text:?}, expected a number"));
        text.parse().map(Some).map_err(to_error)
    }

    fn required(&self, name: &str) -> Result<u64, FormatError> {
        self.number(name)?.ok_or_else(|| FormatError::Broken(format!("header: no {name}")))
    }

    fn parse_header(&self, offset: u64, len: u64) -> Result<EdfHeader, FormatError> {
        if let Some(method) =
            self.text("Compression").filter(|method| !method.eq_ignore_ascii_case("none"))
        {
            return Err(FormatError::Broken(format!("Compression = {method}: expected none")));
        }
        let (columns, rows) = (self.required("Dim_1")?, self.required("Dim_2")?);
        let images = self.number("Dim_3")?.unwrap_or(1);
        if let Some(name) = ["Dim_4", "Dim_5"].into_iter().find(|name| self.text(name).is_some()) {
            return Err(FormatError::Broken(format!("header: {name}: expected Dim_1 to Dim_3")));
        }
        let kind = parse_dtype(self.text("DataType").unwrap_or("UnsignedShort"))?;
        let size =
            [rows, images, kind.size() as u64].into_iter().try_fold(columns, u64::checked_mul);
        let available = len.saturating_sub(offset);
        let pixels = match images {
            1 => format!("{rows} x {columns} {kind} pixels"),
            _ => format!("{images} x {rows} x {columns} {kind} pixels"),
        };
        let Some(size) = size.filter(|&size| 0 < size && size <= available) else {
            return Err(FormatError::Broken(format!(
                "{pixels} at offset {offset}: the file has {available} bytes there"
            )));
        };
        let stored = self.number("EDF_BinarySize")?.or(self.number("Size")?).unwrap_or(size);
        if stored < size {
            return Err(FormatError::Broken(format!(
                "{pixels} take {size} bytes, but Size is {stored}"
            )));
        }
        let big_endian = match self.text("ByteOrder").unwrap_or("LowByteFirst") {
            order if order.eq_ignore_ascii_case("LowByteFirst") => false,
            order if order.eq_ignore_ascii_case("HighByteFirst") => true,
            order => {
                return Err(FormatError::Broken(format!(
                    "ByteOrder = {order}: expected LowByteFirst or HighByteFirst"
                )));
            }
        };
        let shape = [rows as usize, columns as usize];
        Ok(EdfHeader {
            shape,
            images,
            kind,
            big_endian,
            offset,
            next: offset.saturating_add(stored),
        })
    }
}

/// Parses a value of `DataType`. It knows the names of the format, of its first implementations
/// (where a long has 32 bits), and of Fit2D.
fn parse_dtype(name: &str) -> Result<Dtype, FormatError> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "unsignedbyte" | "unsigned8" => Dtype::U8,
        "signedbyte" | "signed8" => Dtype::I8,
        "unsignedshort" | "unsigned16" | "unsignedshortinteger" => Dtype::U16,
        "signedshort" | "signed16" => Dtype::I16,
        "unsignedinteger" | "unsignedlong" | "unsigned32" => Dtype::U32,
        "signedinteger" | "signedlong" | "signed32" => Dtype::I32,
        "unsigned64" => Dtype::U64,
        "signed64" => Dtype::I64,
        "floatvalue" | "float" | "float32" | "floatieee32" => Dtype::F32,
        "doublevalue" | "double" | "floatieee64" | "doubleieee64" => Dtype::F64,
        _ => {
            return Err(FormatError::Broken(format!(
                "DataType = {name}: expected an integer of 8 to 64 bits, float or double"
            )));
        }
    })
}
