//! Tests single datasets: every layout, type, byte order and index, byte by byte.

use frames::source::{Chunk, Dtype, FrameChunks, SourceReader};
use hdf5::dataset::{AllocTime, Layout};
use hdf5::file::LibraryVersion;
use hdf5::{File, H5Type};
use ndarray::{Array4, s};
use sample::{announce_filter, write_chunk};

use crate::ffi;
use crate::support::{
    TestDir, acquisition, all_pixels, assert_whole, frame, pixels, refusal, source, stack,
};

const SHAPE: [usize; 3] = [5, 6, 7];

fn open(place: &TestDir, dataset: &str) -> SourceReader {
    SourceReader::open(&source(&place.path("x.h5"), dataset), [6, 7]).unwrap()
}

fn address(place: &TestDir) -> std::path::PathBuf {
    let mut name = place.path("x.h5").into_os_string();
    name.push("::/d");
    name.into()
}

/// Returns the chunks of a source in the order of their offsets.
fn chunks(reader: &SourceReader) -> Vec<Chunk> {
    let of_row = |row| match reader.frame_chunks(row) {
        FrameChunks::Whole(chunk) => vec![chunk],
        FrameChunks::Pieces(chunks) => chunks,
        FrameChunks::NoData(why) | FrameChunks::Damaged(why) => panic!("{row}: {why}"),
    };
    let mut chunks: Vec<Chunk> = (0..reader.frames()).flat_map(of_row).collect();
    chunks.sort_by_key(|chunk| chunk.offset);
    chunks.dedup();
    chunks
}

fn all_frames_are_right(place: &TestDir) {
    let reader = open(place, "/d");
    let all = chunks(&reader);
    let together = reader.read_chunks(&all, || vec![7; 3], || true);
    for (chunk, found) in all.iter().zip(together) {
        let mut alone = Vec::new();
        reader.read_chunk(chunk, &mut alone).unwrap();
        assert!(found.unwrap().unwrap() == alone, "{chunk:?}");
    }
    for number in 0..SHAPE[0] {
        assert_eq!(pixels(&reader, number as u64, [6, 7]), frame(number, [6, 7]), "frame {number}");
    }
    assert_whole(&acquisition(&address(place)));
}

#[test]
fn a_chunk_a_frame() {
    let place = TestDir::new();
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&stack::<u32>(SHAPE))
        .chunk((1, 6, 7))
        .create("d")
        .unwrap();
    all_frames_are_right(&place);
    let FrameChunks::Whole(chunk) = open(&place, "/d").frame_chunks(3) else { panic!() };
    assert_eq!(
        (chunk.len, chunk.filter_mask, chunk.origin, chunk.shape),
        (168, 0, [3, 0, 0], [1, 6, 7])
    );
    let scan = acquisition(&address(&place));
    assert_eq!(
        (scan.dtype.as_str(), scan.codec.as_str(), &scan.chunk[..]),
        ("u32", "none", &[1, 6, 7][..])
    );
    assert_eq!(
        (scan.frames, scan.shape, scan.sources[0].bytes, scan.complete),
        (5, [6, 7], 5 * 168, true)
    );
}

#[test]
fn of_a_file_that_is_cut_the_chunks_before_the_cut_are_read() {
    let place = TestDir::new();
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&stack::<u32>(SHAPE))
        .chunk((1, 6, 7))
        .create("d")
        .unwrap();
    let reader = open(&place, "/d");
    let all = chunks(&reader);
    let file = std::fs::OpenOptions::new().write(true).open(place.path("x.h5")).unwrap();
    file.set_len(all[3].offset + 1).unwrap();
    let read = reader.read_chunks(&all, Vec::new, || true);
    let told: Vec<bool> = read.into_iter().map(|chunk| chunk.unwrap().is_ok()).collect();
    assert_eq!(told, [true, true, true, false, false]);
    assert!(!reader.is_cached(&all[4]));
    let unread = reader.read_chunks(&all, || panic!("no buffer is asked for"), || false);
    assert!(unread.iter().all(Option::is_none));
}

