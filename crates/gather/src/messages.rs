//! The messages of gather. The test in `message_tests.rs` lists them all, so that their wording
//! can be compared. Errors of reading and writing files come from crate `patterns`.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use patterns::export::{
    Calibration, Drift, DriftDoubt, ExportError, LineUse, MapRequest, MarkedPixels,
    OutdatedSubtraction, Standard,
};
use patterns::output::{BuildOutcome, Leftover, OutdatedMerge, OutputError, Replaced};
use records::{Absent, Spans, format_count, format_ranges};

/// The largest number of frame ranges that a message lists.
pub const MAX_RANGES: usize = 8;

/// The largest number of plots that a message lists.
const MAX_PLOTS: usize = 3;

/// Warns that frames of a final file have no pattern, and says why.
pub fn frames_without_pattern(path: &Path, absent: &Absent) -> String {
    let count = format_count(absent.range.count(), "frame");
    let frames = format_ranges(&absent.range, MAX_RANGES);
    format!("{}: {count} ({frames}) without a pattern: {}", path.display(), absent.reason)
}

/// Notes that a final file was written, or that it needed no change.
pub fn final_written(path: &Path, outcome: &BuildOutcome) -> String {
    let path = path.display();
    if outcome.was_unchanged {
        return format!("{path}: up to date, not written again");
    }
    format!("{path}: written, {} with a pattern", format_count(outcome.integrated.count(), "frame"))
}

/// Says that there is no final file.
pub fn final_not_written(path: &Path) -> String {
    format!("{}: not written, because no frame has a pattern", path.display())
}

/// Notes that `--complete-only` skips a scan.
pub fn scan_skipped(path: &Path) -> String {
    format!("{}: not written: the scan is running, or frames wait to be integrated", path.display())
}

/// Notes that a summary would repeat the last one.
pub fn unchanged(path: &Path) -> String {
    format!("{}: unchanged since its last summary", path.display())
}

/// Says why nothing goes on.
pub fn waits_for_other_gather(lock: &Path) -> String {
    format!(
        "waiting for another gather of the same scan, which holds {}: it is at work on this machine or another one, or stopped",
        lock.display()
    )
}

/// Says that `--compression` changes nothing in a virtual file.
pub fn compression_of_virtual_files() -> &'static str {
    "--compression: no effect on virtual files (--layout virtual), which show the parts as they are: give it to ai-integrate"
}

/// Warns that the report lacks the plot of a final file.
pub fn no_plot_in_report(report: &Path, why: &dyn Display) -> String {
    format!(
        "{}: the report lacks the plot of a final file that can't be read: {why}",
        report.display()
    )
}

/// Warns that the picture of all scans lacks one whose radial axis has another quantity or unit.
pub fn scan_not_in_plot(plot: &Path, final_file: &Path) -> String {
    let (plot, final_file) = (plot.display(), final_file.display());
    format!(
        "{plot}: {final_file} is not in it: its radial axis has another unit than those of the scans before it"
    )
}

/// Explains what `--map` expects.
pub fn map_axes() -> &'static str {
    "expected two motors or counters, the fast one first, as in sampy,sampz"
}

/// Explains what `--map-range` and `--calibration-range` expect.
pub fn range() -> &'static str {
    "expected two numbers, the lower one first, as in 10.5,12"
}

/// Warns that frames lie on no grid.
pub fn no_grid(map: &Path, request: &MapRequest) -> String {
    format!(
        "{}: the positions of {} and {} are on no grid with one frame in each cell; the map is a list of frames",
        map.display(),
        request.fast,
        request.slow
    )
}

/// Warns that frames are not in a map.
pub fn frames_without_position(map: &Path, frames: &Spans) -> String {
    let count = format_count(frames.count(), "frame");
    let frames = format_ranges(frames, MAX_RANGES);
    format!("{}: {count} ({frames}) without a position are not in the map", map.display())
}

/// Warns that the images of pixel statistics are of fewer frames than have patterns.
pub fn frames_without_statistics(images: &Path, of_frames: u64, lacking: &Spans) -> String {
    format!(
        "{}: statistics of {} only, without {} ({}), which have patterns: run ai-integrate --pixel-stats again with the same \
         tasks, if their raw data is still there, and then gather",
        images.display(),
        format_count(of_frames, "frame"),
        format_count(lacking.count(), "frame"),
        format_ranges(lacking, MAX_RANGES)
    )
}

