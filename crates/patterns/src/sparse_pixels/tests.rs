use std::fs::File;

use super::*;
use crate::h5::{Group, NewHdf5File};

fn scan(dtype: &str) -> Acquisition {
    Acquisition { shape: [3, 5], dtype: dtype.to_owned(), ..Acquisition::default() }
}

fn recipe() -> Recipe {
    let geometry = Some("Distance: 1\n".to_owned());
    Recipe::resolve(&recipe::Settings { geometry, ..recipe::Settings::default() }).unwrap()
}

fn frames() -> [Option<SparseFrame>; 5] {
    let sparse = |pixels: &[u32], values: &[f64], other_shares| {
        let (pixels, values) = (pixels.to_vec(), values.to_vec());
        Some(SparseFrame::Pixels(SparsePixels { pixels, values, other_shares }))
    };
    [
        sparse(&[0, 4, 5, 14], &[1.0, 7.0, 4e9, 0.0], 3),
        None,
        sparse(&[], &[], 0),
        Some(SparseFrame::TooMany { shares: 77 }),
        sparse(&[9], &[2.0], 0),
    ]
}

/// Writes frames into a new file, which `change` may change, and reads its index.
fn read_changed(change: impl Fn(&Group)) -> Result<Option<SparseIndex>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.h5");
    let file = NewHdf5File::create_in(File::create_new(&path).unwrap(), &path, 0).unwrap();
    let mut writer = SparseWriter::create(&file, &scan("u32"), &recipe()).unwrap();
    frames().iter().for_each(|frame| writer.push(frame.as_ref()).unwrap());
    writer.finish().unwrap();
    change(&file.group(GROUP_NAME).unwrap());
    let index = SparseIndex::read(&file, &scan("u32"), &recipe(), 5)?.expect("the group");
    let reader = SparseReader::open(&file, &index).unwrap();
    reader.verify()?;
    for (row, frame) in frames().into_iter().enumerate() {
        assert_eq!(reader.frame(row).unwrap(), frame);
        assert_eq!(index.is_settled(row), frame.is_some());
    }
    assert_eq!(reader.frame(5).unwrap(), None);
    Ok(Some(index))
}

#[test]
fn frames_are_read_as_they_were_written() {
    read_changed(|_| ()).unwrap();
}

#[test]
fn lists_that_contradict_each_other_are_damage() {
    let changed = |name: &'static str, at: usize, value: u16| {
        read_changed(move |group| {
            let dataset = group.dataset(name).unwrap();
            match name {
                "status" => dataset.write_rows(at, &[value as u8], &[]).unwrap(),
                "nnz" => dataset.write_rows(at, &[u32::from(value)], &[]).unwrap(),
                _ => dataset.write_rows(at, &[value], &[]).unwrap(),
            }
        })
        .unwrap_err()
        .to_string()
    };
    assert!(changed("status", 0, 3).contains("sparse: unknown status of a frame"));
    assert!(changed("status", 0, 0).contains("sparse: pixels of a frame that has none"));
    assert!(changed("nnz", 2, 1).contains("row has shape [5]; expected [6]"));
    assert!(changed("nnz", 4, 16).contains("sparse: more pixels than a frame has"));
    assert!(changed("row", 1, 3).contains("sparse: row 3, column 4 is outside of the frame"));
    assert!(changed("col", 4, 5).contains("sparse: row 1, column 5 is outside of the frame"));
}

#[test]
fn a_pixel_outside_of_the_frame_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.h5");
    let file = NewHdf5File::create_in(File::create_new(&path).unwrap(), &path, 0).unwrap();
    let mut writer = SparseWriter::create(&file, &scan("i16"), &recipe()).unwrap();
    let sparse = SparsePixels { pixels: vec![15], values: vec![1.0], other_shares: 0 };
    let why = writer.push(Some(&SparseFrame::Pixels(sparse))).unwrap_err();
    assert!(why.to_string().contains("pixel 15 is outside of the frame"), "{why}");
}

#[test]
fn frames_that_indices_or_values_cant_name_are_refused() {
    let largest = Acquisition { shape: [65536, 65536], ..scan("f32") };
    assert_eq!(check_frames(&largest, &recipe()), Ok(()));
    let format = SparseFormat::new(&largest, &recipe()).unwrap();
    assert_eq!(format.position(u32::MAX), Some([u16::MAX; 2]));
    assert_eq!(format.index(u16::MAX, u16::MAX), Some(u32::MAX));
    let long = Acquisition { shape: [1, 65537], ..scan("u8") };
    let why = "frames of 1 x 65537 pixels; expected at most 65536 rows and columns";
    assert_eq!(check_frames(&long, &recipe()), Err(why.to_owned()));
    let why = "pixels of type i64; expected integers of at most 32 bits, f32 or f64";
    assert_eq!(check_frames(&scan("i64"), &recipe()), Err(why.to_owned()));
}