#[test]
fn a_chunk_of_several_frames_with_the_last_one_overhanging() {
    let place = TestDir::new();
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&stack::<u16>(SHAPE))
        .chunk((3, 6, 7))
        .create("d")
        .unwrap();
    all_frames_are_right(&place);
    let FrameChunks::Pieces(chunks) = open(&place, "/d").frame_chunks(4) else { panic!() };
    assert_eq!((chunks.len(), chunks[0].origin, chunks[0].shape), (1, [3, 0, 0], [3, 6, 7]));
}

#[test]
fn chunks_of_parts_of_a_frame_that_overhang_it() {
    let place = TestDir::new();
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&stack::<u16>(SHAPE))
        .chunk((2, 4, 5))
        .create("d")
        .unwrap();
    all_frames_are_right(&place);
    let FrameChunks::Pieces(chunks) = open(&place, "/d").frame_chunks(2) else { panic!() };
    let origins: Vec<_> = chunks.iter().map(|chunk| chunk.origin).collect();
    assert_eq!(origins, [[2, 0, 0], [2, 0, 5], [2, 4, 0], [2, 4, 5]]);
}

#[test]
fn contiguous_and_compact() {
    let place = TestDir::new();
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&stack::<i16>(SHAPE))
        .no_chunk()
        .create("d")
        .unwrap();
    all_frames_are_right(&place);
    assert_eq!(acquisition(&address(&place)).sources[0].bytes, 5 * 6 * 7 * 2);

    let place = TestDir::new();
    let file = place.create("x.h5");
    let frames = stack::<i16>(SHAPE);
    file.new_dataset_builder().with_data(&frames).layout(Layout::Compact).create("d").unwrap();
    file.close().unwrap();
    all_frames_are_right(&place);
}

#[test]
fn the_channel_of_a_lima_2_raw_file_and_a_single_image() {
    let place = TestDir::new();
    let file = place.create("x.h5");
    let frames: Array4<u16> = stack(SHAPE).into_shape_with_order((5, 1, 6, 7)).unwrap();
    file.new_dataset_builder().with_data(&frames).chunk((1, 1, 6, 7)).create("d").unwrap();
    let one = stack::<u16>(SHAPE).slice(s![0, .., ..]).to_owned();
    file.new_dataset_builder().with_data(&one).create("single").unwrap();
    let two = Array4::<u16>::zeros((3, 2, 6, 7));
    file.new_dataset_builder().with_data(&two).chunk((1, 2, 6, 7)).create("channels").unwrap();
    file.close().unwrap();

    all_frames_are_right(&place);
    assert!(matches!(open(&place, "/d").frame_chunks(0), FrameChunks::Whole(_)));
    assert_eq!(pixels(&open(&place, "/single"), 0, [6, 7]), frame(0, [6, 7]));
    let why = SourceReader::open(&source(&place.path("x.h5"), "/channels"), [6, 7])
        .unwrap_err()
        .to_string();
    assert!(why.contains("shape (3, 2, 6, 7), which has 2 channels: expected one"), "{why}");
}

/// Writes the frames as `T`, in either byte order, and reads them back.
fn written_as<T: H5Type + Copy + From<u8>>(kind: Dtype, big: bool, bytes: impl Fn(T) -> Vec<u8>) {
    let place = TestDir::new();
    let file = place.create("x.h5");
    let dataset = ffi::create_chunked(&file, "d", kind, big, [5, 6, 7], [1, 6, 7]);
    for (number, frame) in stack::<T>(SHAPE).outer_iter().enumerate() {
        let stored: Vec<u8> = frame.iter().flat_map(|&pixel| bytes(pixel)).collect();
        write_chunk(&dataset, &[number as u64, 0, 0], 0, &stored).unwrap();
    }
    drop((dataset, file));
    let reader = open(&place, "/d");
    assert_eq!(reader.coding().dtype, kind);
    assert_eq!(reader.coding().big_endian, big && kind.size() > 1, "{kind}");
    all_frames_are_right(&place);
}

