//! Frames count as done by the content of parts, not by the tasks that they were integrated in.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use patterns::{FrameRow, Status, coverage, part};
use records::{Span, Spans};
use support::*;

#[test]
fn frames_are_done_whatever_the_tasks() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(100, |_| 7));
    write_range(out.path(), &acquisition, &recipe, 0, 30);
    write_range(out.path(), &acquisition, &recipe, 25, 50);
    let ask = |from, to| {
        coverage::find_coverage(
            out.path(),
            &task(&acquisition, &recipe, &Span::new(from, to).into()),
            None,
        )
    };
    assert_eq!(ask(20, 40).covered_frames(), Span::new(20, 40).into());
    assert_eq!(ask(20, 40).parts.len(), 2);
    assert_eq!(ask(40, 70).covered_frames(), Span::new(40, 50).into());
    assert!(ask(60, 70).covered_frames().is_empty());
    assert_eq!(ask(0, 100).covered_frames(), Spans::first_n(50));
}

#[test]
fn another_recipe_or_another_scan_is_not_served() {
    let out = tempfile::tempdir().unwrap();
    let (base, scan) = (recipe(), acquisition(10, |_| 7));
    write_range(out.path(), &scan, &base, 0, 10);
    let finer = recipe::Recipe { npt: 7, ..base.clone() };
    assert!(
        coverage::find_coverage(out.path(), &task(&scan, &finer, &Spans::first_n(10)), None)
            .covered_frames()
            .is_empty()
    );
    let other = records::Acquisition { entry: "2.1".to_owned(), ..scan };
    assert!(
        coverage::find_coverage(out.path(), &task(&other, &base, &Spans::first_n(10)), None)
            .covered_frames()
            .is_empty()
    );
}

#[test]
fn a_touched_source_makes_its_own_frames_stale() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, then) = (recipe(), acquisition(50, |_| 7));
    write_range(out.path(), &then, &recipe, 0, 50);
    let now = acquisition(50, |file| if file == 2 { 8 } else { 7 });
    let coverage =
        coverage::find_coverage(out.path(), &task(&now, &recipe, &Spans::first_n(50)), None);
    assert_eq!(coverage.covered_frames(), Spans::first_n(50).difference(&Span::new(20, 30).into()));
}

#[test]
fn a_part_whose_first_line_names_impossible_frames_is_damaged() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(10, |_| 7));
    let task = task(&acquisition, &recipe, &Spans::first_n(10));
    let path = write_part(out.path(), &task, &recipe, (0..10).map(row));
    let sound = std::fs::read(&path).unwrap();
    for (first, last, count) in
        [(6, 3, 1), (0, 8, 10), (0, 9, 0), (4, u64::MAX, u64::MAX), (u64::MAX, 0, 2)]
    {
        let line = String::from_utf8(sound[..512].to_vec()).unwrap();
        let line = line.trim_end().replace(
            "\"first\":0,\"last\":9,\"count\":10",
            &format!("\"first\":{first},\"last\":{last},\"count\":{count}"),
        );
        let block = format!("{line}\n{:width$}\n", "", width = 510 - line.len());
        std::fs::write(&path, [block.as_bytes(), &sound[512..]].concat()).unwrap();
        let coverage = coverage::find_coverage(out.path(), &task, None);
        assert!(coverage.covered_frames().is_empty(), "{first} to {last}");
        let expected = format!("damaged: {count} frames from {first} to {last} are impossible");
        assert!(coverage.unusable[0].to_string().contains(&expected), "{:?}", coverage.unusable);
    }
}

#[test]
fn lost_frames_are_tried_again() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(10, |_| 7));
    let task = task(&acquisition, &recipe, &Spans::first_n(10));
    let rows = (0..10).zip(Status::ALL).map(|(frame, status)| match status {
        Status::Ok | Status::Monitor | Status::MonitorPending => FrameRow { status, ..row(frame) },
        lost => FrameRow::without_sums(frame, lost, 1.0),
    });
    write_part(out.path(), &task, &recipe, rows);
    let done: Vec<u64> =
        coverage::find_coverage(out.path(), &task, None).covered_frames().iter().collect();
    assert_eq!(
        done,
        [Status::Ok, Status::Absent, Status::Monitor, Status::NeverTaken]
            .map(|status| status as u64)
    );
}

