//! Reads the mappings of a virtual dataset from the bytes of its file.
//!
//! The library makes several objects of each mapping, and again for the copy that a creation
//! property list holds: 7.3 KiB, of which 100,000 are 730 MB. The bytes are decoded here to a few
//! hundred each. The formats are those of the HDF5 File Format Specification 3.0, as the library
//! writes them: sections IV.A (object headers), IV.A.2.i (data layout message), III.E (global heap)
//! and III.I (virtual dataset block). Whatever differs is left to the library.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::lookup3::checksum;
use super::virtual_mappings::{ElementSelection, Hyperslab, VirtualMapping, named_mapping};

/// Maximum size in bytes of a block of an object header, and of a superblock.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Maximum size in bytes of all mappings.
const MAX_MAPPING_BYTES: u64 = 1 << 30;

/// Maximum number of blocks of an object header.
const MAX_BLOCKS: usize = 64;

const MESSAGE_LAYOUT: u16 = 0x08;
const MESSAGE_CONTINUATION: u16 = 0x10;
const FLAG_SHARED: u8 = 0x02;
const LAYOUT_VERSION: u8 = 4;
const CLASS_VIRTUAL: u8 = 3;
const SELECTION_HYPERSLAB: u32 = 2;
const SELECTION_ALL: u32 = 3;

/// Reads the mappings of the virtual dataset whose object header is at `address`.
///
/// Returns `None` if the dataset is not virtual, if the bytes can't be read, or if anything in them
/// is not in the form that the library writes for one box a mapping; the library can say more.
pub(super) fn read_mappings(file: &File, address: u64) -> Option<Vec<VirtualMapping>> {
    check_superblock(file)?;
    let layout = find_layout(file, address)?;
    let mut layout = ByteReader(&layout);
    if (layout.byte()?, layout.byte()?) != (LAYOUT_VERSION, CLASS_VIRTUAL) {
        return None;
    }
    let (collection, index) = (layout.u64()?, layout.u32()?);
    decode_mappings(&read_heap_object(file, collection, u16::try_from(index).ok()?)?)
}

/// Checks that addresses count from the start of the file, and have 8 bytes, like lengths.
fn check_superblock(file: &File) -> Option<()> {
    let bytes = read_at(file, 0, 64, MAX_HEADER_BYTES)?;
    let mut reader = ByteReader(&bytes);
    let is_hdf5 = reader.take(8)? == b"\x89HDF\r\n\x1a\n";
    let version = reader.byte()?;
    // Versions 0 and 1: four more versions and a reserved byte before the sizes, then the two
    // degrees of B-trees and flags, and in version 1 that of chunks.
    reader.take(if version < 2 { 4 } else { 0 })?;
    let sizes = (reader.byte()?, reader.byte()?);
    reader.take(match version {
        0 => 9,
        1 => 13,
        2 | 3 => 1,
        _ => return None,
    })?;
    (is_hdf5 && sizes == (8, 8) && reader.u64()? == 0).then_some(())
}

/// Returns the data layout message of an object header.
fn find_layout(file: &File, address: u64) -> Option<Vec<u8>> {
    let start = read_at(file, address, 16, MAX_HEADER_BYTES)?;
    let mut messages;
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    let form = if start.starts_with(b"OHDR") {
        let mut reader = ByteReader(&start[4..]);
        let (version, flags) = (reader.byte()?, reader.byte()?);
        // Four times, and two numbers of attributes, of which each is optional.
        let skipped = 6_u64
            .checked_add(if flags & 0x20 == 0 { 0 } else { 16 })?
            .checked_add(if flags & 0x10 == 0 { 0 } else { 4 })?;
        let width = 1_u64 << (flags & 3);
        let size = read_at(file, address.checked_add(skipped)?, width, 8)?;
        let size = ByteReader(&size).number(width)?;
        let first = address.checked_add(skipped)?.checked_add(width)?;
        messages = read_at(file, first, size, MAX_HEADER_BYTES)?;
        (version == 2).then_some(HeaderForm::Checked { has_order: flags & 4 != 0 })?
    } else {
        let mut reader = ByteReader(&start);
        let version = reader.byte()?;
        reader.take(7)?;
        let size = u64::from(reader.u32()?);
        messages = read_at(file, address.checked_add(16)?, size, MAX_HEADER_BYTES)?;
        (version == 1).then_some(HeaderForm::Plain)?
    };
    for _ in 0..MAX_BLOCKS {
        if let Some(found) = find_message(&messages, form, &mut blocks)? {
            return Some(found);
        }
        let (address, size) = blocks.pop()?;
        messages = read_at(file, address, size, MAX_HEADER_BYTES)?;
        if let HeaderForm::Checked { .. } = form {
            // The signature, and the checksum, which the library has verified.
            let end = messages.len().checked_sub(4)?;
            messages = messages.get(..end)?.strip_prefix(b"OCHK")?.to_vec();
        }
    }
    None
}