#[test]
fn every_type_in_either_byte_order() {
    macro_rules! both {
        ($($type:ident $kind:ident),*) => { $(
            written_as(Dtype::$kind, false, |pixel: $type| pixel.to_le_bytes().to_vec());
            written_as(Dtype::$kind, true, |pixel: $type| pixel.to_be_bytes().to_vec());
        )* };
    }
    both!(u8 U8, u16 U16, i16 I16, u32 U32, i32 I32, u64 U64, f32 F32, f64 F64);
    // All values of the stack fit an i8, which doesn't implement `From<u8>`.
    let place = TestDir::new();
    let bytes = stack::<u8>(SHAPE).mapv(|value| value as i8);
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&bytes)
        .chunk((1, 6, 7))
        .create("d")
        .unwrap();
    assert_eq!(open(&place, "/d").coding().dtype, Dtype::I8);
    all_frames_are_right(&place);
}

#[test]
fn what_is_no_pixel_is_refused_by_name() {
    let place = TestDir::new();
    let file = place.create("x.h5");
    file.new_dataset::<i64>().shape((2, 6, 7)).create("long").unwrap();
    file.new_dataset::<hdf5::types::FixedAscii<4>>().shape((2, 6, 7)).create("text").unwrap();
    file.new_dataset::<f32>().shape(6).create("line").unwrap();
    file.create_group("group").unwrap();
    file.close().unwrap();
    let why = |dataset: &str| {
        SourceReader::open(&source(&place.path("x.h5"), dataset), [6, 7]).unwrap_err().to_string()
    };
    assert!(why("/long").contains("int64 elements: expected uint8, int8"), "{}", why("/long"));
    assert!(why("/text").contains("text elements"), "{}", why("/text"));
    assert!(
        why("/line").contains("shape (6): expected (rows, columns), (frames, rows, columns)"),
        "{}",
        why("/line")
    );
    assert!(why("/group").ends_with("x.h5::/group: not a dataset"), "{}", why("/group"));
    assert!(why("/nothing").ends_with("x.h5::/nothing: no such dataset"), "{}", why("/nothing"));
}

#[test]
fn frames_of_another_shape_are_refused() {
    let place = TestDir::new();
    place.create("x.h5").new_dataset_builder().with_data(&stack::<u16>(SHAPE)).create("d").unwrap();
    let why =
        SourceReader::open(&source(&place.path("x.h5"), "/d"), [7, 6]).unwrap_err().to_string();
    assert!(why.contains("frames of 6 x 7 pixels: expected 7 x 6 pixels"), "{why}");
    assert_eq!(
        open(&place, "/d").frame_chunks(5),
        FrameChunks::NoData("no row 5: 5 rows in the file".to_owned())
    );
}

#[test]
fn a_frame_that_was_not_written_is_not_a_zero() {
    let place = TestDir::new();
    let file = place.create("x.h5");
    let whole = file.new_dataset::<u16>().shape((5.., 6, 7)).chunk((1, 6, 7)).create("d").unwrap();
    let pieces = file.new_dataset::<u16>().shape(SHAPE).chunk((1, 3, 7)).create("pieces").unwrap();
    let frames = stack::<u16>(SHAPE);
    for number in [0, 1, 3] {
        whole.write_slice(&frames.slice(s![number, .., ..]), s![number, .., ..]).unwrap();
    }
    pieces.write_slice(&frames.slice(s![.., 0..3, ..]).to_owned(), s![.., 0..3, ..]).unwrap();
    pieces.write_slice(&frames.slice(s![1, .., ..]), s![1, .., ..]).unwrap();
    file.new_dataset::<u16>().shape(SHAPE).create("nothing").unwrap();
    drop((whole, pieces, file));

    assert_eq!(open(&place, "/d").frame_chunks(2), FrameChunks::NoData("not written".to_owned()));
    let scan = acquisition(&address(&place));
    assert_eq!((scan.absent.len(), scan.absent[0].reason.as_str()), (1, "not written"));
    assert_eq!(scan.absent[0].range.iter().collect::<Vec<_>>(), [2, 4]);
    assert_eq!(scan.sources[0].frames.iter().collect::<Vec<_>>(), [0, 1, 3]);
    assert!(!scan.complete);
    assert_eq!(all_pixels(&scan)[3].as_deref(), Some(&frame(3, [6, 7])[..]));

    let half = open(&place, "/pieces");
    assert!(matches!(
        (half.frame_chunks(0), half.frame_chunks(1)),
        (FrameChunks::NoData(_), FrameChunks::Pieces(_))
    ));
    assert_eq!(
        open(&place, "/nothing").frame_chunks(0),
        FrameChunks::NoData("not written".to_owned())
    );
}

