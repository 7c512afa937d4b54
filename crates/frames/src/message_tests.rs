//! A test that lists all messages of the crate in one place, so that their wording can be compared.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::coding::{Dtype, PixelTypeError};
use crate::discover::error::DiscoverError;
use crate::discover::frame_selection::SelectionError;
use crate::discover::unusable::UnusableError;
use crate::ffi::LibraryError;
use crate::frame_shape::{FrameShapeError, check_shape, frame_dimensions};
use crate::hdf5_array::Hdf5ArrayError;
use crate::hdf5_worker::WorkerError;
use crate::image::{FirstBytes, ImageError};
use crate::source::SourceError;

fn stale() -> io::Error {
    io::Error::from_raw_os_error(116)
}

#[test]
fn why_files_and_objects_can_not_be_used() {
    let file = Path::new("/data/p3_0000.h5");
    let damaged =
        DiscoverError::from_library(file, &LibraryError::new("truncated file: eof = 2048"));
    let image = ImageError::Unknown {
        path: file.to_owned(),
        found: FirstBytes::Other(b"no HDF5".to_vec()),
    };
    let errors = [
        DiscoverError::from_io(file, &io::Error::from_raw_os_error(2)),
        DiscoverError::from_io(file, &stale()),
        damaged,
        DiscoverError::from_image(file, &image),
        DiscoverError::NoObject(file.to_owned(), "/entry/none".to_owned()),
    ];
    let of_this_file = [
        "no such file or directory",
        "Stale file handle (os error 116)",
        "not readable as HDF5: truncated file: eof = 2048",
        "expected HDF5 or an image (TIFF, CBF, EDF, NPY), found \"no HDF5\"",
        "no dataset /entry/none",
    ];
    assert_eq!(errors.each_ref().map(|error| error.message(file)), of_this_file);
    let of_its_master = [
        "file missing: /data/p3_0000.h5",
        "/data/p3_0000.h5: Stale file handle (os error 116)",
        "/data/p3_0000.h5: not readable as HDF5: truncated file: eof = 2048",
        "/data/p3_0000.h5: expected HDF5 or an image (TIFF, CBF, EDF, NPY), found \"no HDF5\"",
        "/data/p3_0000.h5: no dataset /entry/none",
    ];
    assert_eq!(
        errors.each_ref().map(|error| error.message(Path::new("/data/m.h5"))),
        of_its_master
    );
    let of_absent_frames = [
        "file missing: p3_0000.h5",
        "file unreadable: p3_0000.h5: Stale file handle (os error 116)",
        "file unreadable: p3_0000.h5: not readable as HDF5: truncated file: eof = 2048",
        "file unreadable: p3_0000.h5: expected HDF5 or an image (TIFF, CBF, EDF, NPY), found \"no HDF5\"",
        "file unreadable: p3_0000.h5: no dataset /entry/none",
    ];
    assert_eq!(errors.map(|error| error.reason(file, Path::new("p3_0000.h5"))), of_absent_frames);
}