/// Form of an object header.
#[derive(Clone, Copy)]
enum HeaderForm {
    /// Version 1: messages are aligned to 8 bytes.
    Plain,
    /// Version 2: blocks have signatures and checksums, and messages may have their order.
    Checked { has_order: bool },
}

/// Returns the data layout message of a block, `Some(None)` if the block has none. The blocks that
/// follow are added to `blocks`.
fn find_message(
    block: &[u8],
    form: HeaderForm,
    blocks: &mut Vec<(u64, u64)>,
) -> Option<Option<Vec<u8>>> {
    let mut reader = ByteReader(block);
    let prefix = match form {
        HeaderForm::Plain => 8,
        HeaderForm::Checked { has_order: false } => 4,
        HeaderForm::Checked { has_order: true } => 6,
    };
    // A gap at the end is shorter than a message.
    while reader.0.len() >= prefix {
        let (kind, size, flags);
        match form {
            HeaderForm::Plain => {
                (kind, size, flags) = (reader.u16()?, reader.u16()?, reader.byte()?);
                reader.take(3)?;
            }
            HeaderForm::Checked { has_order } => {
                (kind, size, flags) = (reader.byte()?.into(), reader.u16()?, reader.byte()?);
                reader.take(if has_order { 2 } else { 0 })?;
            }
        }
        let data = reader.take(size.into())?;
        match kind {
            MESSAGE_LAYOUT => return (flags & FLAG_SHARED == 0).then(|| Some(data.to_vec())),
            MESSAGE_CONTINUATION => {
                let mut data = ByteReader(data);
                blocks.push((data.u64()?, data.u64()?));
            }
            _ => (),
        }
    }
    Some(None)
}

/// Reads an object of a global heap collection.
fn read_heap_object(file: &File, collection: u64, index: u16) -> Option<Vec<u8>> {
    let head = read_at(file, collection, 16, 16)?;
    let mut head = ByteReader(&head);
    let is_heap = head.take(4)? == b"GCOL" && head.byte()? == 1;
    head.take(3)?;
    let end = collection.checked_add(is_heap.then(|| head.u64())??)?;
    let mut at = collection.checked_add(16)?;
    while at < end {
        let object = read_at(file, at, 16, 16)?;
        let mut object = ByteReader(&object);
        let found = object.u16()?;
        object.take(6)?;
        let size = object.u64()?;
        at = at.checked_add(16)?;
        if found == 0 {
            return None;
        }
        if found == index {
            return (at.checked_add(size)? <= end)
                .then(|| read_at(file, at, size, MAX_MAPPING_BYTES))?;
        }
        at = at.checked_add(size.checked_next_multiple_of(8)?)?;
    }
    None
}

/// Decodes a virtual dataset block of version 0: names and selections, and a checksum.
fn decode_mappings(block: &[u8]) -> Option<Vec<VirtualMapping>> {
    let (block, stored) = block.split_last_chunk()?;
    if checksum(block) != u32::from_le_bytes(*stored) {
        return None;
    }
    let mut reader = ByteReader(block);
    let version = reader.byte()?;
    let count = reader.u64()?;
    // A mapping has at least two NULs and two selections of 16 bytes.
    let most = (block.len() / 34) as u64;
    if version != 0 || count > most {
        return None;
    }
    let mut mappings = Vec::new();
    mappings.try_reserve_exact(usize::try_from(count).ok()?).ok()?;
    for _ in 0..count {
        let (file, dataset) = (reader.text()?, reader.text()?);
        let source_selection = decode_selection(&mut reader)?;
        let virtual_selection = decode_selection(&mut reader)?;
        mappings.push(named_mapping(file, dataset, virtual_selection, source_selection).ok()?);
    }
    reader.0.is_empty().then_some(mappings)
}

