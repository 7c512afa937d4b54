//! A test that lists the messages of the crate in one place, so that their wording can be compared.
//! Messages about a file, recipe or device that can't be used are in the crates `frames`, `recipe`,
//! `integrator` and `kernels`.

use std::io;
use std::path::Path;

use records::{Absent, AbsentKind, Source, Span, Spans};

use crate::commit::{describe_absent, describe_frames_without_source};
use crate::device::select::{DeviceSelectionError, DeviceWordError};
use crate::matrix_cache::{describe_uncached, describe_unusable_matrix};
use crate::stats::describe_loss;

#[test]
fn which_frames_have_no_pattern_and_why() {
    let source = Source {
        file: "/raw/p3_0000.h5".into(),
        dataset: "/entry/data".to_owned(),
        ..Source::default()
    };
    let absent = |range, reason: &str| Absent {
        range,
        kind: AbsentKind::Missing,
        reason: reason.to_owned(),
    };
    let one = [absent(Span::new(3, 4).into(), "file missing: p3_0001.h5")];
    let two = [
        absent(Span::new(0, 3).into(), "file missing: p3_0000.h5"),
        absent(Span::new(5, 6).into(), "not written"),
    ];
    let squares: Vec<u64> = (0..1000u64).map(|number| number * number).collect();
    let messages = [
        describe_loss(&source, &[7], "not written"),
        describe_loss(&source, &[0, 1, 2, 9], "/raw/p3_0000.h5::/entry/data: not a dataset"),
        describe_loss(&source, &[0, 2, 4], "/raw/p3_0000.h5: Stale file handle (os error 116)"),
        describe_loss(&source, &squares, "bitshuffle: block 3 of 9 does not decode"),
        describe_frames_without_source(&Spans::from(Span::new(24, 30))),
        describe_absent(&one).expect("an absent frame"),
        describe_absent(&two).expect("absent frames"),
    ];
    let expected = [
        "frame 7: not written",
        "frames 0 to 2, 9: not a dataset",
        "frames 0 to 4 by 2: Stale file handle (os error 116)",
        "frames 0 to 1, 4, 9, 16, 25, 36, 49, 64, and 991 more: bitshuffle: block 3 of 9 does not decode",
        "frames 24 to 29: no file of the task has them",
        "1 frame without data: file missing: p3_0001.h5",
        "4 frames without data: file missing: p3_0000.h5, and other reasons",
    ];
    assert_eq!(messages, expected);
    assert_eq!(describe_absent(&[]), None);
}

#[test]
fn what_a_run_lacks() {
    let unknown = |why| DeviceSelectionError::Unknown {
        word: "7".to_owned(),
        why,
        known: "0 A100, 1 H100".to_owned(),
    };
    let messages = [
        describe_unusable_matrix(Path::new("/out/.azpipe/matrix/aa.matrix"), &"damaged"),
        describe_uncached(Path::new("/cache"), &io::Error::from_raw_os_error(30)),
        DeviceSelectionError::Hidden("CUDA_VISIBLE_DEVICES").to_string(),
        DeviceSelectionError::NoneUsable.to_string(),
        unknown(DeviceWordError::Unknown).to_string(),
        unknown(DeviceWordError::NoSlot).to_string(),
    ];
    let expected = [
        "/out/.azpipe/matrix/aa.matrix: damaged: the matrix is built again",
        "/cache: Read-only file system (os error 30): the matrix is not cached, and each run builds it again",
        "CUDA_VISIBLE_DEVICES hides all GPUs: request a GPU for the job, or pass --engine cpu",
        "no device is usable: --list-devices says why, --engine cpu needs none",
        "--device 7: no such device: expected an index, a part of a name, a PCI address or `slot`; the devices are 0 A100, 1 H100",
        "--device 7: none of PARALLEL_JOBSLOT, SLOT and SLURM_LOCALID is set to the number of this job: expected an index, a part \
         of a name, a PCI address or `slot`; the devices are 0 A100, 1 H100",
    ];
    assert_eq!(messages, expected);
}
