//! Lists all error messages of the crate, so that they can be read side by side.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use patterns::Hdf5Error;
use patterns::export::ExportError;
use patterns::output::OutputError;
use patterns::part::{PartError, UserBlockError};
use patterns::pixel_statistics::StatisticsError;
use patterns::plot::PlotError;
use records::{Span, Spans};

fn path() -> PathBuf {
    "/out/a.h5".into()
}

fn io_error() -> io::Error {
    io::Error::from_raw_os_error(13)
}

fn one_frame() -> Spans {
    Span::new(3, 4).into()
}

#[track_caller]
fn check<E: Display, const N: usize>(errors: [E; N], messages: [&str; N]) {
    assert_eq!(errors.map(|error| error.to_string()), messages);
}

#[test]
fn hdf5_errors() {
    check(
        [
            Hdf5Error::Io(io_error()),
            Hdf5Error::NotFound("1.1/measurement".to_owned()),
            Hdf5Error::Damaged("bytes 0 to 65535 were changed after writing".to_owned()),
            Hdf5Error::Library("signal has shape [3]; expected [3, 1000]".to_owned()),
        ],
        [
            "Permission denied (os error 13)",
            "no object \"1.1/measurement\" in the file",
            "damaged: bytes 0 to 65535 were changed after writing",
            "signal has shape [3]; expected [3, 1000]",
        ],
    );
}

#[test]
fn part_errors() {
    let user_block = |why| PartError::Head { path: path(), why };
    check(
        [
            PartError::Io { path: path(), why: io_error() },
            PartError::Hdf5 { path: path(), why: Hdf5Error::NotFound("frames".to_owned()) },
            user_block(UserBlockError::Io(io_error())),
            user_block(UserBlockError::NotPart),
            user_block(UserBlockError::UnsupportedVersion(5)),
            user_block(UserBlockError::Damaged),
            user_block(UserBlockError::ImpossibleFrames { first: 6, last: 3, count: 1 }),
            PartError::Damaged { path: path(), expected: "0a".to_owned(), found: "1a".to_owned() },
            PartError::Replaced { path: path() },
            PartError::Content {
                path: path(),
                why: "its frames are not in ascending order".to_owned(),
            },
            PartError::Outside { path: "../a.h5".into() },
        ],
        [
            "/out/a.h5: Permission denied (os error 13)",
            "/out/a.h5: no object \"frames\" in the file",
            "/out/a.h5: its first 512 bytes can't be read: Permission denied (os error 13)",
            "/out/a.h5: not a part; expected a first line of JSON with \"azpipe\":\"part\"",
            "/out/a.h5: a part of version 5, which a newer azpipe wrote; this azpipe reads versions 1 to 4",
            "/out/a.h5: damaged: its first 512 bytes were changed; remove the file and run ai-integrate again",
            "/out/a.h5: damaged: 1 frames from 6 to 3 are impossible; remove the file and run ai-integrate again",
            "/out/a.h5: damaged: checksum 1a, expected 0a as in its first line; \
             remove the file and run ai-integrate again",
            "/out/a.h5: replaced by another part while it was being read; run the command again",
            "/out/a.h5: its frames are not in ascending order",
            "../a.h5: outside of the output directory; expected a part's path below it",
        ],
    );
}

#[test]
fn output_errors() {
    let two = || "/out/b.h5".into();
    check(
        [
            OutputError::Part(PartError::Replaced { path: path() }),
            OutputError::Io { path: path(), why: io_error() },
            OutputError::SourceStateUnknown { path: path(), why: io_error() },
            OutputError::Hdf5 { path: path(), why: Hdf5Error::NotFound("1.1".to_owned()) },
            OutputError::Invalid {
                path: path(),
                why: "damaged: its axes or weights were changed after writing".to_owned(),
            },
            OutputError::NotOwned { path: path() },
            OutputError::ConcurrentWrite { path: path() },
            OutputError::EscapesRoot { path: "../a.h5".into() },
            OutputError::TwoNames { one: "a_x.h5".into(), other: "a_y.h5".into() },
            OutputError::ConflictingParts { frame: 11, one: path(), two: two() },
            OutputError::OfOtherVersion { path: path(), why: "an unknown layout".to_owned() },
            OutputError::ConflictingBins {
                one: path(),
                two: two(),
                only_in_one: Span::new(3, 9).into(),
            },
            OutputError::NotMergeable {
                one: path(),
                two: two(),
                why: "10 frames, and 20".to_owned(),
            },
            OutputError::SumsNotKept {
                path: path(),
                what: "--average",
                frames: Spans::first_n(10),
                is_cake: true,
            },
            OutputError::SumsNotKept {
                path: path(),
                what: "the new mean of the monitor",
                frames: one_frame(),
                is_cake: false,
            },
            OutputError::SumsNotInParts {
                path: path(),
                what: "--keep-sums",
                frames: Spans::first_n(10),
            },
            OutputError::SumsDamaged { path: path(), frames: one_frame() },
            OutputError::Busy { path: path() },
            OutputError::Stopped,
            OutputError::ReadBackMismatch { path: path() },
        ],
        [
            "/out/a.h5: replaced by another part while it was being read; run the command again",
            "/out/a.h5: Permission denied (os error 13)",
            "/out/a.h5: can't determine whether it has changed since it was integrated: Permission denied (os error 13); \
             run gather again",
            "/out/a.h5: no object \"1.1\" in the file",
            "/out/a.h5: damaged: its axes or weights were changed after writing",
            "/out/a.h5: exists, and is not a file of azpipe or is damaged beyond recognition; \
             move or remove it, or choose another name for the final with plan-split --recipe-name",
            "/out/a.h5: another gather writes it at the same time, probably on another machine; \
             run gather again when that has ended",
            "../a.h5: outside of the output directory; expected a final's path below it",
            "a_x.h5: the same scan and settings as a_y.h5: expected one name; gather the two plans one after the other, \
             each right after its integration",
            "frame 11 has different sums in /out/a.h5 and /out/b.h5; remove one of these parts",
            "/out/a.h5: another version of azpipe wrote it, probably a newer one (an unknown layout): use that version, or choose another \
             --out",
            "/out/a.h5: has other axes or weights than /out/b.h5, though their recipe is the same, as another version of \
             azpipe may make them; only the first has frames 3 to 8: run ai-integrate --force on all tasks of the scan and \
             gather again, or remove the one that is wrong",
            "/out/a.h5: can't be merged with /out/b.h5: 10 frames, and 20",
            "/out/a.h5: --average needs the sums of 10 frames, which were removed with the parts; \
             run ai-integrate --keep-sums --force to compute them again",
            "/out/a.h5: the new mean of the monitor needs the sums of 1 frame, which were removed with the parts; \
             run ai-integrate --force to compute them again",
            "/out/a.h5: --keep-sums needs the sums of 10 frames, which parts of cakes hold only on request; \
             run ai-integrate --keep-sums --force",
            "/out/a.h5: damaged: the sums of 1 frame were changed after writing; \
             run ai-integrate to compute them again",
            "/out/a.h5: another run is at work there; remove leftovers when it has ended",
            "stopped",
            "/out/a.h5: reads back differently from what was written; the disk may be faulty",
        ],
    );
}