/// Decodes a selection of all elements or of one box, or a regular one.
fn decode_selection(reader: &mut ByteReader<'_>) -> Option<ElementSelection> {
    let (kind, version) = (reader.u32()?, reader.u32()?);
    match (kind, version) {
        (SELECTION_ALL, 1) => {
            reader.take(8)?;
            Some(ElementSelection::All)
        }
        // Version 1: a list of boxes, by their first and last elements.
        (SELECTION_HYPERSLAB, 1) => {
            reader.take(8)?;
            let rank = reader.u32()?;
            let boxes = reader.u32()?;
            (boxes == 1).then(|| decode_box(reader, rank, 4))?
        }
        // Version 2: a regular selection, which may be unlimited.
        (SELECTION_HYPERSLAB, 2) => {
            let is_regular = reader.byte()? & 1 != 0;
            reader.take(4)?;
            let rank = reader.u32()?;
            is_regular.then(|| decode_regular(reader, rank, 8))?
        }
        // Version 3: either, with numbers of as many bytes as are needed.
        (SELECTION_HYPERSLAB, 3) => {
            let is_regular = reader.byte()? & 1 != 0;
            let width = u64::from(reader.byte()?);
            let rank = reader.u32()?;
            if is_regular {
                return decode_regular(reader, rank, width);
            }
            let boxes = reader.number(width)?;
            (boxes == 1).then(|| decode_box(reader, rank, width))?
        }
        _ => None,
    }
}

fn decode_regular(reader: &mut ByteReader<'_>, rank: u32, width: u64) -> Option<ElementSelection> {
    // In an unlimited dimension, all bits are set.
    let unlimited = u64::MAX >> 64_u64.checked_sub(width.checked_mul(8)?)?;
    let limit = |value: u64| (value != unlimited).then_some(value);
    let axes = (0..rank).map(|_| {
        let [start, stride, count, block] = [(); 4].map(|()| reader.number(width));
        Some(Hyperslab {
            start: start?,
            stride: stride?,
            count: limit(count?),
            block: limit(block?),
        })
    });
    Some(ElementSelection::Regular(axes.collect::<Option<_>>()?))
}

fn decode_box(reader: &mut ByteReader<'_>, rank: u32, width: u64) -> Option<ElementSelection> {
    let mut corner = || (0..rank).map(|_| reader.number(width)).collect::<Option<Vec<u64>>>();
    let (first, last) = (corner()?, corner()?);
    let axes = first.into_iter().zip(last).map(|(first, last)| {
        let block = last.checked_sub(first)?.checked_add(1)?;
        Some(Hyperslab { start: first, stride: 1, count: Some(1), block: Some(block) })
    });
    Some(ElementSelection::Regular(axes.collect::<Option<_>>()?))
}

/// Reads `size` bytes, of which there may be `most`.
fn read_at(file: &File, at: u64, size: u64, most: u64) -> Option<Vec<u8>> {
    let fits = size <= most && at.checked_add(size)? <= file.metadata().ok()?.len();
    let size = usize::try_from(size).ok().filter(|_| fits)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).ok()?;
    bytes.resize(size, 0);
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

