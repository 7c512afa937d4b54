//! The wording of messages about scans.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use records::{Absent, AbsentKind, Acquisition, format_count};

use crate::first_frame::FirstFrameError;

/// The largest number of detectors that a message lists.
const MAX_NAMED_DETECTORS: usize = 10;

/// Returns the name of a dataset of a file; of an image, which has no dataset, that of the file.
pub fn display_dataset(file: &dyn Display, dataset: &str) -> String {
    let separator = if dataset.is_empty() { "" } else { "::" };
    format!("{file}{separator}{dataset}")
}

/// Describes why the first frame of a scan can't be read, without the path of the file that `about`
/// names already.
pub fn describe_first_frame_error(about: &str, why: &FirstFrameError) -> String {
    let why = why.to_string();
    let file = about.split_once("::").map_or(about, |(file, _)| file);
    let mut rests = [about, file].into_iter().filter_map(|name| why.strip_prefix(name));
    let rest = rests.find_map(|rest| rest.strip_prefix(": ").or_else(|| rest.strip_prefix("::")));
    let why = rest.unwrap_or(&why);
    format!("can't read the first frame, which identifies a scan without a start time: {why}")
}

/// Describes that the frames of a file, which was a scan of its own, are in a scan of `file` now.
pub fn describe_second_scan(earlier: &str, now: &str, file: &dyn Display) -> String {
    format!(
        "was found before {file}, as scan {earlier}, and is part of scan {now} of that file: remove the results of scan {earlier}"
    )
}

/// Describes files whose last change was so many seconds, at the least, before a scan with this id began.
pub fn describe_older_files(first: &Path, files: usize, seconds: u64, id: &str) -> String {
    let first = first.file_name().unwrap_or_default().display();
    let more = match files {
        1 => String::new(),
        _ => format!(" and {}", format_count(files - 1, "other file")),
    };
    let were = if files == 1 { "was" } else { "were" };
    let age = match seconds / 60 {
        minutes @ ..120 => format_count(minutes, "minute"),
        minutes @ ..2880 => format_count(minutes / 60, "hour"),
        minutes => format_count(minutes / 1440, "day"),
    };
    format!(
        "{first}{more} {were} last written {age} before the scan began: unless clocks or time zones differ, an earlier scan \
         of this name left what is not of this one; move that to another directory, remove this scan's final and \
         .azpipe/parts/{id} of the output directory, if they are there, and run the same commands again"
    )
}

/// Says that `--null` changes nothing without a list of paths.
pub fn null_without_list() -> &'static str {
    "--null: no effect, because no list is read from stdin: expected no PATH, or -"
}

/// Describes that the first image of a scan is another one now, and the scan with it.
pub fn describe_replaced_scan(earlier: &str, now: &str) -> String {
    format!("was the first image of scan {earlier} before, and is another one now, of scan {now}")
}

/// Describes a series of images whose numbers are not taken for those of frames.
pub fn describe_scattered_numbers(files: usize, [first, last]: [u64; 2]) -> String {
    format!(
        "{} with numbers from {first} to {last}: taken one after the other, as if none were missing between them; values by \
         frame, such as those of --monitor FILE::/PATH, are in the order of the files",
        format_count(files, "image")
    )
}

pub fn describe_skipped(scans: usize) -> String {
    format!("{} left out, as --incomplete skip asks", format_count(scans, "incomplete scan"))
}

/// Describes the detectors of the scans, for when the options, such as `--detector`, exclude all of
/// them.
pub fn describe_unwanted(options: &[&str], unwanted: &BTreeSet<String>) -> String {
    let some: Vec<&str> = unwanted.iter().take(MAX_NAMED_DETECTORS).map(String::as_str).collect();
    let more = if unwanted.len() > MAX_NAMED_DETECTORS { ", …" } else { "" };
    format!(
        "no scan matches {}; the detectors are {}{more}",
        options.join(" and "),
        some.join(", ")
    )
}

/// Returns the reasons why parts of a scan could not be read, each with whether another attempt may
/// succeed: yes for errors of the system, no for damaged data. Missing frames are not among them,
/// because they are known to be missing.
pub fn read_failures(acquisition: &Acquisition) -> Vec<(String, bool)> {
    let failure = |(kind, retryable): (AbsentKind, bool)| {
        let of_kind = || acquisition.absent.iter().filter(|absent| absent.kind == kind);
        let frames: u64 = of_kind().map(|absent| absent.range.count()).sum();
        let more = if of_kind().count() > 1 { ", and other reasons" } else { "" };
        let why = format!(
            "{frames} of {}: {}{more}",
            format_count(acquisition.frames, "frame"),
            of_kind().next()?.reason
        );
        Some((why, retryable))
    };
    [(AbsentKind::Unreadable, true), (AbsentKind::Corrupt, false)]
        .into_iter()
        .filter_map(failure)
        .collect()
}

/// Summarizes the absent frames of a scan.
pub fn absent_summary(acquisition: &Acquisition) -> Option<String> {
    let is_failure =
        |absent: &&Absent| matches!(absent.kind, AbsentKind::Unreadable | AbsentKind::Corrupt);
    let lost: Vec<&Absent> =
        acquisition.absent.iter().filter(|absent| !is_failure(absent)).collect();
    let frames: u64 = lost.iter().map(|absent| absent.range.count()).sum();
    let more = if lost.len() > 1 { ", and other reasons" } else { "" };
    let absent = lost.first().map(|first| {
        format!(
            "{frames} of {} absent: {}{more}",
            format_count(acquisition.frames, "frame"),
            first.reason
        )
    });
    match (absent, acquisition.planned_frames) {
        (absent, None) => absent,
        (None, Some(planned)) => Some(format!(
            "{} of {planned} that were planned (nimages x ntrigger): the scan is running, was ended early, or lacks data files",
            format_count(acquisition.frames, "frame")
        )),
        (Some(absent), Some(planned)) => {
            Some(format!("{absent}; {planned} were planned (nimages x ntrigger)"))
        }
    }
}