#[test]
fn filters_are_told_in_the_order_of_writing_and_chunks_keep_their_mask() {
    let place = TestDir::new();
    let file = place.create("x.h5");
    for id in [32008, 32004] {
        announce_filter(id).unwrap();
    }
    let make = |name: &str, id, values: &[u32]| {
        let builder = file.new_dataset::<u32>().chunk((1, 6, 7)).add_filter(id, values);
        builder.shape((2, 6, 7)).create(name).unwrap()
    };
    let coded = make("d", 32008, &[0, 4, 4, 0, 2]);
    write_chunk(&coded, &[0, 0, 0], 0, b"coded").unwrap();
    let raw: Vec<u8> = stack::<u32>(SHAPE)
        .iter()
        .skip(42)
        .take(42)
        .flat_map(|pixel| pixel.to_ne_bytes())
        .collect();
    write_chunk(&coded, &[1, 0, 0], 1, &raw).unwrap();
    let others: [(&str, &[u32], &str); 4] = [
        ("zstd", &[0, 4, 4, 0, 3], "bszstd"),
        ("none", &[0, 4, 4, 0, 0], "bitshuffle"),
        ("lima1", &[0, 2], "bslz4"),
        ("block", &[0, 4, 4, 1024, 2], "bslz4"),
    ];
    others.iter().for_each(|(name, values, _)| drop(make(name, 32008, values)));
    drop(make("lz4", 32004, &[]));
    let frames = stack::<u32>(SHAPE);
    let builder = file.new_dataset_builder().with_data(&frames).chunk((1, 6, 7));
    builder.shuffle().deflate(6).fletcher32().create("deflate").unwrap();
    drop((coded, file));

    let reader = open(&place, "/d");
    let filters: Vec<_> =
        reader.coding().filters.iter().map(|filter| (filter.id, filter.values.clone())).collect();
    assert_eq!(filters, [(32008, vec![0, 4, 4, 0, 2])]);
    let FrameChunks::Whole(chunk) = reader.frame_chunks(0) else { panic!() };
    let mut bytes = Vec::new();
    reader.read_chunk(&chunk, &mut bytes).unwrap();
    assert_eq!((&bytes[..], chunk.filter_mask), (&b"coded"[..], 0));
    let FrameChunks::Whole(chunk) = reader.frame_chunks(1) else { panic!() };
    assert_eq!(chunk.filter_mask, 1);
    assert_eq!(pixels(&reader, 1, [6, 7]), frame(1, [6, 7]));

    for (name, values, codec) in others {
        let coding = open(&place, name).coding().clone();
        assert_eq!((coding.name().as_str(), &coding.filters[0].values[..]), (codec, values));
    }
    assert_eq!(open(&place, "lz4").coding().name(), "lz4");
    let deflate = open(&place, "deflate");
    assert_eq!(deflate.coding().name(), "shuffle+deflate+fletcher32");
    let ids: Vec<_> = deflate.coding().filters.iter().map(|filter| filter.id).collect();
    assert_eq!(ids, [2, 1, 3]);
    assert_eq!(deflate.coding().filters[1].values, [6]);
}

#[test]
fn offsets_count_from_the_first_byte_of_the_file() {
    let place = TestDir::new();
    for (name, chunk) in [("chunked.h5", Some((1, 6, 7))), ("run.h5", None)] {
        let options = File::with_options().with_fcpl(|fcpl| fcpl.userblock(512)).clone();
        let file = options.create(place.path(name)).unwrap();
        let frames = stack::<u16>(SHAPE);
        let builder = file.new_dataset_builder().with_data(&frames);
        match chunk {
            Some(chunk) => builder.chunk(chunk).create("d").unwrap(),
            None => builder.no_chunk().create("d").unwrap(),
        };
        file.close().unwrap();
        let reader = SourceReader::open(&source(&place.path(name), "/d"), [6, 7]).unwrap();
        (0..5).for_each(|number| {
            assert_eq!(pixels(&reader, number, [6, 7]), frame(number as usize, [6, 7]), "{name}")
        });
    }
    // With a user block, the HDF5 signature is not at the start of the file.
    let mut dataset = place.path("chunked.h5").into_os_string();
    dataset.push("::/d");
    assert_whole(&acquisition(dataset.as_ref()));
    assert!(matches!(
        frames::discover::detect_file_kind(&place.path("chunked.h5")),
        Ok(frames::discover::FileKind::Hdf5)
    ));
}