/// The bytes that are still to be decoded.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a little-endian number of up to 8 bytes.
    fn number(&mut self, width: u64) -> Option<u64> {
        let width = usize::try_from(width).ok().filter(|width| (1..=8).contains(width))?;
        let mut bytes = [0; 8];
        bytes.get_mut(..width)?.copy_from_slice(self.take(width)?);
        Some(u64::from_le_bytes(bytes))
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number(8)
    }

    /// Takes a text, and the NUL that ends it.
    fn text(&mut self) -> Option<Vec<u8>> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?.to_vec();
        self.take(1)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use hdf5::file::LibraryVersion;
    use hdf5::{Hyperslab as Selected, SliceOrIndex, SliceOrIndex::SliceCount};

    use super::*;
    use crate::ffi::{Hdf5Object, StorageLayout};

    /// Blocks of one dimension: first element, distance of the blocks, their number and size.
    fn blocks(start: usize, step: usize, count: usize, block: usize) -> SliceOrIndex {
        SliceCount { start, step, count, block }
    }

    /// Creates virtual datasets of many kinds, and returns their names and whether they are decoded
    /// without the library.
    fn create_all(path: &std::path::Path, version: LibraryVersion) -> Vec<(String, bool)> {
        let is_newest = version >= LibraryVersion::V110;
        let file = hdf5::File::with_options()
            .with_fapl(|access| access.libver_bounds(version, LibraryVersion::latest()))
            .create(path)
            .unwrap();
        let mut made = Vec::new();
        let mut create =
            |name: &str, maps: &[(String, Selected, [usize; 3], Selected)], decoded| {
                let mut builder = file.new_dataset::<u16>().shape([3000, 4, 5]);
                for (source, there, extents, here) in maps {
                    builder = builder.virtual_map(
                        source,
                        "/entry_0000/measurement/data",
                        *extents,
                        there.clone(),
                        [3000, 4, 5],
                        here.clone(),
                    );
                }
                let dataset = builder.create(name).unwrap();
                // Attributes, so that the header has a block that continues it.
                for number in 0..12 {
                    let attribute = format!("an attribute with a long name {number}");
                    dataset.new_attr::<f64>().create(attribute.as_str()).unwrap();
                }
                made.push((name.to_owned(), decoded));
            };
        let whole = || [SliceOrIndex::from(..), SliceOrIndex::from(..)];
        let frames = |frames: SliceOrIndex| -> Selected {
            std::iter::once(frames).chain(whole()).collect::<Vec<_>>().into()
        };
        let single = |count: usize| -> Vec<_> {
            let file = |index| format!("scan0001/lima_{index:05}.h5");
            (0..count)
                .map(|at| (file(at), frames((0..1).into()), [1, 4, 5], frames((at..at + 1).into())))
                .collect()
        };
        create("one", &single(1), true);
        create("many", &single(3000), true);
        let all =
            |name: &str| (name.to_owned(), frames((..).into()), [3000, 4, 5], frames((..).into()));
        create("all", &[all("100%%.h5")], true);
        create("same file", &[all(".")], true);
        create("Größe", &[all("Größe.h5")], true);
        let part =
            |name: &str, frames: Selected| (name.to_owned(), frames.clone(), [3000, 4, 5], frames);
        let corner = vec![(3..2000).into(), (1..3).into(), (2..5).into()];
        create("corner", &[part("a.h5", Selected::from(corner))], true);
        // Regular selections are listed in boxes by the oldest format.
        let even = part("a.h5", frames(blocks(0, 2, 1500, 1)));
        let odd = part("b.h5", frames(blocks(1, 2, 1499, 1)));
        create("interlaced", &[even, odd], is_newest);
        create("blocks", &[part("a.h5", frames(blocks(5, 100, 20, 7)))], is_newest);
        made
    }

    #[test]
    fn mappings_are_those_that_the_library_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("master.h5");
        let versions = [
            LibraryVersion::Earliest,
            LibraryVersion::V18,
            LibraryVersion::V110,
            LibraryVersion::V114,
        ];
        for version in versions {
            let made = create_all(&path, version);
            let root = Hdf5Object::open_file(&path).unwrap();
            for (name, decoded) in made {
                let dataset = root.open(&name).unwrap();
                let found = dataset.decode_mappings();
                assert_eq!(found.is_some(), decoded, "{version:?} {name}");
                let StorageLayout::Virtual(expected) = dataset.layout_by_library().unwrap() else {
                    panic!("{name} is not virtual");
                };
                if let Some(found) = found {
                    assert_eq!(found, expected, "{version:?} {name}");
                }
            }
        }
    }

    #[test]
    fn damaged_bytes_are_left_to_the_library() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("master.h5");
        let file = hdf5::File::create(&path).unwrap();
        let builder = file.new_dataset::<u16>().shape([9, 4]);
        let (there, here) = ((2..7, ..), (1..6, ..));
        builder.virtual_map("a.h5", "/data", [9, 4], there, [9, 4], here).create("some").unwrap();
        file.close().unwrap();
        let dataset = Hdf5Object::open_file(&path).unwrap().open("some").unwrap();
        let expected = dataset.decode_mappings().unwrap();
        let sound = std::fs::read(&path).unwrap();
        let mut differ = 0;
        let storage = std::fs::File::options().write(true).open(&path).unwrap();
        for (at, byte) in (0..).zip(&sound) {
            storage.write_all_at(&[byte ^ 0x55], at).unwrap();
            match dataset.decode_mappings() {
                None => differ += 1,
                Some(found) => assert_eq!(found, expected, "byte {at}"),
            }
            storage.write_all_at(&[*byte], at).unwrap();
        }
        assert!(differ > 150, "{differ} bytes matter");
    }
}