/// Notes which pixels a suggested mask marks, and where it is.
pub fn suggested_mask(images: &Path, marked: &MarkedPixels) -> String {
    let MarkedPixels { dead, hot, saturated, .. } = marked;
    format!(
        "{}::/entry/suggested_mask/suggested_mask: a mask of {}: {dead} dead, {hot} hot, {saturated} saturated",
        images.display(),
        format_count(marked.all as u64, "pixel")
    )
}

/// Warns that a suggested mask is probably wrong.
pub fn many_pixels_marked(images: &Path) -> String {
    format!(
        "{}: the suggested mask marks more than 1 % of the pixels; look at the images before you use it",
        images.display()
    )
}

/// Notes the displacement in the average of a scan's frames, and the lines that are left out.
pub fn drift_measured(written: &Path, drift: &Drift) -> String {
    let values = drift.average_in_micrometres();
    let values = values.map(|(name, value, error)| format!("{name} {value:+.1} +- {error:.1} um"));
    let values = values.collect::<Vec<_>>().join(", ");
    let unseen = if drift.has_beam { "" } else { " (the beam is not seen without azimuth)" };
    let left_out = match drift.describe_left_out() {
        none if none.is_empty() => none,
        left_out => format!(", without {left_out}"),
    };
    format!(
        "{}: by {} from {} of {}{left_out}: {values}{unseen}",
        written.display(),
        drift.calibrant,
        drift.count(LineUse::Used),
        format_count(drift.lines.len() as u64, "line")
    )
}

/// Warns that too few lines were fitted in some frames.
pub fn frames_without_drift(written: &Path, frames: &Spans) -> String {
    let (count, ranges) =
        (format_count(frames.count(), "frame"), format_ranges(frames, MAX_RANGES));
    format!("{}: {count} ({ranges}) with too few lines to fit: no displacement", written.display())
}

/// Warns that the lines of a scan may not be those of the calibrant.
pub fn doubtful_drift(written: &Path, drift: &Drift, doubt: DriftDoubt) -> String {
    let doubt = match doubt {
        DriftDoubt::FewLines { used, sought } => {
            format!("only {used} of {} in range agree", format_count(sought, "line"))
        }
        DriftDoubt::Outliers { outliers, fitted } => {
            format!("{outliers} of {} are outliers", format_count(fitted, "position"))
        }
        DriftDoubt::Scatter(widths) => format!(
            "they are {:.1} % of their width from where the displacement has them, which the errors of the intensities do \
             not explain (chi2 {:.1})",
            100.0 * widths,
            drift.average.chi2
        ),
        DriftDoubt::Distance(part) => format!(
            "the distance differs by {:.1} %, which is as far as lines are looked for",
            100.0 * part
        ),
    };
    let beam = if drift.has_beam {
        ""
    } else {
        ", and integrate cakes (--npt-azim 36) if the beam may have moved"
    };
    format!(
        "{}: the lines may not be those of {}: {doubt}; check the calibrant, the PONI file and its wavelength{beam}",
        written.display(),
        drift.calibrant
    )
}

/// Warns that frames have no factor of the background or no transmission. `counters` are the flags
/// with the values that are usable.
pub fn frames_without_terms(written: &Path, frames: &Spans, counters: &str) -> String {
    let count = format_count(frames.count(), "frame");
    let frames = format_ranges(frames, MAX_RANGES);
    format!("{}: {count} ({frames}) without a value of {counters}: they are NaN", written.display())
}

/// Warns that the background has other counters than its scan has now.
pub fn outdated_background(path: &Path) -> String {
    format!(
        "{}: counters or motors of its scan were written or corrected since: the background is of the old ones; gather its \
         scan again (and merge it again, if it was merged), and then the others",
        path.display()
    )
}

/// Warns that frames of the background have no pattern.
pub fn background_frames_without_pattern(path: &Path, frames: &Spans) -> String {
    let count = format_count(frames.count(), "frame");
    let frames = format_ranges(frames, MAX_RANGES);
    format!(
        "{}: {count} ({frames}) without a pattern: not part of the background; `frame_status` there says why",
        path.display()
    )
}

/// Warns that frames of the background have no factor or no transmission. `counters` are as above.
pub fn background_frames_without_terms(path: &Path, frames: &Spans, counters: &str) -> String {
    let count = format_count(frames.count(), "frame");
    let frames = format_ranges(frames, MAX_RANGES);
    format!(
        "{}: {count} ({frames}) without a value of {counters}: they are not part of the background",
        path.display()
    )
}

