//! The acquisition of a merged final file.

use records::{Acquisition, ScanState};

use super::MergeScope;

/// Returns the acquisition of the merged file of these scans, in which `name` is the detector. It
/// has the least advanced state of all scans, the time from the first start to the last end, and the
/// title, the exposure time and the correction of count rates in which all scans agree; the rest is
/// that of the first scan. Sources and absent frames are left out.
pub(super) fn merged_acquisition(
    scans: &[&Acquisition],
    name: &str,
    scope: MergeScope,
) -> Acquisition {
    let first = scans[0];
    // Of scans of one state, one whose file says that it has ended.
    let least = scans.iter().min_by_key(|scan| {
        let says_nothing = (scan.end_reason.is_none(), scan.end_time.is_none());
        (completion_rank(scan.scan_state()), says_nothing)
    });
    let least = least.unwrap_or(&scans[0]);
    // The state follows from the times: it is that of one scan unless all have begun and ended.
    let (start_time, end_time) =
        common_period(scans).unwrap_or_else(|| (least.start_time.clone(), least.end_time.clone()));
    let mut merged = Acquisition {
        detector: name.to_owned(),
        title: common(scans, |scan| scan.title.clone()),
        start_time,
        end_time,
        end_reason: least.end_reason.clone(),
        complete: scans.iter().all(|scan| scan.complete),
        exposure_time: common(scans, |scan| scan.exposure_time),
        countrate_correction_applied: common(scans, |scan| scan.countrate_correction_applied),
        sources: Vec::new(),
        absent: Vec::new(),
        ..first.clone()
    };
    if scope == MergeScope::Scans {
        // Only the first scan's counters and motor positions would be there.
        merged.dataset.clear();
        merged.counters.clear();
    }
    merged
}

/// Returns the times of the first start and of the last end; `None` if a scan has not both, or if
/// their order is unknown because they are on other clocks.
fn common_period(scans: &[&Acquisition]) -> Option<(Option<String>, Option<String>)> {
    let starts: Vec<&str> = all(scans, |scan| scan.start_time.as_deref())?;
    let ends: Vec<&str> = all(scans, |scan| scan.end_time.as_deref())?;
    let mut clocks = starts.iter().chain(&ends).map(|time| clock(time));
    let first = clocks.next()??;
    // Texts with the same offset are in the order of the times.
    let is_one_clock = clocks.all(|clock| clock == Some(first));
    is_one_clock.then(|| {
        (starts.iter().min().map(|s| s.to_string()), ends.iter().max().map(|s| s.to_string()))
    })
}

/// Returns the offset of the clock of a text such as `2026-03-04T10:00:00+01:00`: `Z`, `+01:00` or
/// nothing; `None` for a text of another form.
fn clock(time: &str) -> Option<&str> {
    let of_day = time.get(10..)?.strip_prefix('T')?;
    Some(of_day.find(['Z', '+', '-']).map_or("", |at| &of_day[at..]))
}

