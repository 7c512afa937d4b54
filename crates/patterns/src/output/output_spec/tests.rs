use super::*;
use records::{Acquisition, Source, Span};

/// Returns the task of a range of a running scan of 30 frames, in which the frames from `there`
/// on are absent.
fn task(range: Span, there: u64) -> Task {
    let absent = Absent {
        range: Span::new(there, 30).into(),
        kind: AbsentKind::NeverTaken,
        reason: "not yet".to_owned(),
    };
    let held = Span::new(range.start(), range.stop().min(there));
    let source = Source { frames: held.into(), rows: held.into(), ..Source::default() };
    let acquisition = Acquisition {
        frames: 30,
        start_time: Some("2026-01-02T03:04:05".to_owned()),
        sources: vec![source],
        absent: vec![absent],
        ..Acquisition::default()
    };
    let (scan, recipe_digest, final_file) = ("5c".to_owned(), "00".to_owned(), "f.h5".into());
    Task { range: range.into(), acquisition, scan, recipe_digest, final_file, ..Task::default() }
}

/// Returns the task with the absent frames of its range only.
fn cut(task: Task) -> Task {
    let absent = task.acquisition.absent_within(&task.range);
    Task { acquisition: Acquisition { absent, ..task.acquisition }, ..task }
}

fn absent(target: &OutputSpec) -> Spans {
    target
        .absent()
        .iter()
        .flat_map(|entry| entry.range.as_slice())
        .copied()
        .collect::<Spans>()
        .to_sorted()
}

fn heard(tasks: &[&Task]) -> OutputSpec {
    let mut target = OutputSpec::new(Path::new("/out"), tasks[0]).unwrap();
    tasks[1..].iter().for_each(|task| target.add(task));
    target
}

#[test]
fn frames_that_a_task_is_of_are_absent_no_more_whatever_older_lists_say() {
    let whole =
        [task(Span::new(0, 10), 10), task(Span::new(10, 20), 20), task(Span::new(20, 30), 20)];
    let cut = [
        cut(task(Span::new(0, 30), 10)),
        cut(task(Span::new(10, 20), 20)),
        cut(task(Span::new(20, 30), 20)),
    ];
    for [old, new, last] in [&whole, &cut] {
        for order in [
            [old, new, last, old],
            [new, last, old, new],
            [last, old, old, new],
            [old, last, new, last],
        ] {
            let target = heard(&order);
            assert_eq!(absent(&target), Span::new(20, 30).into());
            assert_eq!(target.absent().len(), 1);
            assert!(
                target.are_all_absent(&Span::new(20, 30).into())
                    && !target.are_all_absent(&Span::new(19, 21).into())
            );
        }
    }
}

#[test]
fn a_vanished_frame_is_absent_again_once_its_task_says_so() {
    let mut gone = task(Span::new(0, 30), 15);
    gone.acquisition.absent[0].kind = AbsentKind::Missing;
    assert_eq!(absent(&heard(&[&task(Span::new(10, 20), 20), &gone])), Span::new(15, 30).into());
}

#[test]
fn each_tasks_own_absent_frames_are_united_in_any_order() {
    let missing = |range: Span, lost: Span, reason: &str| {
        let mut task = cut(task(range, 30));
        let entry =
            Absent { range: lost.into(), kind: AbsentKind::Missing, reason: reason.to_owned() };
        task.acquisition.sources[0].frames = task.range.difference(&entry.range);
        task.acquisition.absent = vec![entry];
        task
    };
    let one = missing(Span::new(0, 10), Span::new(3, 5), "a");
    let two = missing(Span::new(10, 20), Span::new(12, 13), "b");
    let three = missing(Span::new(20, 30), Span::new(20, 22), "a");
    for order in [[&one, &two, &three], [&three, &two, &one], [&two, &three, &one]] {
        let list = heard(&order).absent();
        let of_entry = |entry: &Absent| (entry.range.iter().collect(), entry.reason.clone());
        let list: Vec<(Vec<u64>, String)> = list.iter().map(of_entry).collect();
        assert_eq!(list, [(vec![3, 4, 20, 21], "a".into()), (vec![12], "b".into())]);
    }
}

#[test]
fn frames_that_were_to_come_are_unknown_once_the_scan_is_over() {
    let early = cut(task(Span::new(0, 30), 10));
    let mut end = cut(task(Span::new(20, 30), 25));
    end.acquisition.end_reason = Some("USER_ABORT".to_owned());
    for order in [[&early, &end], [&end, &early]] {
        assert_eq!(
            absent(&heard(&order)),
            Span::new(25, 30).into(),
            "nobody has said what became of 10 to 19"
        );
    }
}

#[test]
fn a_file_that_was_written_again_makes_only_its_own_frames_stale() {
    let of_file = |name: &str, range: Span, lost: &[u64], mtime: i64| {
        let mut task = cut(task(range, 30));
        let lost: Spans = lost.iter().copied().collect();
        let entry =
            Absent { range: lost.clone(), kind: AbsentKind::Corrupt, reason: "damaged".to_owned() };
        let source = &mut task.acquisition.sources[0];
        (source.file, source.mtime, source.frames) =
            (name.into(), mtime, task.range.difference(&lost));
        task.acquisition.absent = vec![entry];
        task
    };
    let a = of_file("/raw/a.h5", Span::new(0, 10), &[1, 2], 5);
    let b = of_file("/raw/b.h5", Span::new(10, 20), &[11], 5);
    let anew = of_file("/raw/a.h5", Span::new(0, 10), &[4], 6);
    for order in [[&a, &b, &anew], [&b, &anew, &a], [&anew, &a, &b], [&a, &anew, &b]] {
        assert_eq!(absent(&heard(&order)).iter().collect::<Vec<_>>(), [4, 11]);
    }
}

#[test]
fn many_tasks_are_united_in_no_time() {
    let tasks: Vec<Task> = (0..100_000)
        .map(|frame| {
            let mut task = task(Span::new(2 * frame, 2 * frame + 2), 0);
            task.acquisition.frames = 200_000;
            task.acquisition.sources[0].frames = Span::new(2 * frame, 2 * frame + 1).into();
            let entry = &mut task.acquisition.absent[0];
            (entry.range, entry.kind) =
                (Span::new(2 * frame + 1, 2 * frame + 2).into(), AbsentKind::Missing);
            entry.reason = format!("file {frame}: not there");
            task
        })
        .collect();
    let target = heard(&tasks.iter().collect::<Vec<_>>());
    let list = target.absent();
    assert_eq!((list.len(), list[7].range.iter().next()), (100_000, Some(15)));
}
