//! Gathers of other machines, processes that have ended, files of others, and parts that disagree.

use patterns::output::{self, OutputFile, OutputOptions, OutputSpec};
use records::{Span, Spans};
use system::ownership::OwnershipRule;

use crate::support::*;

#[test]
fn parts_that_disagree_are_both_named() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(20, |_| 7));
    let one = write_range(out.path(), &scan, &recipe, 0, 12);
    let later = task(&scan, &recipe, &Span::new(10, 20).into());
    let mut other = row(11);
    other.signal[2] *= 1.0 + 1e-8;
    let rows = (10..20).map(|frame| if frame == 11 { other.clone() } else { row(frame) });
    let two = write_part(out.path(), &later, &recipe, rows);
    let error = output::build(&target(out.path(), &scan, &recipe), &OutputOptions::default(), &())
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("frame 11 has different sums in"), "{error}");
    assert!(
        error.contains(one.to_str().unwrap()) && error.contains(two.to_str().unwrap()),
        "{error}"
    );
    assert!(!out.path().join("sample_scan0001_p3.h5").exists());
}

#[test]
fn temporary_files_of_ended_processes_are_removed() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(5, |_| 7));
    let part = write_range(out.path(), &scan, &recipe, 0, 5);
    let directory = part.parent().unwrap();
    let alive = system::atomic::AtomicFile::create(
        directory.join("00000007-00000009.h5"),
        &OwnershipRule::in_azpipe_dir(),
    )
    .unwrap();
    std::fs::write(alive.temporary_path(), "half").unwrap();
    let dead = ended_writer();
    for name in [".00000000-00000002.h5.DEAD.tmp", ".final.DEAD.tmp", ".final.DEAD.lock"] {
        std::fs::write(directory.join(name.replace("DEAD", &dead)), "half").unwrap();
    }
    build(out.path(), &scan, &recipe, OutputOptions::default());
    let names = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.contains(&dead)).collect();
    assert_eq!(left, [""; 0]);
    assert!(alive.temporary_path().exists());
}

/// Gather on another node, which no lock excludes, and which finishes first.
struct Overtaking<'a> {
    better: &'a std::path::Path,
    path: &'a std::path::Path,
    part: &'a std::path::Path,
    done: std::cell::Cell<bool>,
}

impl output::BuildObserver for Overtaking<'_> {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn advance(&self, _frames: u64) {
        if !self.done.replace(true) {
            std::fs::copy(self.better, self.path.with_extension("new")).unwrap();
            std::fs::rename(self.path.with_extension("new"), self.path).unwrap();
            std::fs::remove_file(self.part).unwrap();
        }
    }
}

#[test]
fn a_final_that_another_node_wrote_meanwhile_is_not_lost() {
    let (out, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (recipe, scan) = (recipe(), acquisition(20, |_| 7));
    write_range(other.path(), &scan, &recipe, 0, 10);
    write_range(other.path(), &scan, &recipe, 10, 20);
    assert!(build(other.path(), &scan, &recipe, OutputOptions::default()).complete);
    let name = "sample_scan0001_p3.h5";
    for had_one in [false, true] {
        let part = write_range(out.path(), &scan, &recipe, 0, if had_one { 15 } else { 10 });
        let (better, path) = (other.path().join(name), out.path().join(name));
        if had_one {
            let _ = std::fs::remove_file(&path);
            build(out.path(), &scan, &recipe, OutputOptions::default());
            write_range(out.path(), &scan, &recipe, 15, 16);
        }
        let watch = Overtaking { better: &better, path: &path, part: &part, done: false.into() };
        let target =
            OutputSpec::new(out.path(), &task(&scan, &recipe, &Spans::first_n(20))).unwrap();
        let built = output::build(&target, &OutputOptions::default(), &watch).unwrap();
        assert!(watch.done.get() && built.complete, "{had_one} {built:?}");
        assert!(
            OutputFile::open(&path)
                .unwrap()
                .status
                .iter()
                .all(|status| *status == patterns::Status::Ok)
        );
    }
}

#[test]
fn a_file_of_somebody_else_is_not_overwritten() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(5, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 5);
    let path = out.path().join("sample_scan0001_p3.h5");
    std::fs::write(&path, "the only copy").unwrap();
    let error = output::build(&target(out.path(), &scan, &recipe), &OutputOptions::default(), &())
        .unwrap_err()
        .to_string();
    assert!(error.contains("not a file of azpipe") && error.contains("remove it"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"the only copy");
}
