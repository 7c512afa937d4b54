//! Files of pixel statistics, written, read, damaged and chosen.

use std::path::{Path, PathBuf};

use records::{Acquisition, Source, Span, Spans, Task};

use super::{
    FoundStatistics, SourceStates, StatisticsError, StatisticsFile, StatisticsTotal,
    StoredPixelSums, find_for_final, find_for_task, write_statistics,
};

fn task(frames: Spans, mtime: i64) -> Task {
    let source = Source {
        file: "/raw/p3_0000.h5".into(),
        mtime,
        frames: Spans::first_n(100),
        rows: Spans::first_n(100),
        ..Source::default()
    };
    let acquisition = Acquisition {
        file: "/raw/s.h5".into(),
        entry: "1.1".to_owned(),
        detector: "p3".to_owned(),
        frames: 100,
        shape: [300, 301],
        dtype: "u32".to_owned(),
        sources: vec![source],
        ..Acquisition::default()
    };
    Task {
        id: "t".to_owned(),
        scan: "scan".to_owned(),
        range: frames,
        recipe: "/out/.azpipe/recipe-0.toml".into(),
        recipe_digest: "0123456789abcdef".to_owned(),
        out: "/out".into(),
        part: ".azpipe/parts/scan/0/0.h5".into(),
        final_file: "s.h5".into(),
        acquisition,
        ..Task::default()
    }
}

/// Sums as of frames in which pixel `p` has `p` counts.
fn pixel(p: usize, frames: u64) -> StoredPixelSums {
    let (value, count) = (p as i64, frames as i64);
    StoredPixelSums {
        invalid: 0,
        nonzero: if p == 0 { 0 } else { frames as u32 },
        sum: value * count,
        squares: (p * p) as u128 * u128::from(frames) + (1 << 80),
        max: if p == 0 { i64::MIN } else { value },
    }
}

fn write(root: &Path, frames: Spans, mtime: i64) -> PathBuf {
    let count = frames.count();
    let fill = |take: &mut dyn FnMut(StoredPixelSums)| {
        (0..300 * 301).for_each(|p| take(pixel(p, count)));
    };
    write_statistics(root, task(frames, mtime), vec![[-2, -1]], fill).expect("it is written")
}

#[test]
fn what_was_written_is_read() {
    let root = tempfile::tempdir().expect("a directory");
    let path = write(root.path(), Span::new(3, 9).into(), 5);
    let name = path.strip_prefix(root.path().join(".azpipe/pixels/scan")).expect("its place");
    assert!(name.to_string_lossy().starts_with("00000003-00000008-"), "{name:?}");
    let mut file = StatisticsFile::open(&path).expect("it is read");
    assert_eq!(file.metadata.invalid, [[-2, -1]]);
    assert_eq!(file.frames(), &Spans::from(Span::new(3, 9)));
    let mut all = Vec::new();
    while let Some(block) = file.next_block().expect("a block") {
        all.extend(block);
    }
    assert!(all.into_iter().eq((0..300 * 301).map(|p| pixel(p, 6))));
}

#[test]
fn a_changed_byte_anywhere_is_noticed() {
    let root = tempfile::tempdir().expect("a directory");
    let path = write(root.path(), Spans::first_n(4), 5);
    let good = std::fs::read(&path).expect("a file");
    let read = || {
        let mut file = StatisticsFile::open(&path)?;
        while file.next_block()?.is_some() {}
        Ok::<(), StatisticsError>(())
    };
    assert!(read().is_ok());
    for at in (0..good.len()).step_by(good.len() / 60).chain((0..700).step_by(7)) {
        let mut bad = good.clone();
        bad[at] ^= 4;
        std::fs::write(&path, &bad).expect("a file");
        assert!(read().is_err(), "byte {at}");
    }
    for length in [0, 10, 500, good.len() / 2, good.len() - 1] {
        std::fs::write(&path, &good[..length]).expect("a file");
        let why = read().expect_err("it is short").to_string();
        assert!(why.contains("damaged"), "{length}: {why}");
    }
}

