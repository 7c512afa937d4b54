//! Matrices in files: made once, mapped later, the same bytes either way, and never trusted when damaged.

use std::path::PathBuf;

use crate::site::{NOTHING, Ran, Site, run, small};

/// Integrates below `out` with the matrices of `cache`; what it said, and the digest of the final's data.
fn process(site: &Site, out: &str, cache: &str, plan: &[&str]) -> (Ran, String) {
    let cache = site.path(cache).display().to_string();
    let ran = run("ai-integrate", &["-v", "--cache", &cache], &site.plan(out, plan)).good();
    let digest = digest(&ran);
    (ran, digest)
}

fn digest(ran: &Ran) -> String {
    let gathered = run("gather", NOTHING, &ran.stdout).good();
    gathered.records("summary")[0]["data_digest"].as_str().expect("a digest").to_owned()
}

fn matrices(site: &Site, cache: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(site.path(cache)).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// A pattern, a cake of many bins a pixel, a sector with a dark, and a method that takes whole frames.
const PLANS: [&[&str]; 4] = [
    &[],
    &["--npt-azim", "36", "--split", "full"],
    &["--azimuth-range", "20,70", "--error-model", "no", "--monitor", "monitor"],
    &["--sigma-clip", "4", "--error-model", "azimuthal"],
];

#[test]
fn a_mapped_matrix_gives_the_bytes_of_one_just_made() {
    let site = Site::new(&small());
    for (number, plan) in PLANS.into_iter().enumerate() {
        let none = site.plan(&format!("none{number}"), plan);
        let without = run("ai-integrate", &["-v", "--cache", "none"], &none).good();
        assert!(without.stderr.contains("made in"), "{}", without.stderr);
        let (made, one) = process(&site, &format!("made{number}"), "cache", plan);
        let (mapped, two) = process(&site, &format!("mapped{number}"), "cache", plan);
        assert!(made.stderr.contains("made in"), "{}", made.stderr);
        assert!(mapped.stderr.contains("mapped in") && !mapped.stderr.contains("made"), "{}", mapped.stderr);
        assert_eq!([&one, &two], [&digest(&without); 2], "{plan:?}");
    }
    assert_eq!(matrices(&site, "cache").len(), PLANS.len(), "a file each, and nothing else");
    assert!(!site.path("none0/.azpipe/matrix").exists());
    // Another monitor is no other matrix.
    let (mapped, _) = process(&site, "other", "cache", &["--monitor", "monitor"]);
    assert!(mapped.stderr.contains("mapped in"), "{}", mapped.stderr);
}

#[test]
fn the_cache_is_below_the_output_root_unless_told() {
    let site = Site::new(&small());
    run("ai-integrate", NOTHING, &site.plan("out", &[])).good();
    assert_eq!(matrices(&site, "out/.azpipe/matrix").len(), 1);
}

#[test]
fn a_damaged_or_foreign_file_is_made_anew_with_a_warning() {
    let site = Site::new(&small());
    let (_, expected) = process(&site, "first", "cache", &[]);
    let path = matrices(&site, "cache").remove(0);
    let whole = std::fs::read(&path).unwrap();
    process(&site, "second", "foreign", &["--unit", "2th_deg"]);
    let foreign = std::fs::read(matrices(&site, "foreign").remove(0)).unwrap();
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
        let (ran, found) = process(&site, &format!("out{number}"), "cache", &[]);
        assert!(ran.stderr.contains("; made anew") && ran.stderr.contains(".matrix: "), "{number}: {}", ran.stderr);
        assert_eq!(found, expected, "{number}");
        assert!(std::fs::read(&path).unwrap() == whole, "{number}: it is as it was");
    }
}

#[test]
fn others_files_in_the_directory_stay() {
    let site = Site::new(&small());
    std::fs::create_dir(site.path("cache")).unwrap();
    let theirs = ["mine.matrix", "0123456789abcdef0123456789abcdef.matrix", "0123456789abcdef0123456789abcdef.making"];
    for name in theirs {
        std::fs::write(site.path("cache").join(name), "1 0 0 1").unwrap();
    }
    // More than is kept, and not used for the longest time.
    let big = std::fs::File::create(site.path("cache").join(theirs[1])).unwrap();
    big.set_len(9 << 30).unwrap();
    big.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    process(&site, "out", "cache", &[]);
    for name in theirs {
        assert!(site.path("cache").join(name).exists(), "{name}");
    }
    assert_eq!(matrices(&site, "cache").len(), 4, "and the one that was made");
}

/// Bytes of a file's first block.
const HEAD: usize = 512;

#[test]
fn a_directory_that_cannot_be_used_is_a_warning() {
    let site = Site::new(&small());
    std::fs::write(site.path("cache"), "a file where a directory should be").unwrap();
    let (ran, _) = process(&site, "out", "cache", &[]);
    assert!(ran.stderr.contains("the matrix is not kept"), "{}", ran.stderr);
}

#[test]
fn of_processes_that_start_together_one_makes_it() {
    let site = Site::new(&small());
    let notes: Vec<String> = std::thread::scope(|scope| {
        let process = |number: usize| {
            let site = &site;
            scope.spawn(move || process(site, &format!("out{number}"), "cache", &["--split", "full"]).0.stderr)
        };
        let all: Vec<_> = (0..4).map(process).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let made = notes.iter().filter(|notes| notes.contains("made in")).count();
    let mapped = notes.iter().filter(|notes| notes.contains("mapped in")).count();
    assert_eq!((made, mapped), (1, 3), "{notes:?}");
    assert_eq!(matrices(&site, "cache").len(), 1);
}