/// Returns a property of each scan, if all have it.
fn all<'a, T>(
    scans: &[&'a Acquisition],
    property: impl Fn(&'a Acquisition) -> Option<T>,
) -> Option<Vec<T>> {
    scans.iter().map(|scan| property(scan)).collect()
}

/// Returns a property in which all scans agree.
fn common<T: PartialEq>(
    scans: &[&Acquisition],
    property: impl Fn(&Acquisition) -> Option<T>,
) -> Option<T> {
    let of_first = property(scans[0]);
    of_first.filter(|of_first| scans.iter().all(|scan| property(scan).as_ref() == Some(of_first)))
}

/// Returns the rank of a scan's state: the greater, the later.
fn completion_rank(state: ScanState) -> u8 {
    match state {
        ScanState::Running => 0,
        ScanState::Aborted => 1,
        ScanState::Unknown => 2,
        ScanState::Ended => 3,
    }
}

#[cfg(test)]
mod tests {
    use records::{Absent, AbsentKind, Spans};

    use super::*;

    fn scan(start: &str, end: Option<&str>, exposure_time: f64) -> Acquisition {
        Acquisition {
            title: Some("ct 1".to_owned()),
            start_time: Some(start.to_owned()),
            end_time: end.map(str::to_owned),
            end_reason: end.map(|_| "SUCCESS".to_owned()),
            complete: end.is_some(),
            exposure_time: Some(exposure_time),
            countrate_correction_applied: Some(true),
            counters: [("mon".to_owned(), "/1.1/measurement/mon".to_owned())].into(),
            ..Acquisition::default()
        }
    }

    #[test]
    fn a_merged_scan_has_what_all_scans_have_in_common() {
        let late = scan("2026-03-04T11:00:00+01:00", Some("2026-03-04T11:05:00+01:00"), 0.1);
        let early = scan("2026-03-04T10:00:00+01:00", Some("2026-03-04T10:05:00+01:00"), 0.1);
        let merged = merged_acquisition(&[&late, &early], "both", MergeScope::Scans);
        assert_eq!((&merged.start_time, &merged.end_time), (&early.start_time, &late.end_time));
        assert_eq!((merged.detector.as_str(), merged.complete), ("both", true));
        assert_eq!(
            (merged.exposure_time, merged.countrate_correction_applied),
            (Some(0.1), Some(true))
        );
        assert_eq!(merged.title, late.title);
        assert!(merged.counters.is_empty());
        let of_detectors = merged_acquisition(&[&late, &early], "both", MergeScope::Detectors);
        assert_eq!(of_detectors.counters, late.counters);
    }

    #[test]
    fn a_property_in_which_scans_differ_is_left_out() {
        let one = scan("2026-03-04T10:00:00", Some("2026-03-04T10:05:00"), 0.1);
        let mut other = scan("2026-03-04T11:00:00", None, 0.2);
        (other.title, other.countrate_correction_applied) = (Some("ct 2".to_owned()), None);
        for scans in [[&one, &other], [&other, &one]] {
            let merged = merged_acquisition(&scans, "both", MergeScope::Scans);
            let Acquisition { title, end_time, end_reason, exposure_time, complete, .. } = merged;
            assert_eq!((title, end_time, end_reason), (None, None, None));
            assert_eq!((exposure_time, complete), (None, false));
            assert_eq!(merged.countrate_correction_applied, None);
            assert_eq!(merged.start_time, other.start_time, "of the scan that runs");
        }
    }

    #[test]
    fn the_state_is_the_least_advanced_one() {
        let ended = scan("2026-03-04T10:00:00", Some("2026-03-04T10:05:00"), 0.1);
        let aborted = Acquisition { end_reason: Some("USER_ABORT".to_owned()), ..ended.clone() };
        let running = scan("2026-03-04T11:00:00", None, 0.1);
        let without_times = Acquisition { start_time: None, complete: true, ..running.clone() };
        let without_end = Acquisition { complete: true, ..running.clone() };
        let partial = Acquisition { complete: false, ..ended.clone() };
        let states = [
            ScanState::Running,
            ScanState::Aborted,
            ScanState::Unknown,
            ScanState::Ended,
            ScanState::Ended,
            ScanState::Ended,
        ];
        let scans = [&running, &aborted, &without_times, &ended, &without_end, &partial];
        assert_eq!(scans.map(Acquisition::scan_state), states);
        for (one, least) in scans.iter().zip(states) {
            for other in &scans {
                let mut merged = merged_acquisition(&[one, other], "both", MergeScope::Scans);
                // Those of the scans are added to it.
                let kind = AbsentKind::Missing;
                let absent = Absent { range: Spans::first_n(1), kind, reason: String::new() };
                merged.absent.extend((!merged.complete).then_some(absent));
                let rank = completion_rank(least).min(completion_rank(other.scan_state()));
                assert_eq!(completion_rank(merged.scan_state()), rank, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn times_of_other_clocks_are_not_compared() {
        let winter = scan("2026-03-04T10:00:00+01:00", Some("2026-03-04T10:05:00+01:00"), 0.1);
        let utc = scan("2026-03-04T09:30:00Z", Some("2026-03-04T09:35:00Z"), 0.1);
        for [one, other] in [[&winter, &utc], [&utc, &winter]] {
            let merged = merged_acquisition(&[one, other], "both", MergeScope::Scans);
            assert_eq!(
                (merged.start_time, merged.end_time),
                (one.start_time.clone(), one.end_time.clone())
            );
        }
    }
}