#[test]
fn every_chunk_index_of_the_library() {
    // Chunk indexes: single chunk, fixed extents, one or two unlimited dimensions, and B-trees of
    // the oldest format.
    let versions = [
        (LibraryVersion::Earliest, LibraryVersion::V110),
        (LibraryVersion::V110, LibraryVersion::V110),
    ];
    for (low, high) in versions {
        let place = TestDir::new();
        let options = File::with_options().with_fapl(|fapl| fapl.libver_bounds(low, high)).clone();
        let file = options.create(place.path("x.h5")).unwrap();
        let frames = stack::<u16>(SHAPE);
        let make = |name: &str, chunk, extents: hdf5::Extents| {
            let dataset =
                file.new_dataset::<u16>().chunk(chunk).shape(extents).create(name).unwrap();
            dataset.write(&frames).unwrap();
        };
        make("single", (5, 6, 7), SHAPE.into());
        make("fixed", (1, 6, 7), SHAPE.into());
        make("growing", (1, 6, 7), (5.., 6, 7).into());
        make("growing2", (1, 6, 7), (5.., 6.., 7).into());
        let early = file.new_dataset::<u16>().chunk((1, 6, 7)).alloc_time(Some(AllocTime::Early));
        early.shape(SHAPE).create("implicit").unwrap().write(&frames).unwrap();
        file.close().unwrap();
        for name in ["single", "fixed", "growing", "growing2", "implicit"] {
            let reader = open(&place, name);
            for number in 0..5 {
                assert_eq!(
                    pixels(&reader, number, [6, 7]),
                    frame(number as usize, [6, 7]),
                    "{name} {low:?}"
                );
            }
        }
    }
}

#[test]
fn a_chunk_that_the_file_does_not_have_is_an_error_and_takes_no_memory() {
    let place = TestDir::new();
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&stack::<u16>(SHAPE))
        .chunk((1, 6, 7))
        .create("d")
        .unwrap();
    let reader = open(&place, "/d");
    let FrameChunks::Whole(mut chunk) = reader.frame_chunks(4) else { panic!() };
    chunk.len = u64::MAX / 2;
    assert_eq!(
        reader.read_chunk(&chunk, &mut Vec::new()).unwrap_err().kind(),
        std::io::ErrorKind::UnexpectedEof
    );
    chunk.len = u64::MAX;
    assert!(reader.read_chunk(&chunk, &mut Vec::new()).is_err());
}

#[test]
fn files_that_are_no_hdf5_or_not_there_say_so() {
    let place = TestDir::new();
    let missing = SourceReader::open(&source(&place.path("missing.h5"), "/d"), [6, 7])
        .unwrap_err()
        .to_string();
    assert!(missing.contains("missing.h5: No such file"), "{missing}");
    std::fs::write(place.path("text.h5"), "no HDF5").unwrap();
    let text =
        SourceReader::open(&source(&place.path("text.h5"), "/d"), [6, 7]).unwrap_err().to_string();
    assert!(text.contains("text.h5: not readable as HDF5: "), "{text}");
    assert!(refusal(&place.path("text.h5")).contains("expected HDF5 or an image"));
    place
        .create("x.h5")
        .new_dataset_builder()
        .with_data(&stack::<u16>([50, 60, 70]))
        .create("d")
        .unwrap();
    let bytes = std::fs::read(place.path("x.h5")).unwrap();
    std::fs::write(place.path("x.h5"), &bytes[..bytes.len() / 2]).unwrap();
    let cut =
        SourceReader::open(&source(&place.path("x.h5"), "/d"), [60, 70]).unwrap_err().to_string();
    assert!(cut.contains("truncated"), "{cut}");
}