/// Warns that counters give the transmission of patterns that are not divided by the flux.
pub fn transmission_without_monitor(path: &Path) -> String {
    format!(
        "{}: is divided by no monitor, while --transmission names counters: the flux must have been the same in all scans",
        path.display()
    )
}

/// Refuses a further scan as the standard.
pub fn second_standard(first: &Path) -> String {
    format!(
        "not calibrated, and its file of absolute patterns is kept: {} is the standard of this detector; \
         --calibrate expects the scans of the standard only",
        first.display()
    )
}

/// Warns that a pattern has another shape than the standard.
pub fn poor_calibration(path: &Path, standard: &Standard, chi2: f64) -> String {
    format!(
        "{}: its pattern has another shape than {standard}: chi2 {chi2:.3}; expected about 1: check the scan, the \
         background and --calibration-range",
        path.display()
    )
}

/// Warns that nothing was there to subtract the background from.
pub fn nothing_subtracted(background: &Path) -> String {
    format!(
        "{}: no scan but the background was gathered, from which nothing is subtracted: expected the results of a sample",
        background.display()
    )
}

/// Warns that no factor was measured.
pub fn nothing_calibrated(background: &Path) -> String {
    format!(
        "{}: no scan but the background was gathered, which is not calibrated: expected the results of a standard",
        background.display()
    )
}

/// Warns of exports of reduced patterns that were not written with these.
pub fn exports_of_other_reductions(written: &Path, exports: &[PathBuf]) -> String {
    let names: Vec<String> = exports.iter().map(|path| path.display().to_string()).collect();
    format!(
        "{}: exports from an earlier run may have another background, transmission or factor: {}; write them again with \
         --export, or remove them",
        written.display(),
        names.join(", ")
    )
}

/// Notes a calibration factor that was measured.
pub fn calibrated(path: &Path, standard: &Standard, calibration: &Calibration) -> String {
    let Calibration { factor, chi2, bins, range: [low, high], .. } = calibration;
    let error = factor.error.unwrap_or_default();
    let chi2 = chi2.map(|chi2| format!(", chi2 {chi2:.3}")).unwrap_or_default();
    format!(
        "{}: calibration factor {:.6e} +- {error:.1e} from {standard}: {bins} bins from {low:.4} to {high:.4}{chi2}",
        path.display(),
        factor.value
    )
}

/// Refuses a transmission without patterns that it would be applied to.
pub fn transmission_alone() -> &'static str {
    "expected --subtract or --thickness, too: they write the patterns that are divided by it"
}

/// Refuses the transmission of a background that is not subtracted.
pub fn transmission_of_no_background() -> &'static str {
    "the second value is that of a background: expected --subtract, too, or one value only"
}

/// Refuses a transmission of the sample where that of the background is needed.
pub fn transmission_of_sample_only() -> &'static str {
    "expected two numbers, of sample and background, as in 0.62,0.95; the second is 1 if the first is relative to the \
     background"
}

/// Refuses a transmission in two flags.
pub fn two_transmissions() -> &'static str {
    "the background is scaled by the transmissions of both scans: expected a number, or nothing, as --subtract-scale"
}

/// Refuses counters that scale only the background of patterns in absolute units.
pub fn counters_of_background_only() -> &'static str {
    "--subtract-scale names counters, which scale the background only: of patterns in absolute units, expected \
     --transmission, which divides the sample, too"
}

/// Warns that a background was subtracted whose final file was then written again.
pub fn background_changed(path: &Path) -> String {
    format!(
        "{}: the background was written again in this run, after it was subtracted: run gather --subtract again",
        path.display()
    )
}

/// Warns of exports that were made from what the final file held before.
pub fn outdated_exports(final_file: &Path, exports: &[PathBuf], replaced: Replaced) -> String {
    let (what, flags) = match replaced {
        Replaced::Counters => ("counters", "--map, --subtract or --thickness"),
        _ => ("data", "--export, --map, --drift, --subtract, --thickness or --pixel-images"),
    };
    let names: Vec<String> = exports.iter().map(|path| path.display().to_string()).collect();
    format!(
        "{}: its {what} changed; exports of the earlier {what}: {}; write them again with {flags}, or remove them",
        final_file.display(),
        names.join(", ")
    )
}