#[test]
fn frames_that_are_done_without_a_pattern_are_listed_by_parts_and_final() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(30, |_| 7));
    let write = |range: Span, without: u64, status: Status| {
        let task = task(&acquisition, &recipe, &range.into());
        let rows = range.iter().map(|frame| {
            if frame == without { FrameRow { status, ..row(frame) } } else { row(frame) }
        });
        write_part(out.path(), &task, &recipe, rows)
    };
    write(Span::new(0, 10), 3, Status::Monitor);
    let ask = |from, to| {
        coverage::find_coverage(
            out.path(),
            &task(&acquisition, &recipe, &Span::new(from, to).into()),
            None,
        )
    };
    let frame_3 =
        std::collections::BTreeMap::from([(Status::Monitor, Spans::from(Span::new(3, 4)))]);
    assert_eq!(
        (ask(0, 10).covered_frames(), ask(0, 10).without_pattern()),
        (Spans::first_n(10), frame_3.clone())
    );
    assert!(ask(4, 10).without_pattern().is_empty());
    write(Span::new(3, 5), 9, Status::Ok);
    assert!(ask(0, 10).without_pattern().is_empty(), "another part has its pattern");
    write(Span::new(10, 20), 13, Status::Monitor);
    write(Span::new(20, 30), 99, Status::Ok);
    let frame_13 =
        std::collections::BTreeMap::from([(Status::Monitor, Spans::from(Span::new(13, 14)))]);
    assert_eq!(ask(0, 30).without_pattern(), frame_13);
    build(out.path(), &acquisition, &recipe, patterns::output::OutputOptions::default());
    assert_eq!((ask(0, 30).parts.len(), ask(0, 30).without_pattern()), (0, frame_13));
}

#[test]
fn a_damaged_part_covers_nothing_and_says_so() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(20, |_| 7));
    let damaged = write_range(out.path(), &acquisition, &recipe, 0, 10);
    write_range(out.path(), &acquisition, &recipe, 10, 20);
    flip(&damaged, 3000);
    let coverage = coverage::find_coverage(
        out.path(),
        &task(&acquisition, &recipe, &Spans::first_n(20)),
        None,
    );
    assert_eq!(coverage.covered_frames(), Span::new(10, 20).into());
    assert!(coverage.unusable[0].to_string().contains(damaged.to_str().unwrap()));
    assert!(!coverage.unusable[0].is_io_failure);
}

#[test]
fn a_part_that_could_not_be_listed_is_reported_whatever_was_asked_first() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(10, |_| 7));
    let part = write_range(out.path(), &acquisition, &recipe, 0, 10);
    // Its frames are not in its name, and its first line is damaged.
    let unlisted = part.with_file_name("copy.h5");
    std::fs::rename(&part, &unlisted).unwrap();
    flip(&unlisted, 3);
    let (index, task) =
        (coverage::CoverageIndex::default(), task(&acquisition, &recipe, &Spans::first_n(10)));
    index.check_owner(out.path(), &task).unwrap();
    let unusable = index.find_coverage(out.path(), &task, None).unusable;
    assert!(
        unusable.len() == 1 && unusable[0].to_string().contains(unlisted.to_str().unwrap()),
        "{unusable:?}"
    );
    assert!(
        index.find_coverage(out.path(), &task, None).unusable.is_empty(),
        "a run reports it once"
    );
}

#[test]
fn a_run_lists_parts_once_and_reads_those_that_it_asks_for_alone() {
    /// Returns how many read calls this thread has made.
    fn reads() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
    }
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(300, |_| 7));
    for frame in 0..300 {
        write_range(out.path(), &acquisition, &recipe, frame, frame + 1);
    }
    let index = coverage::CoverageIndex::default();
    let before = reads();
    for frame in 0..300 {
        let task = task(&acquisition, &recipe, &Span::new(frame, frame + 1).into());
        assert_eq!(index.find_coverage(out.path(), &task, None).covered_frames(), task.range);
    }
    // The first line, the rest, and the end of each.
    assert!(reads() - before <= 4 * 300, "{} reads", reads() - before);
}

