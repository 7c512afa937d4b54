//! Small arrays of numbers, such as counters: `frames::hdf5_array`.

use frames::hdf5_array::{read_array, read_numbers, read_written_numbers};
use frames::source::Dtype;
use hdf5::File;
use sample::{announce_filter, write_chunk};

use crate::ffi;
use crate::support::{TestDir, attribute, stack};

#[test]
fn small_arrays_are_numbers_whatever_they_are_stored_as() {
    let place = TestDir::new();
    let file = place.create("x.h5");
    file.new_dataset_builder().with_data(&[true, false, true]).create("mask").unwrap();
    file.new_dataset_builder()
        .with_data(&[1_i64, -2, 3])
        .chunk(2)
        .shuffle()
        .deflate(4)
        .create("counts")
        .unwrap();
    file.new_dataset_builder().with_data(&stack::<f32>([1, 6, 7])).create("cube").unwrap();
    file.new_dataset::<f64>().create("one").unwrap().write_scalar(&2.5).unwrap();
    let big = ffi::create_chunked(&file, "big", Dtype::U16, true, [1, 1, 2], [1, 1, 2]);
    write_chunk(&big, &[0, 0, 0], 0, &[1, 0, 0, 7]).unwrap();
    announce_filter(32008).unwrap();
    drop(
        file.new_dataset::<u32>()
            .chunk(4)
            .add_filter(32008, &[0, 2])
            .shape(4)
            .create("exotic")
            .unwrap(),
    );
    attribute(&file, "creator", "test");
    drop((big, file));
    let path = place.path("x.h5");
    assert_eq!(read_numbers(&path, "/mask").unwrap(), [1.0, 0.0, 1.0]);
    assert_eq!(read_numbers(&path, "/counts").unwrap(), [1.0, -2.0, 3.0]);
    assert_eq!(read_numbers(&path, "/big").unwrap(), [256.0, 7.0]);
    assert_eq!(
        (read_array(&path, "/one").unwrap().shape, read_numbers(&path, "/one").unwrap()),
        (vec![], vec![2.5])
    );
    assert_eq!(read_array(&path, "/cube").unwrap().shape, [1, 6, 7]);
    let why = |dataset: &str| read_numbers(&path, dataset).unwrap_err().to_string();
    assert!(why("/exotic").ends_with("x.h5::/exotic: compressed with HDF5 filter 32008: expected deflate or none (`h5repack -f GZIP=4 IN OUT` converts a file)"), "{}", why("/exotic"));
    assert!(why("/").ends_with("expected a dataset"), "{}", why("/"));
    assert!(why("/none").ends_with("x.h5::/none: no such object"), "{}", why("/none"));
    assert_eq!(
        frames::hdf5_array::read_text_attribute(&path, "/", "creator").unwrap().as_deref(),
        Some("test")
    );
    assert_eq!(
        frames::hdf5_array::list_group(&path, "/").unwrap(),
        ["big", "counts", "cube", "exotic", "mask", "one"]
    );
}

#[test]
fn elements_of_a_list_that_were_never_written_are_not_taken_for_its_fill_value() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("counters.h5");
    let file = File::create(&path).unwrap();
    let list = |name: &str, chunk: Option<usize>, written: std::ops::Range<usize>| {
        let list = file.new_dataset::<f64>().shape(10).fill_value(7.0);
        let list = match chunk {
            Some(length) => list.chunk(length).create(name).unwrap(),
            None => list.no_chunk().create(name).unwrap(),
        };
        if !written.is_empty() {
            list.write_slice(&vec![3.0; written.len()], written).unwrap();
        }
    };
    list("none", None, 0..0);
    list("all", None, 0..10);
    list("no chunk", Some(4), 0..0);
    list("first", Some(4), 0..4);
    list("last", Some(4), 8..10);
    list("two", Some(3), 0..6);
    drop(file);
    let written = |name: &str| {
        let values = read_written_numbers(&path, name).unwrap();
        values.iter().map(|value| if value.is_nan() { '-' } else { 'x' }).collect::<String>()
    };
    let found = ["none", "all", "no chunk", "first", "last", "two"].map(written);
    assert_eq!(
        found,
        ["----------", "xxxxxxxxxx", "----------", "xxxx------", "--------xx", "xxxxxx----"]
    );
    assert_eq!(read_written_numbers(&path, "last").unwrap()[8..], [3.0, 3.0]);
}