/// Warns of a picture that an earlier run drew under the name of `--plot`, which those of this run,
/// with several final files, do not have.
pub fn earlier_plot(picture: &Path, plots: &[&Path]) -> String {
    let mut names: Vec<String> =
        plots.iter().take(MAX_PLOTS).map(|path| path.display().to_string()).collect();
    if plots.len() > MAX_PLOTS {
        names.push(format!("{} more", plots.len().saturating_sub(MAX_PLOTS)));
    }
    format!(
        "{}: is a picture from before this run, of other data; those of this run are {}; remove it if you don't need it",
        picture.display(),
        names.join(", ")
    )
}

/// Warns of a merged final file that was made from what its members held before.
pub fn outdated_merge(merge: &OutdatedMerge) -> String {
    let names: Vec<String> = merge.changed.iter().map(|path| path.display().to_string()).collect();
    let what = if merge.what == Replaced::Counters { "counters" } else { "data" };
    format!(
        "{}: was merged from earlier {what} of {}; merge all its members again, with the same --merge or --merge-all, or \
         remove it",
        merge.path.display(),
        names.join(", ")
    )
}

/// Warns of a file from which was subtracted what a background's final file held before.
pub fn outdated_subtraction(subtraction: &OutdatedSubtraction) -> String {
    let OutdatedSubtraction { path, background, changed, exports } = subtraction;
    let (path, background) = (path.display(), background.display());
    let what = match changed {
        Replaced::Counters => format!("the background {background} was scaled by earlier counters"),
        _ => format!("earlier data of the background {background} were subtracted"),
    };
    if exports.is_empty() {
        return format!("{path}: {what}; write it again with --subtract, or remove it");
    }
    let exports: Vec<String> = exports.iter().map(|path| path.display().to_string()).collect();
    format!(
        "{path}: {what}; write it again with --subtract, and its exports with --export, or remove them: {}",
        exports.join(", ")
    )
}

/// Warns of subtracted patterns that can't be read.
pub fn subtraction_not_examined(why: &ExportError) -> String {
    format!("{why}; can't tell whether the present data of its background were subtracted")
}

/// Warns of a merged final file that can't be read.
pub fn merge_not_examined(why: &OutputError) -> String {
    format!("{why}; can't tell whether this merged final file was made from the present data")
}

/// Describes an output root that does not exist.
pub fn no_output_root() -> &'static str {
    "no such directory: expected the directory that plan-split --out named"
}

/// Describes a plan without tasks, all of which are done, as of any plan that could not be made.
pub fn no_tasks() -> &'static str {
    "holds no tasks: expected those that plan-split wrote"
}

/// Describes an output root of results that is not there.
pub fn removed_output_root() -> &'static str {
    "no such directory, though plan-split and ai-integrate wrote there: bring it back, or gather its new place by --from instead of results"
}

/// Describes an output root without parts and finals.
pub fn nothing_to_gather() -> &'static str {
    "holds no results: expected the directory that plan-split --out named, after ai-integrate has run"
}

/// Describes a report whose name has no extension of a web page.
pub fn report_name(path: &Path) -> String {
    format!("{}: expected a name that ends in .html", path.display())
}

/// Describes a file that is to be written, and that is an operand, the plan, the background, the calibrant, stdin or
/// stdout.
pub fn holds_records() -> &'static str {
    "holds records, the background, the standard or the calibrant of this run, which are never overwritten: choose another name"
}

/// Describes a file that two flags are to write.
pub fn is_other_output(flag: &str) -> String {
    format!("is the file of {flag}, too: choose another name")
}

/// Describes a name for `--merge` that can't be part of a file name.
pub fn merge_name() -> &'static str {
    "expected part of a file name, without `/`, that does not begin with a dot"
}

/// Notes that `--clean` removed a leftover, or with `dry_run`, that it would.
pub fn leftover_removed(leftover: &Leftover, dry_run: bool) -> String {
    let Leftover { path, why, bytes, .. } = leftover;
    format!("{} {}: {}: {why}", removed(dry_run), path.display(), format_count(*bytes, "byte"))
}

/// Notes how much `--clean` removed, or with `dry_run`, would remove.
pub fn leftovers_removed(root: &Path, files: usize, bytes: u64, dry_run: bool) -> String {
    let (files, bytes) = (format_count(files, "file"), format_count(bytes, "byte"));
    format!("{}: {} {files}, {bytes}", root.display(), removed(dry_run))
}

/// Warns that `--clean` keeps a file.
pub fn leftover_kept(kept: &str) -> String {
    format!("not removed: {kept}")
}

fn removed(dry_run: bool) -> &'static str {
    if dry_run { "would remove" } else { "removed" }
}
