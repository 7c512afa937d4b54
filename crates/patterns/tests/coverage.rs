//! Frames count as done by what parts hold, not by how the work was cut.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod made;

use made::*;
use patterns::{Row, Status, coverage};
use records::{Span, Spans};

#[test]
fn any_cut_of_the_work_serves_any_other() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(100, |_| 7));
    write_range(out.path(), &acquisition, &recipe, 0, 30);
    write_range(out.path(), &acquisition, &recipe, 25, 50);
    let ask = |from, to| coverage::find(out.path(), &task(&acquisition, &recipe, &Span::new(from, to).into()));
    assert_eq!(ask(20, 40).done(), Span::new(20, 40).into());
    assert_eq!(ask(20, 40).parts.len(), 2);
    assert_eq!(ask(40, 70).done(), Span::new(40, 50).into());
    assert!(ask(60, 70).done().is_empty());
    assert_eq!(ask(0, 100).done(), Spans::all(50));
}

#[test]
fn another_recipe_or_another_scan_is_not_served() {
    let out = tempfile::tempdir().unwrap();
    let (base, scan) = (recipe(), acquisition(10, |_| 7));
    write_range(out.path(), &scan, &base, 0, 10);
    let finer = recipe::Recipe { npt: 7, ..base.clone() };
    assert!(coverage::find(out.path(), &task(&scan, &finer, &Spans::all(10))).done().is_empty());
    let other = records::Acquisition { entry: "2.1".to_owned(), ..scan };
    assert!(coverage::find(out.path(), &task(&other, &base, &Spans::all(10))).done().is_empty());
}

#[test]
fn a_touched_source_makes_its_own_frames_stale() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, then) = (recipe(), acquisition(50, |_| 7));
    write_range(out.path(), &then, &recipe, 0, 50);
    let now = acquisition(50, |file| if file == 2 { 8 } else { 7 });
    let coverage = coverage::find(out.path(), &task(&now, &recipe, &Spans::all(50)));
    assert_eq!(coverage.done(), Spans::all(50).minus(&Span::new(20, 30).into()));
}

#[test]
fn what_was_lost_on_the_way_is_tried_again() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(10, |_| 7));
    let task = task(&acquisition, &recipe, &Spans::all(10));
    let rows = (0..10).zip(Status::ALL).map(|(frame, status)| match status {
        Status::Ok | Status::Monitor | Status::MonitorPending => Row { status, ..row(frame) },
        lost => Row::lost(frame, lost, 1.0),
    });
    write_part(out.path(), &task, &recipe, rows);
    let done: Vec<u64> = coverage::find(out.path(), &task).done().iter().collect();
    assert_eq!(done, [Status::Ok, Status::Absent, Status::Monitor, Status::NeverTaken].map(|status| status as u64));
}

#[test]
fn a_damaged_part_covers_nothing_and_says_so() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(20, |_| 7));
    let damaged = write_range(out.path(), &acquisition, &recipe, 0, 10);
    write_range(out.path(), &acquisition, &recipe, 10, 20);
    flip(&damaged, 3000);
    let coverage = coverage::find(out.path(), &task(&acquisition, &recipe, &Spans::all(20)));
    assert_eq!(coverage.done(), Span::new(10, 20).into());
    assert!(coverage.unusable[0].contains(damaged.to_str().unwrap()));
}
