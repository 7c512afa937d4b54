//! A test that lists the messages of the crate in one place, so that their wording can be compared.
//! Messages about a file that can't be used are in the crate `frames`.

use std::collections::BTreeSet;
use std::io;

use clap::CommandFactory as _;
use records::{Absent, AbsentKind, Acquisition, Span};

use crate::args::Args;
use crate::first_frame::FirstFrameError;
use crate::glob::expand_glob;
use crate::messages::{
    absent_summary, describe_first_frame_error, describe_older_files, describe_skipped,
    describe_unwanted, read_failures,
};

#[test]
fn what_is_left_out_and_why() {
    let absent = |range, kind, reason: &str| Absent {
        range: Span::into(range),
        kind,
        reason: reason.to_owned(),
    };
    let scan = |absent| Acquisition { frames: 12, absent, ..Acquisition::default() };
    let lost = scan(vec![
        absent(Span::new(0, 1), AbsentKind::NotWritten, "not written"),
        absent(Span::new(6, 12), AbsentKind::Missing, "file missing: p3_0001.h5"),
    ]);
    let unread = scan(vec![absent(
        Span::new(0, 3),
        AbsentKind::Unreadable,
        "file unreadable: p3_0000.h5: Input/output error",
    )]);
    let one = Acquisition {
        frames: 1,
        ..scan(vec![absent(Span::new(0, 1), AbsentKind::NotWritten, "not written")])
    };
    let planned = Acquisition { planned_frames: Some(20), ..scan(Vec::new()) };
    let why =
        FirstFrameError::Bytes { file: "/a.npy".into(), why: io::Error::from_raw_os_error(5) };
    let unwanted =
        |count: usize| (0..count).map(|entry| format!("p3 in {entry}.1")).collect::<BTreeSet<_>>();
    let messages = [
        absent_summary(&lost).expect("absent frames"),
        absent_summary(&one).expect("an absent frame"),
        absent_summary(&planned).expect("fewer frames than planned"),
        absent_summary(&Acquisition { absent: one.absent.clone(), ..planned.clone() })
            .expect("an absent frame"),
        read_failures(&unread).remove(0).0,
        describe_first_frame_error("/a.npy", &why),
        describe_first_frame_error("/a.npy::/1.1/p3", &why),
        describe_first_frame_error("/master.h5::/1.1/p3", &why),
        describe_older_files("/raw/p3_0001.h5".as_ref(), 1, 119, "5ca1ab1e"),
        describe_older_files("/raw/p3_0001.h5".as_ref(), 3, 7200, "5ca1ab1e"),
        describe_older_files("/raw/p3_0001.h5".as_ref(), 2, 200_000, "5ca1ab1e"),
        describe_skipped(1),
        describe_skipped(2),
        describe_unwanted(&["--detector"], &unwanted(2)),
        describe_unwanted(&["--entry", "--since"], &unwanted(11)),
        expand_glob("/tmp/[".as_ref()).expect_err("no glob").to_string(),
    ];
    let expected = [
        "7 of 12 frames absent: not written, and other reasons",
        "1 of 1 frame absent: not written",
        "12 frames of 20 that were planned (nimages x ntrigger): the scan is running, was ended early, or lacks data files",
        "1 of 12 frames absent: not written; 20 were planned (nimages x ntrigger)",
        "3 of 12 frames: file unreadable: p3_0000.h5: Input/output error",
        "can't read the first frame, which identifies a scan without a start time: Input/output error (os error 5)",
        "can't read the first frame, which identifies a scan without a start time: Input/output error (os error 5)",
        "can't read the first frame, which identifies a scan without a start time: /a.npy: Input/output error (os error 5)",
        "p3_0001.h5 was last written 1 minute before the scan began: unless clocks or time zones differ, an earlier scan of \
         this name left what is not of this one; move that to another directory, remove this scan's final and \
         .azpipe/parts/5ca1ab1e of the output directory, if they are there, and run the same commands again",
        "p3_0001.h5 and 2 other files were last written 2 hours before the scan began: unless clocks or time zones differ, an \
         earlier scan of this name left what is not of this one; move that to another directory, remove this scan's final \
         and .azpipe/parts/5ca1ab1e of the output directory, if they are there, and run the same commands again",
        "p3_0001.h5 and 1 other file were last written 2 days before the scan began: unless clocks or time zones differ, an \
         earlier scan of this name left what is not of this one; move that to another directory, remove this scan's final \
         and .azpipe/parts/5ca1ab1e of the output directory, if they are there, and run the same commands again",
        "1 incomplete scan left out, as --incomplete skip asks",
        "2 incomplete scans left out, as --incomplete skip asks",
        "no scan matches --detector; the detectors are p3 in 0.1, p3 in 1.1",
        "no scan matches --entry and --since; the detectors are p3 in 0.1, p3 in 1.1, p3 in 10.1, \
         p3 in 2.1, p3 in 3.1, p3 in 4.1, p3 in 5.1, p3 in 6.1, p3 in 7.1, p3 in 8.1, …",
        "unclosed character class; missing ']': expected a glob such as `*_0001.h5`",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn why_a_value_of_an_option_is_refused() {
    let refusals = [
        (
            "--since=yesterday",
            "expected a time such as 2026-03-04, 2026-03-04T10:20, 2026-03-04T10:20:30+01:00, 90m, 12h or 7d",
        ),
        ("--follow=never", "expected a number of seconds above 0"),
        ("--until-idle=1d", "expected a duration: seconds, 90s, 50m, 12h or HH:MM:SS"),
    ];
    for (argument, expected) in refusals {
        let why = Args::command()
            .try_get_matches_from(["scan-find", argument])
            .expect_err(argument)
            .to_string();
        assert!(why.contains(expected), "{why}");
    }
}
