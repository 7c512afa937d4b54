//! The acquisition of a merged final file.

use records::{Acquisition, ScanState};

use super::MergeScope;

/// Returns the acquisition of the merged file of these scans, in which `name` is the detector. It
/// has the earliest state of all scans, the time from the first start to the last end, and of the
/// rest what all scans have in common. Sources and absent frames are left out.
pub(super) fn merged_acquisition(
    scans: &[&Acquisition],
    name: &str,
    scope: MergeScope,
) -> Acquisition {
    let first = scans[0];
    let least = scans.iter().min_by_key(|scan| completion_rank(scan.scan_state()));
    // While one scan runs, the merged one has no end.
    let ends: Option<Vec<_>> = scans.iter().map(|scan| scan.end_time.clone()).collect();
    let mut merged = Acquisition {
        detector: name.to_owned(),
        title: common(scans, |scan| scan.title.clone()),
        start_time: scans.iter().filter_map(|scan| scan.start_time.clone()).min(),
        end_time: ends.and_then(|ends| ends.into_iter().max()),
        end_reason: least.and_then(|scan| scan.end_reason.clone()),
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
            assert_eq!(merged.start_time, one.start_time);
        }
    }
}
