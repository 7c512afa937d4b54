//! Tests images written by fabio, NumPy and detectors, and damaged copies of them.

use std::io::Cursor;

use super::*;

/// Pixels of the images that make-images.py wrote.
const COUNTS: [i32; 15] = [-2, -1, 0, 1, 126, 127, 255, -1, 32767, 0, 65536, 2147483647, 0, 3, -2];
const FIXTURES: [&str; 12] = [
    "counts.cbf",
    "counts.tif",
    "unsigned.tif",
    "real.tif",
    "stack.edf",
    "real.edf",
    "unsigned.npy",
    "fortran.npy",
    "big-endian.npy",
    "mask.npy",
    "stack.npy",
    "wide.msk",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Returns the path of a real frame, if the collection of real files is available.
fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    path.exists().then_some(path)
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn error_of(bytes: &[u8]) -> String {
    let file = written(bytes);
    let text = read(file.path()).unwrap_err().to_string();
    text.strip_prefix(&format!("{}: ", file.path().display()))
        .expect("an error begins with the path")
        .to_owned()
}

fn image<T>(values: impl IntoIterator<Item = T>) -> Image
where
    PixelData: From<Vec<T>>,
{
    Image { shape: [3, 5], pixels: Vec::from_iter(values).into() }
}

#[test]
fn a_fit2d_mask_has_a_bit_a_pixel_in_rows_of_whole_integers() {
    let mask = read(&fixture("wide.msk")).unwrap();
    let expected: Vec<u8> = (0..3 * 35).map(|pixel| u8::from(pixel * 7 % 5 == 0)).collect();
    assert_eq!(mask, Image { shape: [3, 35], pixels: expected.into() });
    assert_eq!(probe(&fixture("wide.msk")).unwrap().shape, [3, 35]);
}

#[test]
fn images_of_other_programs_are_read_as_they_were_written() {
    let unsigned = image((0..15).map(|n: u16| n * 4369));
    let real = image((0..15_u8).map(|n| (f32::from(n) - 7.0) / 8.0));
    let expected = [
        ("counts.cbf", image(COUNTS)),
        ("counts.tif", image(COUNTS)),
        ("unsigned.tif", unsigned.clone()),
        ("real.tif", real.clone()),
        ("stack.edf", image(COUNTS)),
        ("real.edf", real.clone()),
        ("unsigned.npy", unsigned),
        ("fortran.npy", real),
        ("big-endian.npy", image(COUNTS)),
        ("mask.npy", image(COUNTS.map(|count| u8::from(count < 0)))),
        ("stack.npy", image(COUNTS)),
    ];
    assert_eq!(expected.each_ref().map(|(name, _)| *name)[..], FIXTURES[..11]);
    for (name, expected) in expected {
        let path = fixture(name);
        assert_eq!(read(&path).unwrap(), expected, "{name}");
        let header = probe(&path).unwrap();
        assert_eq!(
            (header.shape, header.kind),
            (expected.shape, expected.pixels.dtype()),
            "{name}"
        );
        assert_eq!(header.frames, if name.starts_with("stack") { 2 } else { 1 }, "{name}");
    }
}

#[test]
fn every_frame_of_a_stack_is_found_and_none_beyond() {
    let flipped = image(COUNTS.chunks(5).rev().flatten().copied());
    for name in ["stack.edf", "stack.npy"] {
        assert_eq!(read_frame(&fixture(name), 1).unwrap(), flipped, "{name}");
        let error = read_frame(&fixture(name), 2).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{name}: no frame 2: 2 frames in the file")), "{error}");
    }
    assert!(matches!(
        read_frame(&fixture("counts.tif"), 1),
        Err(ImageError::NoFrame { frames: 1, .. })
    ));
    assert!(matches!(
        read_frame(&fixture("counts.cbf"), 1),
        Err(ImageError::NoFrame { frames: 1, .. })
    ));
}

#[test]
fn the_content_decides_and_not_the_name() {
    let cases: [(&[u8], &str); 4] = [
        (b"", "found an empty file"),
        (b"hello, world", "found \"hello, w\""),
        (b"\x89HDF\r\n\x1a\n\0\0", "found HDF5 (name the dataset: FILE::/PATH)"),
        (b"\xff\xd8\xff\xe0", "found \"\\xff\\xd8\\xff\\xe0\""),
    ];
    for (bytes, found) in cases {
        let error = error_of(bytes);
        assert_eq!(
            error,
            format!("not an image: expected TIFF, CBF, NPY, a Fit2D mask or EDF, {found}")
        );
    }
    let renamed = written(&std::fs::read(fixture("counts.cbf")).unwrap());
    assert_eq!(probe(renamed.path()).unwrap().format, "cbf");
    assert!(matches!(read(Path::new("/no/such/image.tif")), Err(ImageError::Io { .. })));
}

#[test]
fn a_flipped_byte_in_a_cbf_is_seen() {
    let mut bytes = std::fs::read(fixture("counts.cbf")).unwrap();
    let data = bytes.windows(4).position(|window| window == b"\x0c\x1a\x04\xd5").unwrap() + 4;
    bytes[data + 2] ^= 1;
    let error = error_of(&bytes);
    assert!(error.starts_with("cbf: compressed image has MD5 "), "{error}");
}

#[test]
fn byte_offsets_of_every_width() {
    #[rustfmt::skip]
    let data = [
        5,                                                        // 5
        0x80, 0x00, 0x01,                                         // + 256
        0x80, 0x00, 0x80, 0xff, 0xff, 0xff, 0x7f,                 // + 2147483647 leaves i32, so
        0x80, 0x00, 0x80, 0x00, 0x00, 0x00, 0x80,                 // the last escape:
        0x01, 0x00, 0x00, 0x80, 0xff, 0xff, 0xff, 0xff,           // - 2147483647
    ];
    let cbf = |kind: &str| {
        let mime = format!(
            "###CBF: VERSION 1.5\r\n--CIF-BINARY-FORMAT-SECTION--\r\ncontent-type: application/octet-stream;\r\n\t\
             conversions=\"x-CBF_BYTE_OFFSET\"\r\nX-Binary-Size: {}\r\nX-Binary-Element-Type: \"{kind}\"\r\n\
             X-Binary-Size-Fastest-Dimension: 4\r\nX-Binary-Size-Second-Dimension: 1\r\n\r\n\x0c\x1a\x04",
            data.len()
        );
        [mime.as_bytes(), b"\xd5", &data].concat()
    };
    let file = written(&cbf("unsigned 32-bit integer"));
    assert_eq!(read(file.path()).unwrap().pixels, PixelData::U32(vec![5, 261, 2147483908, 261]));
    let error = error_of(&cbf("signed 32-bit integer"));
    assert_eq!(error, "cbf: compressed image: pixel 2 is 2147483908: expected int32");
}

#[test]
fn an_edf_says_its_byte_order_and_may_have_a_general_header() {
    let general = format!("{{\nEDF_DataFormatVersion = 2.40 ;\n{:485}}}\n", "");
    let header = "{\r\nbyteorder = HighByteFirst ;\r\nDataType = UnsignedShort ;\r\nDim_1 = 2 ;\r\nDim_2 = 1 ;\r\n}\r\n";
    let file = written(&[general.as_bytes(), header.as_bytes(), &[1, 2, 3, 4]].concat());
    assert_eq!(
        read(file.path()).unwrap(),
        Image { shape: [1, 2], pixels: PixelData::U16(vec![0x102, 0x304]) }
    );
    assert_eq!(probe(file.path()).unwrap().frames, 1);
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    let edf = |keys: &str| format!("{{\nDim_1 = 2 ;\nDim_2 = 1 ;\n{keys}}}\n....");
    assert_eq!(
        error_of(edf("Compression = GZIP ;\n").as_bytes()),
        "edf: Compression = GZIP: expected none"
    );
    assert!(
        error_of(edf("DataType = QuadrupleValue ;\n").as_bytes())
            .starts_with("edf: DataType = QuadrupleValue: ")
    );
    assert!(
        error_of(edf("DataType = Double ;\n").as_bytes())
            .starts_with("edf: 1 x 2 float64 pixels at offset ")
    );
    assert_eq!(error_of(b"{ \"poni_version\": 2 }\n"), "edf: header: no Dim_1");
    assert!(
        error_of(b"{ Dim_1 = 1 ;")
            .starts_with("edf: header at offset 0: no closing brace in 13 bytes")
    );
    let npy = |description: &str| {
        let length = description.len() as u16;
        [&b"\x93NUMPY"[..], &[1, 0], &length.to_le_bytes(), description.as_bytes(), &[0; 64]]
            .concat()
    };
    let error = error_of(&npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2, 2), }"));
    assert!(error.contains("expected booleans, integers"), "{error}");
    let error = error_of(&npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"));
    assert!(error.contains("expected an image (rows, columns)"), "{error}");
}

#[test]
fn files_with_images_that_are_not_read_are_refused() {
    let cbf = std::fs::read(fixture("counts.cbf")).unwrap();
    let at = cbf.windows(28).position(|window| window == b"X-Binary-Size-Second-Dimensi").unwrap();
    for (images, is_refused) in [("1", false), ("3", true)] {
        let line = format!("X-Binary-Size-Third-Dimension: {images}\r\n");
        let bytes = [&cbf[..at], line.as_bytes(), &cbf[at..]].concat();
        assert_eq!(read(written(&bytes).path()).is_err(), is_refused, "{images}");
    }
    // With a directory for the first image only.
    let stack = |description: &str| {
        let mut bytes = Vec::new();
        let mut encoder = ::tiff::encoder::TiffEncoder::new(Cursor::new(&mut bytes)).unwrap();
        let mut image = encoder.new_image::<::tiff::encoder::colortype::Gray16>(32, 32).unwrap();
        image.encoder().write_tag(::tiff::tags::Tag::ImageDescription, description).unwrap();
        image.write_data(&[7; 32 * 32]).unwrap();
        bytes
    };
    let alone = stack("ImageJ=1.54\nimages=3\nslices=3\n");
    assert_eq!(probe(written(&alone).path()).unwrap().frames, 1, "it was one of a stack");
    let file = written(&[&alone[..], &[0; 2 * 2 * 32 * 32]].concat());
    let error = probe(file.path()).unwrap_err().to_string();
    assert!(error.contains("tiff: an ImageJ stack of 3 images"), "{error}");
    for description in ["ImageJ=1.54\nimages=1\n", "images=3", "ImageJ=1.54\n"] {
        let file = written(&stack(description));
        assert_eq!(probe(file.path()).unwrap().frames, 1, "{description}");
    }
}

#[test]
fn headers_that_ask_for_more_than_the_file_has_take_no_memory() {
    let edf = "{\nDataType = Float ;\nDim_1 = 4000000000 ;\nDim_2 = 4000000000 ;\n}\n";
    assert!(error_of(edf.as_bytes()).starts_with("edf: 4000000000 x 4000000000 float32 pixels"));
    let mut tiff = std::fs::read(fixture("counts.tif")).unwrap();
    // ImageWidth (tag 256) of the first directory: 2^31 columns.
    let tag =
        tiff.windows(4).position(|window| window == [0, 1, 4, 0]).expect("a width of 32 bits");
    tiff[tag + 8..tag + 12].copy_from_slice(&0x8000_0000_u32.to_le_bytes());
    assert!(error_of(&tiff).starts_with("tiff: "), "{}", error_of(&tiff));
}

#[test]
fn damage_anywhere_is_an_error_or_an_image_of_the_shape_it_says() {
    for name in FIXTURES {
        let whole = std::fs::read(fixture(name)).unwrap();
        let check = |bytes: &[u8]| {
            let Some(format) = find_format(bytes) else { return };
            let mut content = FileBytes::new(Cursor::new(bytes)).unwrap();
            let _ = (format.read_header)(&mut content);
            if let Ok(image) = (format.read_image)(&mut content, 0) {
                assert_eq!(image.pixels.len(), image.shape[0] * image.shape[1], "{name}");
            }
        };
        for end in 0..whole.len() {
            check(&whole[..end]);
        }
        let mut bytes = whole.clone();
        for at in 0..whole.len() {
            for value in [0, 1, 0x20, 0x39, 0x7f, 0x80, 0xff, whole[at] ^ 1] {
                bytes[at] = value;
                check(&bytes);
            }
            bytes[at] = whole[at];
        }
    }
}

#[test]
fn real_frames_are_read() {
    let frames = [
        ("dioptas-ceo2-pilatus1m/CeO2_Pilatus1M.tif", "tiff", [1043, 981], Dtype::I32),
        ("lightform-pixium/pixium_03150.tif", "tiff", [1441, 1440], Dtype::U16),
        ("bioxtas-gi2-pilatus100k/GI2_A9_19_001_0000.tiff", "tiff", [195, 487], Dtype::I32),
    ];
    for (name, format, shape, kind) in frames {
        let Some(path) = shared(name) else { continue };
        assert_eq!(
            probe(&path).unwrap(),
            ImageHeader { format, shape, kind, frames: 1, is_unverified: false },
            "{name}"
        );
        assert_eq!(read(&path).unwrap().shape, shape, "{name}");
    }
    if let Some(path) = shared("bioxtas-gi2-pilatus100k/mask.edf") {
        let masked =
            read(&path).unwrap().pixels.to_f64().iter().filter(|&&value| value != 0.0).count();
        assert_eq!(masked, 1226);
    }
}

#[test]
fn an_edf_header_with_a_third_dimension_has_several_images() {
    let header = |rest: &str| {
        let text = format!("{{\nDataType = UnsignedByte ;\nDim_1 = 5 ;\nDim_2 = 3 ;\n{rest}");
        format!("{text:<510}}}\n").into_bytes()
    };
    let images = |first: u8, count: u8| -> Vec<u8> {
        (first..first + count).flat_map(|value| [value; 15]).collect()
    };
    // Two images, then one of a header of its own.
    let file = [header("Dim_3 = 2 ;\n"), images(1, 2), header(""), images(3, 1)].concat();
    let file = written(&file);
    assert_eq!(probe(file.path()).unwrap().frames, 3);
    for frame in 0..3 {
        assert_eq!(read_frame(file.path(), frame).unwrap(), image([frame as u8 + 1; 15]));
    }
    let short = [header("Dim_3 = 2 ;\n"), images(1, 1)].concat();
    assert!(
        error_of(&short).contains("2 x 3 x 5 uint8 pixels at offset 512"),
        "{}",
        error_of(&short)
    );
    let deep = [header("Dim_3 = 1 ;\nDim_4 = 2 ;\n"), images(1, 2)].concat();
    assert!(error_of(&deep).contains("Dim_4: expected Dim_1 to Dim_3"), "{}", error_of(&deep));
}

/// A TIFF of two pages of 32 x 32 pixels, in strips of so many rows.
fn two_pages<K: ::tiff::encoder::TiffKind>(rows: u32, second: Option<u16>) -> Vec<u8> {
    use ::tiff::encoder::{TiffEncoder, colortype::Gray16};
    let mut bytes = Vec::new();
    let mut encoder = TiffEncoder::<_, K>::new_generic(Cursor::new(&mut bytes)).unwrap();
    for value in [Some(7), second].into_iter().flatten() {
        let mut image = encoder.new_image::<Gray16>(32, 32).unwrap();
        image.rows_per_strip(rows).unwrap();
        image.write_data(&[value; 32 * 32]).unwrap();
    }
    bytes
}

/// A little-endian TIFF of 16 x 32 16-bit pixels in two tiles, which begin at byte 512.
fn tiled() -> Vec<u8> {
    let entry = |tag: u16, kind: u16, count: u32, value: u32| {
        [&tag.to_le_bytes()[..], &kind.to_le_bytes(), &count.to_le_bytes(), &value.to_le_bytes()]
            .concat()
    };
    let entries = [
        entry(256, 4, 1, 32),
        entry(257, 4, 1, 16),
        entry(258, 3, 1, 16),
        entry(259, 3, 1, 1),
        entry(262, 3, 1, 1),
        entry(322, 4, 1, 16),
        entry(323, 4, 1, 16),
        entry(324, 4, 2, 256),
        entry(325, 4, 2, 264),
    ];
    let mut bytes = [&b"II*\0\x08\0\0\0\x09\0"[..], &entries.concat(), &[0; 4]].concat();
    bytes.resize(256, 0);
    bytes.extend([512_u32, 1024, 512, 512].iter().flat_map(|number| number.to_le_bytes()));
    bytes.resize(512, 0);
    bytes.extend([3_u16; 2 * 16 * 16].iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn a_tiff_that_is_not_whole_is_refused_by_its_header() {
    use ::tiff::encoder::{TiffKindBig, TiffKindStandard};
    let probed = |bytes: &[u8]| {
        let file = written(bytes);
        probe(file.path())
            .map(|header| header.frames)
            .map_err(|why| why.to_string().split_once(": ").expect("a path").1.to_owned())
    };
    for whole in [two_pages::<TiffKindStandard>(8, Some(9)), two_pages::<TiffKindBig>(32, Some(9))]
    {
        assert_eq!(probed(&whole), Ok(2));
        for len in [9, whole.len() / 3, whole.len() - 1] {
            let error = probed(&whole[..len]).unwrap_err();
            assert!(error.starts_with("tiff: "), "{error}");
        }
    }
    assert_eq!(probed(&tiled()), Ok(1));
    assert_eq!(read(written(&tiled()).path()).unwrap().pixels, PixelData::U16(vec![3; 512]));
    assert_eq!(
        probed(&tiled()[..1500]).unwrap_err(),
        "tiff: the file ends before the image does: tile 1 of image 0: expected 512 bytes at offset 1024, the file has 476 there"
    );
    // The pixels of fabio's images come last.
    let counts = std::fs::read(fixture("counts.tif")).unwrap();
    let error = probed(&counts[..counts.len() - 1]).unwrap_err();
    assert!(error.contains("strip 0 of image 0: expected 60 bytes at offset "), "{error}");
    // A strip that ends beyond any number.
    let mut hostile = tiled();
    hostile[264..272].fill(0xff);
    assert_eq!(probed(&hostile), Ok(1), "uncompressed pixels have a size of their own");
    hostile[256..264].fill(0xff);
    assert!(probed(&hostile).unwrap_err().contains("offset 4294967295, the file has 0 there"));
}

#[test]
fn the_first_image_of_several_ends_where_it_ended_alone() {
    use ::tiff::encoder::TiffKindStandard;
    let end = |bytes: &[u8]| {
        let file = written(bytes);
        first_image_end(file.path(), file.as_file()).unwrap()
    };
    let one =
        [&b"{\nDataType = UnsignedByte ;\nDim_1 = 5 ;\nDim_2 = 3 ;\n}\n"[..], &[1; 15]].concat();
    let deep = [
        &b"{\nDataType = UnsignedByte ;\nDim_1 = 5 ;\nDim_2 = 3 ;\nDim_3 = 2 ;\n}\n"[..],
        &[1; 30],
    ];
    let len = one.len() as u64;
    assert_eq!([end(&one), end(&one.repeat(2)), end(&one.repeat(3))], [None, Some(len), Some(len)]);
    assert_eq!(end(&deep.concat()), Some(deep[0].len() as u64 + 15));
    for (name, expected) in
        [("counts.tif", None), ("counts.cbf", None), ("wide.msk", None), ("unsigned.npy", None)]
    {
        assert_eq!(end(&std::fs::read(fixture(name)).unwrap()), expected, "{name}");
    }
    let stack = std::fs::read(fixture("stack.npy")).unwrap();
    assert_eq!(end(&stack), Some(stack.len() as u64 - 60));
    let [alone, two] = [None, Some(9)].map(|second| two_pages::<TiffKindStandard>(8, second));
    assert_eq!(end(&alone), None);
    assert!(end(&two).is_some_and(|end| (2048..two.len() as u64 - 2048).contains(&end)));
}