#[test]
fn why_objects_are_no_frames() {
    let path = || "/1.1/title".to_owned();
    let errors: [UnusableError; 29] = [
        frame_dimensions(&[7]).expect_err("a list").into(),
        frame_dimensions(&[5, 2, 20, 30]).expect_err("two channels").into(),
        FrameShapeError::Mismatch { found: [20, 30], expected: [30, 20] }.into(),
        PixelTypeError::SignedLong.into(),
        PixelTypeError::Unknown(3).into(),
        SelectionError::PartsOfFrames(vec![10, 20, 30]).into(),
        UnusableError::NotDataset,
        UnusableError::NotGroup,
        UnusableError::Sparse,
        UnusableError::FileNames,
        UnusableError::NumberedSources("/raw/f_%b.h5".into()),
        UnusableError::NoImages,
        UnusableError::NoDataFiles,
        UnusableError::DataFileNumber { name: "data_9999999".to_owned(), most: 1 << 20 },
        UnusableError::NoLimaFiles,
        UnusableError::LimaFileNumber {
            file: "/raw/p3_99999999.h5".into(),
            number: "99999999".to_owned(),
            end: 1342178,
        },
        UnusableError::LimaNumbersContradict { file: "/raw/p3_0001.h5".into(), requested: 10 },
        UnusableError::RequestedFrames(1 << 40),
        UnusableError::TooManyFrames(1 << 40),
        UnusableError::TooManyPixels([1 << 20, 1 << 20]),
        UnusableError::MappedTwice(7),
        UnusableError::MappedBeyondEnd { frame: 7, frames: 1 },
        UnusableError::OtherPixelType { found: Dtype::U32, expected: Dtype::U16 },
        UnusableError::OtherShape { found: [7, 6], expected: [6, 7] },
        UnusableError::Cycle(64),
        UnusableError::TooManyLinks { path: path(), most: 32 },
        UnusableError::TextLength { path: path(), len: 65537, most: 65536 },
        UnusableError::ImageOperation {
            path: "binning/x".to_owned(),
            found: "-1".to_owned(),
            expected: "a whole number",
        },
        UnusableError::SegmentSize { segment: 100, frame: 84 },
    ];
    let messages = [
        "shape (7): expected (rows, columns), (frames, rows, columns) or (frames, 1, rows, columns)",
        "shape (5, 2, 20, 30), which has 2 channels: expected one, as in (frames, 1, rows, columns)",
        "frames of 20 x 30 pixels: expected 30 x 20 pixels",
        "int64 elements: expected uint8, int8, uint16, int16, uint32, int32, uint64, float32 or float64",
        "elements of an unknown type with 3 bytes: expected uint8, int8, uint16, int16, uint32, int32, uint64, float32 or \
         float64",
        "a virtual dataset of shape (10, 20, 30) puts frames together from parts of datasets: expected whole frames",
        "a group: expected a dataset",
        "not a group: expected an NXentry",
        "sparse frames (index, intensity, frame_ptr): expected images",
        "a list of image files: pass these files to scan-find",
        "/raw/f_%b.h5: a virtual dataset whose sources have a block number (%b) in their names: \
         expected sources by name; name the datasets of the sources instead: FILE::/PATH",
        "no images",
        "no datasets data_000001, data_000002, …: expected at least one",
        "data/data_9999999: expected a number of at most 1048576",
        "no Lima files",
        "/raw/p3_99999999.h5: number 99999999 in its name: expected a number below 1342178",
        "/raw/p3_0001.h5: the first Lima file, yet the last one would hold frames beyond the 10 that \
         were requested: expected files numbered from 0; restore those that are missing, or rename \
         these",
        "acq_nb_frames is 1099511627776: expected at most 134217728",
        "1099511627776 frames: expected at most 134217728",
        "frames of 1048576 x 1048576 pixels: expected at most 134217728 pixels",
        "frame 7 is mapped twice: expected one source for each frame",
        "frame 7 is mapped, but the dataset has only 1 frame",
        "uint32 pixels: expected uint16 like the other frames",
        "frames of 7 x 6 pixels: expected 6 x 7 pixels like the other frames",
        "virtual datasets that refer to each other in a cycle, or more than 64 levels deep",
        "/1.1/title: more than 32 links on the way: do they form a cycle?",
        "/1.1/title: a text of 65537 bytes: expected at most 65536",
        "image_operation: binning/x is -1: expected a whole number",
        "external storage with a segment of 100 bytes: expected a multiple of the 84 bytes of a frame",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);
    let too_long = UnusableError::SegmentsTooLong(2).to_string();
    assert_eq!(too_long, "external storage with more bytes than its 2 frames take");
    assert_eq!(check_shape([20, 30], Some([20, 30])), Ok(()));
}