#[test]
fn no_frame_is_counted_twice_and_none_of_a_changed_file() {
    let root = tempfile::tempdir().expect("a directory");
    let find_by_rule = |mtime: i64, invalid: &[[i64; 2]]| {
        find_for_task(
            root.path(),
            &task(Spans::first_n(100), mtime),
            invalid,
            &SourceStates::default(),
        )
    };
    let find = |mtime: i64| find_by_rule(mtime, &[[-2, -1]]);
    let frames = |found: &FoundStatistics| -> Vec<Spans> {
        found.files.iter().map(|file| file.frames().clone()).collect()
    };
    assert!(find(5).files.is_empty() && find(5).unusable.is_empty());
    write(root.path(), Span::new(0, 10).into(), 5);
    write(root.path(), Span::new(5, 25).into(), 5);
    write(root.path(), Span::new(30, 32).into(), 5);
    write(root.path(), Span::new(40, 80).into(), 4);
    let found = find(5);
    assert_eq!(frames(&found), [Span::new(5, 25).into(), Span::new(30, 32).into()]);
    // What a rerun adds completes them.
    let rest = Spans::first_n(100).difference(&found.frames());
    write(root.path(), rest, 5);
    let found = find(5);
    assert_eq!(found.frames(), Spans::first_n(100));
    let left = std::fs::read_dir(root.path().join(".azpipe/pixels/scan")).expect("a directory");
    assert_eq!(left.count(), 3, "files whose frames are all in later ones are removed");
    let total = StatisticsTotal::read(found.files).expect("they are read");
    assert!(total.means().iter().enumerate().all(|(p, mean)| *mean == p as f64));
    assert!(total.valid_frames().iter().all(|frames| *frames == 100));
    assert_eq!(total.zeros()[..3], [100, 0, 0]);
    let other = find_by_rule(5, &[]);
    assert!(other.files.is_empty(), "another rule");
    assert_eq!(other.other_rule, Some(vec![[-2, -1]]));
    std::fs::write(root.path().join(".azpipe/pixels/scan/x.pixels"), "x").expect("a file");
    assert_eq!(find(5).unusable.len(), 1);
}

#[test]
fn nothing_is_written_beside_a_file_that_can_not_be_opened_and_might_be_later() {
    let root = tempfile::tempdir().expect("a directory");
    let path = write(root.path(), Spans::first_n(4), 5);
    let add = || {
        let task = task(Spans::first_n(4), 5);
        write_statistics(root.path(), task, vec![[-2, -1]], |take| {
            (0..300 * 301).for_each(|p| take(pixel(p, 4)));
        })
    };
    // A link that leads to itself: the system says ELOOP.
    let ring = path.with_file_name("ring.pixels");
    std::os::unix::fs::symlink(&ring, &ring).expect("a link");
    let why = add().expect_err("a file can't be looked at");
    assert!(why.to_string().contains("ring.pixels"), "{why}");
    std::fs::remove_file(&ring).expect("a link");
    std::fs::create_dir(&ring).expect("a directory");
    assert_eq!(add().expect("a directory is none of ours"), path);
}

#[test]
fn files_with_frames_that_the_scan_no_longer_has_are_not_used() {
    let root = tempfile::tempdir().expect("a directory");
    write(root.path(), Span::new(0, 50).into(), 5);
    write(root.path(), Span::new(50, 70).into(), 5);
    write(root.path(), Span::new(70, 100).into(), 5);
    let mut shorter = task(Spans::first_n(10), 5);
    let files = |task: &Task| {
        let rule = [[-2, -1]];
        let found = [
            find_for_task(root.path(), task, &rule, &SourceStates::default()),
            find_for_final(root.path(), task, &rule),
        ];
        found.map(|found| found.frames())
    };
    assert_eq!(files(&shorter), [Spans::first_n(100), Spans::first_n(100)]);
    // The sources of a final are those of its rows.
    shorter.acquisition.sources[0] =
        shorter.acquisition.sources[0].restricted_to(&Spans::first_n(60)).expect("frames");
    assert_eq!(files(&shorter), [Spans::first_n(100), Spans::first_n(50)]);
    shorter.acquisition.frames = 60;
    assert_eq!(files(&shorter), [Spans::first_n(50), Spans::first_n(50)]);
}

#[test]
fn a_later_file_takes_the_place_of_an_earlier_one_which_stays_until_all_its_frames_are_replaced() {
    let root = tempfile::tempdir().expect("a directory");
    let written = |first, end| write(root.path(), Span::new(first, end).into(), 5);
    let whole = written(0, 24);
    let frames = || {
        let all = task(Spans::first_n(24), 5);
        find_for_final(root.path(), &all, &[[-2, -1]]).frames()
    };
    let middle = written(10, 12);
    assert!(whole.exists());
    assert_eq!(frames(), Span::new(10, 12).into(), "the next run adds the others");
    written(0, 10);
    assert!(whole.exists());
    written(12, 24);
    assert_eq!((whole.exists(), middle.exists()), (false, true));
    assert_eq!(frames(), Spans::first_n(24));
    written(0, 24);
    assert_eq!((whole.exists(), middle.exists()), (true, false));
    assert_eq!(frames(), Spans::first_n(24));
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_is_not_damaged() {
    let root = tempfile::tempdir().expect("a directory");
    let mut file = StatisticsFile::open(&write(root.path(), Spans::first_n(4), 5)).expect("read");
    write(root.path(), Spans::first_n(4), 6);
    let why = file.next_block().expect_err("it is another file");
    assert!(matches!(why, StatisticsError::Replaced { .. }), "{why}");
}
