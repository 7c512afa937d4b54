//! Matrices in files: made once, mapped later, the same bytes either way, and never trusted when
//! damaged.

use std::path::PathBuf;

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, small_options};

/// Integrates below `out` with the matrices of `cache`; what it said, and the digest of the final's
/// data.
fn process(workspace: &Workspace, out: &str, cache: &str, plan: &[&str]) -> (Outcome, String) {
    let cache = workspace.path(cache).display().to_string();
    let ran = run("ai-integrate", &["-v", "--cache", &cache], &workspace.plan(out, plan))
        .assert_success();
    let digest = data_digest(&ran);
    (ran, digest)
}

fn data_digest(ran: &Outcome) -> String {
    let gathered = run("gather", NO_ARGUMENTS, &ran.stdout).assert_success();
    gathered.records("summary")[0]["data_digest"].as_str().expect("a digest").to_owned()
}

fn list_matrices(workspace: &Workspace, cache: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(workspace.path(cache)).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// A pattern, a cake of many bins a pixel, a sector with a dark, and a method that takes whole
/// frames.
const PLANS: [&[&str]; 4] = [
    &[],
    &["--npt-azim", "36", "--split", "full"],
    &["--azimuth-range", "20,70", "--error-model", "no", "--monitor", "monitor"],
    &["--sigma-clip", "4", "--error-model", "azimuthal"],
];

#[test]
fn a_mapped_matrix_gives_the_bytes_of_one_just_made() {
    let workspace = Workspace::new(&small_options());
    for (number, plan) in PLANS.into_iter().enumerate() {
        let none = workspace.plan(&format!("none{number}"), plan);
        let without = run("ai-integrate", &["-v", "--cache", "none"], &none).assert_success();
        assert!(without.stderr.contains("built in"), "{}", without.stderr);
        let (made, one) = process(&workspace, &format!("made{number}"), "cache", plan);
        let (mapped, two) = process(&workspace, &format!("mapped{number}"), "cache", plan);
        assert!(made.stderr.contains("built in"), "{}", made.stderr);
        assert!(
            mapped.stderr.contains("mapped in") && !mapped.stderr.contains("built"),
            "{}",
            mapped.stderr
        );
        assert_eq!([&one, &two], [&data_digest(&without); 2], "{plan:?}");
    }
    assert_eq!(
        list_matrices(&workspace, "cache").len(),
        PLANS.len(),
        "a file each, and nothing else"
    );
    assert!(!workspace.path("none0/.azpipe/matrix").exists());
    // Another monitor is no other matrix.
    let (mapped, _) = process(&workspace, "other", "cache", &["--monitor", "monitor"]);
    assert!(mapped.stderr.contains("mapped in"), "{}", mapped.stderr);
}

#[test]
fn the_cache_is_below_the_output_root_unless_told() {
    let workspace = Workspace::new(&small_options());
    run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success();
    assert_eq!(list_matrices(&workspace, "out/.azpipe/matrix").len(), 1);
}

#[test]
fn a_damaged_or_foreign_file_is_made_anew_with_a_warning() {
    let workspace = Workspace::new(&small_options());
    let (_, expected) = process(&workspace, "first", "cache", &[]);
    let path = list_matrices(&workspace, "cache").remove(0);
    let whole = std::fs::read(&path).unwrap();
    process(&workspace, "second", "foreign", &["--unit", "2th_deg"]);
    let foreign = std::fs::read(list_matrices(&workspace, "foreign").remove(0)).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        bytes
    };
    let damaged = [
        flipped(3),
        flipped(40),
        flipped(HEAD + 3),
        flipped(whole.len() / 2),
        flipped(whole.len() - 1),
        whole[..whole.len() / 3].to_vec(),
        whole[..100].to_vec(),
        Vec::new(),
        foreign,
    ];
    for (number, bytes) in damaged.into_iter().enumerate() {
        std::fs::write(&path, bytes).unwrap();
        let (ran, found) = process(&workspace, &format!("out{number}"), "cache", &[]);
        assert!(
            ran.stderr.contains(": the matrix is built again") && ran.stderr.contains(".matrix: "),
            "{number}: {}",
            ran.stderr
        );
        assert_eq!(found, expected, "{number}");
        assert!(std::fs::read(&path).unwrap() == whole, "{number}: it is as it was");
    }
}

#[test]
fn others_files_in_the_directory_stay() {
    let workspace = Workspace::new(&small_options());
    std::fs::create_dir(workspace.path("cache")).unwrap();
    let theirs = [
        "mine.matrix",
        "0123456789abcdef0123456789abcdef.matrix",
        "0123456789abcdef0123456789abcdef.making",
    ];
    for name in theirs {
        std::fs::write(workspace.path("cache").join(name), "1 0 0 1").unwrap();
    }
    // More than is kept, and not used for the longest time.
    let big = std::fs::File::create(workspace.path("cache").join(theirs[1])).unwrap();
    big.set_len(9 << 30).unwrap();
    big.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    process(&workspace, "out", "cache", &[]);
    for name in theirs {
        assert!(workspace.path("cache").join(name).exists(), "{name}");
    }
    assert_eq!(list_matrices(&workspace, "cache").len(), 4, "and the one that was made");
}

/// Bytes of a file's first block.
const HEAD: usize = 512;

#[test]
fn a_directory_that_cannot_be_used_is_a_warning() {
    let workspace = Workspace::new(&small_options());
    std::fs::write(workspace.path("cache"), "a file where a directory should be").unwrap();
    let (ran, _) = process(&workspace, "out", "cache", &[]);
    assert!(ran.stderr.contains("the matrix is not cached"), "{}", ran.stderr);
}

#[test]
fn of_processes_that_start_together_one_makes_it() {
    let workspace = Workspace::new(&small_options());
    let notes: Vec<String> = std::thread::scope(|scope| {
        let process = |number: usize| {
            let workspace = &workspace;
            scope.spawn(move || {
                process(workspace, &format!("out{number}"), "cache", &["--split", "full"]).0.stderr
            })
        };
        let all: Vec<_> = (0..4).map(process).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let made = notes.iter().filter(|notes| notes.contains("built in")).count();
    let mapped = notes.iter().filter(|notes| notes.contains("mapped in")).count();
    assert_eq!((made, mapped), (1, 3), "{notes:?}");
    assert_eq!(list_matrices(&workspace, "cache").len(), 1);
}