#[test]
fn a_run_finds_its_own_parts_and_the_part_of_a_task_by_others() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(100, |_| 7));
    let index = coverage::CoverageIndex::default();
    let ask = |from, to| {
        index
            .find_coverage(
                out.path(),
                &task(&acquisition, &recipe, &Span::new(from, to).into()),
                None,
            )
            .covered_frames()
    };
    assert!(ask(0, 10).is_empty());
    index.add(&write_range(out.path(), &acquisition, &recipe, 0, 7));
    assert_eq!(ask(5, 10), Span::new(5, 7).into());
    let other = write_range(out.path(), &acquisition, &recipe, 20, 30);
    assert_eq!(ask(20, 30), Span::new(20, 30).into());
    std::fs::remove_file(other).unwrap();
    assert!(ask(20, 30).is_empty());
}

#[test]
fn a_run_sees_the_final_that_takes_the_place_of_parts_and_the_next_one() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(40, |_| 7));
    let index = coverage::CoverageIndex::default();
    let ask = |from, to| {
        index
            .find_coverage(
                out.path(),
                &task(&acquisition, &recipe, &Span::new(from, to).into()),
                None,
            )
            .covered_frames()
    };
    for (from, to) in [(0, 20), (20, 40)] {
        write_range(out.path(), &acquisition, &recipe, from, to);
        assert_eq!(ask(from, to), Span::new(from, to).into());
        build(out.path(), &acquisition, &recipe, patterns::output::OutputOptions::default());
        assert_eq!(ask(from, to), Span::new(from, to).into());
        assert_eq!(ask(0, 40), Spans::first_n(to));
    }
    assert_eq!(
        part::list_parts(out.path(), &acquisition.compute_id(), &recipe.digest()).unwrap(),
        [] as [std::path::PathBuf; 0]
    );
}

#[test]
fn parts_that_interleave_or_bear_other_names_are_found_by_their_first_lines() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(40, |_| 7));
    for start in 0..2 {
        let task = task(&acquisition, &recipe, &Span::strided(start, 20, 2).into());
        write_part(out.path(), &task, &recipe, task.range.iter().map(row));
    }
    let moved = write_range(out.path(), &acquisition, &recipe, 30, 35);
    std::fs::rename(&moved, moved.with_file_name("copy of a part.h5")).unwrap();
    let index = coverage::CoverageIndex::default();
    let find =
        |spans: Spans| index.find_coverage(out.path(), &task(&acquisition, &recipe, &spans), None);
    assert_eq!(
        find(Span::strided(0, 20, 2).into()).covered_frames(),
        Span::strided(0, 20, 2).into()
    );
    assert_eq!(find(Spans::first_n(40)).covered_frames(), Spans::first_n(40));
    assert_eq!(find(Span::new(30, 35).into()).parts.len(), 3);
}

#[test]
fn a_digest_of_sources_does_not_hide_a_touched_file_or_a_damaged_part() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, then) = (recipe(), acquisition(20, |_| 7));
    let paths = [
        write_range(out.path(), &then, &recipe, 0, 10),
        write_range(out.path(), &then, &recipe, 10, 20),
    ];
    let now = acquisition(20, |file| 7 + file as i64);
    let ask = |from, to| {
        coverage::find_coverage(out.path(), &task(&now, &recipe, &Span::new(from, to).into()), None)
    };
    assert_eq!(ask(0, 10).covered_frames(), Spans::first_n(10));
    assert!(ask(10, 20).covered_frames().is_empty(), "its file was touched");
    flip(&paths[0], 3000);
    assert!(ask(0, 10).covered_frames().is_empty());
    assert_eq!(ask(0, 10).unusable.len(), 1);
}