#[test]
fn export_errors() {
    check(
        [
            ExportError::Final(OutputError::Io { path: path(), why: io_error() }),
            ExportError::NoAverage { path: path() },
            ExportError::NoPattern { path: path() },
            ExportError::Damaged { path: path(), index: 2 },
            ExportError::Cake { path: path(), format: "xye", azimuthal: 360, radial: 1000 },
            ExportError::Axis {
                path: path(),
                axis: "r (mm)".to_owned(),
                wanted_by: "--export fxye".to_owned(),
                expected: "2th or q",
            },
            ExportError::Wavelength {
                path: path(),
                format: "fxye",
                why: "the PONI file has none".to_owned(),
            },
            ExportError::PixelStatistics { path: path(), why: "no statistics".to_owned() },
            ExportError::Map { path: path(), why: "no motor".to_owned() },
            ExportError::IsFinal { path: path() },
            ExportError::Hdf5 { path: path(), why: Hdf5Error::NotFound("entry".to_owned()) },
            ExportError::Io { path: path(), why: io_error() },
        ],
        [
            "/out/a.h5: Permission denied (os error 13)",
            "/out/a.h5: has no average pattern to export; run gather with --average mean",
            "/out/a.h5: no frame has a pattern: there is no average to export",
            "/out/a.h5: damaged: average pattern 2 was changed after writing; run gather again",
            "/out/a.h5: has cakes of 360 x 1000 bins, which --export xye can't hold; use --export nxazint",
            "/out/a.h5: the axis is r (mm); --export fxye expects 2th or q: run plan-split with another --unit",
            "/out/a.h5: --export fxye needs the wavelength: the PONI file has none; \
             add it to the PONI file, or run plan-split with --unit 2th_deg",
            "/out/a.h5: no statistics",
            "/out/a.h5: no motor",
            "/out/a.h5: is the final file of another recipe or scan, which is never overwritten, not even with --overwrite; \
             move it away, or plan one of both with another --recipe-name",
            "/out/a.h5: no object \"entry\" in the file",
            "/out/a.h5: Permission denied (os error 13)",
        ],
    );
}

#[test]
fn statistics_errors() {
    let path = || "/out/.azpipe/pixels/s/00000000-00000009.pixels".into();
    check(
        [
            StatisticsError::Io { path: path(), why: io_error() },
            StatisticsError::Damaged { path: path(), why: "its head was changed".to_owned() },
            StatisticsError::UnsupportedVersion { path: path(), version: 1 },
            StatisticsError::Replaced { path: path() },
            StatisticsError::Outside { scan: "..".to_owned() },
        ],
        [
            "/out/.azpipe/pixels/s/00000000-00000009.pixels: Permission denied (os error 13)",
            "/out/.azpipe/pixels/s/00000000-00000009.pixels: damaged: its head was changed; \
             remove the file and run ai-integrate --pixel-stats again",
            "/out/.azpipe/pixels/s/00000000-00000009.pixels: statistics of version 1, and this azpipe reads version 2; \
             remove the file and run ai-integrate --pixel-stats again, or use the azpipe that wrote it",
            "/out/.azpipe/pixels/s/00000000-00000009.pixels: was replaced while it was read; run gather again",
            "..: the name of the scan leads out of the output directory",
        ],
    );
}

#[test]
fn plot_errors() {
    check(
        [
            PlotError::Final(OutputError::Io { path: path(), why: io_error() }),
            PlotError::Kind { path: "patterns.gif".into() },
            PlotError::Write { path: path(), why: "no font".to_owned() },
            PlotError::Io { path: path(), why: io_error() },
        ],
        [
            "/out/a.h5: Permission denied (os error 13)",
            "patterns.gif: expected a name that ends in .png, .svg or .pdf",
            "/out/a.h5: can't be drawn: no font",
            "/out/a.h5: Permission denied (os error 13)",
        ],
    );
}