#[test]
fn why_sources_arrays_and_images_can_not_be_read() {
    let file = || "/data/a.h5".into();
    let (dataset, why) = (|| "/entry/data".to_owned(), || "not a dataset".to_owned());
    let sources = [
        SourceError::Io { file: file(), why: stale() },
        SourceError::Hdf5 { file: file(), why: "truncated file".to_owned() },
        SourceError::NoAnswer {
            file: file(),
            why: WorkerError::TimedOut(Duration::from_secs(60)).to_string(),
            retryable: true,
        },
        SourceError::Dataset { file: file(), dataset: dataset(), why: why() },
        SourceError::Mismatch { file: file(), why: FrameShapeError::Rank(vec![7]).to_string() },
    ];
    let messages = [
        "/data/a.h5: Stale file handle (os error 116)",
        "/data/a.h5: not readable as HDF5: truncated file",
        "/data/a.h5: the HDF5 library made no progress for 60 s: the file may be damaged: replace it by a sound copy and run \
         again (AZPIPE_FILE_TIMEOUT sets the limit)",
        "/data/a.h5::/entry/data: not a dataset",
        "/data/a.h5: shape (7): expected (rows, columns), (frames, rows, columns) or (frames, 1, rows, columns)",
    ];
    assert_eq!(sources.map(|error| error.to_string()), messages);
    let arrays = [
        Hdf5ArrayError::Io { file: file(), why: stale() },
        Hdf5ArrayError::NotHdf5 { file: file(), why: "truncated file".to_owned() },
        Hdf5ArrayError::no_answer(&file(), &WorkerError::Ended("signal: 11 (SIGSEGV)".to_owned())),
        Hdf5ArrayError::no_answer(
            &file(),
            &WorkerError::OutOfMemory { why: "memory allocation of 8192 bytes failed".to_owned() },
        ),
        Hdf5ArrayError::no_answer(&file(), &WorkerError::Killed("signal: 9 (SIGKILL)".to_owned())),
        Hdf5ArrayError::no_answer(&file(), &WorkerError::StorageTimedOut(Duration::from_secs(60))),
        Hdf5ArrayError::no_answer(&file(), &WorkerError::Lost(io::Error::from_raw_os_error(5))),
        Hdf5ArrayError::no_answer(&file(), &WorkerError::Interrupted),
        Hdf5ArrayError::no_answer(&file(), &WorkerError::System(io::Error::from_raw_os_error(11))),
        Hdf5ArrayError::Dataset {
            file: file(),
            dataset: dataset(),
            why: "no such object".to_owned(),
        },
    ];
    let messages = [
        "/data/a.h5: Stale file handle (os error 116)",
        "/data/a.h5: not readable as HDF5: truncated file",
        "/data/a.h5: the process that reads it with the HDF5 library ended (signal: 11 (SIGSEGV)): the file may be damaged, or \
         memory was short: replace it by a sound copy, or give it more memory, and run again",
        "/data/a.h5: the process that reads it ran out of memory (memory allocation of 8192 bytes failed): give it more (a \
         job's --mem, ulimit -v; it takes no more than 32 GiB), unless the file is damaged and asks for too much",
        "/data/a.h5: the process that reads it was killed (signal: 9 (SIGKILL)), perhaps by the system because memory ran \
         out: run again, with more memory (a job's --mem) or fewer processes beside it if it is killed again",
        "/data/a.h5: its storage gave no answer for 60 s: run again when it does (AZPIPE_FILE_TIMEOUT sets the limit)",
        "/data/a.h5: no answer from the process that reads it (Input/output error (os error 5)): run again",
        "/data/a.h5: a signal stopped the filter",
        "/data/a.h5: the process that reads HDF5 files can't be started: Resource temporarily unavailable (os error 11)",
        "/data/a.h5::/entry/data: no such object",
    ];
    assert_eq!(arrays.map(|error| error.to_string()), messages);
    let invalid =
        |format, why: &str| ImageError::Invalid { path: "/a".into(), format, why: why.to_owned() };
    let images = [
        ImageError::Io { path: "/a".into(), why: stale() },
        ImageError::Unknown { path: "/a".into(), found: FirstBytes::Empty },
        ImageError::Unknown { path: "/a".into(), found: FirstBytes::Hdf5 },
        invalid("edf", "Compression = GZIP: expected none"),
        invalid("cbf", "compressed image: pixel 2 is 2147483908: expected int32"),
        ImageError::NoFrame { path: "/a".into(), frame: 1, frames: 1 },
    ];
    let messages = [
        "/a: Stale file handle (os error 116)",
        "/a: not an image: expected TIFF, CBF, NPY, a Fit2D mask or EDF, found an empty file",
        "/a: not an image: expected TIFF, CBF, NPY, a Fit2D mask or EDF, found HDF5 (name the dataset: FILE::/PATH)",
        "/a: edf: Compression = GZIP: expected none",
        "/a: cbf: compressed image: pixel 2 is 2147483908: expected int32",
        "/a: no frame 1: 1 frame in the file",
    ];
    assert_eq!(images.map(|error| error.to_string()), messages);
}
