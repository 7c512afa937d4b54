//! Files that gather did not write, or that somebody changed since: it replaces none of them, and
//! never raw data.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, files_below, read_files_below, run, small_options,
};

/// A scan's results, its final gathered.
fn gather_a_scan() -> (Workspace, String) {
    let workspace = Workspace::new(&small_options());
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout;
    run("gather", &["--keep-sums"], &results).assert_success();
    (workspace, results)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_file_of_somebody_elses_is_refused_without_overwrite() {
    let (workspace, results) = gather_a_scan();
    for (flag, name) in [("--report", "page.html"), ("--plot", "map.png"), ("--plot", "map.svg")] {
        let path = workspace.path(name);
        fs::write(&path, "the only copy").unwrap();
        let flags = [flag, text(&path)];
        let refused = run("gather", &flags, &results);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        let said = format!("{flag}: {}: exists, and azpipe did not write it as a ", path.display());
        assert!(
            refused.stderr.contains(&said) && refused.stderr.contains("pass --overwrite"),
            "{}",
            refused.stderr
        );
        assert_eq!(refused.stderr.matches(name).count(), 1, "a path once: {}", refused.stderr);
        assert_eq!(fs::read(&path).unwrap(), b"the only copy");
        run("gather", &[flag, text(&path), "--overwrite"], &results).assert_success();
        assert_ne!(fs::read(&path).unwrap(), b"the only copy");
        // From now on it is gather's own.
        run("gather", &flags, &results).assert_success();
    }
    let wrong = run("gather", &["--report", text(&workspace.path("raw.h5"))], &results);
    assert!(
        wrong.status == 2 && wrong.stderr.contains("expected a name that ends in .html"),
        "{}",
        wrong.stderr
    );
}

/// Returns whether a file has the content that an earlier file had. HDF5 files contain the time at
/// which they were written.
fn is_same(path: &Path, first: &[u8]) -> bool {
    let is_hdf5 = |content: &[u8]| content.starts_with(b"\x89HDF");
    let content = fs::read(path).unwrap();
    content == first || (is_hdf5(&content) && is_hdf5(first))
}

#[test]
fn exports_replace_what_azpipe_wrote_and_nobody_changed() {
    for format in export_formats() {
        let (_site, results) = gather_a_scan();
        let export = |more: &[&str]| {
            run("gather", &[&["--keep-sums", "--export", &format], more].concat(), &results)
        };
        let written =
            export(&[]).assert_success().records("summary").remove(0)["export"][0].clone();
        let path = PathBuf::from(written.as_str().unwrap());
        let first = fs::read(&path).unwrap();
        export(&[]).assert_success();
        export(&["--average", "sum"]).assert_success();
        export(&[]).assert_success();
        assert!(is_same(&path, &first), "{format}");
        fs::write(&path, "the only copy").unwrap();
        let refused = export(&[]);
        assert_eq!(refused.status, 1, "{format}: {}", refused.stderr);
        assert!(refused.stderr.contains("azpipe did not write it"), "{format}: {}", refused.stderr);
        assert_eq!(fs::read(&path).unwrap(), b"the only copy", "{format}");
        export(&["--overwrite"]).assert_success();
        assert!(is_same(&path, &first), "{format}");
        export(&[]).assert_success();
    }
}

/// Returns the names of all export formats.
fn export_formats() -> Vec<String> {
    let command = gather::command();
    let formats =
        command.get_arguments().find(|argument| argument.get_long() == Some("export")).unwrap();
    let formats = formats.get_possible_values();
    formats.iter().map(|format| format.get_name().to_owned()).collect()
}

/// Asserts that gather refuses to write over a file that a user changed, and what `--overwrite`
/// does.
fn assert_change_is_kept(path: &Path, gather: &dyn Fn(&[&str]) -> Outcome) {
    let (name, first) = (path.file_name().unwrap().to_str().unwrap(), fs::read(path).unwrap());
    gather(&[]).assert_success();
    assert!(is_same(path, &first) || name.ends_with(".html"), "{name}: equal runs, equal files");
    // Most programs read a file with more bytes at the end as before.
    let changed = [&first[..], b"\n<!-- my notes -->\n"].concat();
    fs::write(path, &changed).unwrap();
    let refused = gather(&[]);
    assert_ne!(refused.status, 0, "{name}: {}", refused.stderr);
    for words in ["or it was changed since", "pass --overwrite"] {
        assert!(refused.stderr.contains(words), "{name}: {}", refused.stderr);
    }
    assert_eq!(fs::read(path).unwrap(), changed, "{name}");
    gather(&["--overwrite"]).assert_success();
    assert!(is_same(path, &first) || name.ends_with(".html"), "{name}");
    gather(&[]).assert_success();
}

#[test]
fn exports_that_somebody_changed_are_kept() {
    let (_workspace, results) = gather_a_scan();
    for format in export_formats() {
        let export = |more: &[&str]| {
            run("gather", &[&["--keep-sums", "--export", &format], more].concat(), &results)
        };
        let written = export(&[]).assert_success().records("summary").remove(0);
        assert_change_is_kept(Path::new(written["export"][0].as_str().unwrap()), &export);
    }
}

#[test]
fn pictures_and_reports_that_somebody_changed_are_kept() {
    let (workspace, results) = gather_a_scan();
    for (flag, name) in [
        ("--plot", "map.png"),
        ("--plot", "map.svg"),
        ("--plot", "map.pdf"),
        ("--plot-scans", "all.png"),
        ("--plot-scans", "all.svg"),
        ("--plot-scans", "all.pdf"),
        ("--report", "run.html"),
    ] {
        let path = workspace.path(name);
        let write = |more: &[&str]| {
            run("gather", &[&["--keep-sums", flag, text(&path)], more].concat(), &results)
        };
        write(&[]).assert_success();
        assert_change_is_kept(&path, &write);
        // As versions wrote it that put no digest into the mark.
        let mut old = fs::read(&path).unwrap();
        let label = b", content ";
        let place = old.windows(label.len()).position(|there| there == label).unwrap();
        old.drain(place..place + label.len() + 32);
        fs::write(&path, &old).unwrap();
        write(&[]).assert_success();
        assert_ne!(fs::read(&path).unwrap(), old, "{name}");
    }
}

#[test]
fn a_run_that_was_killed_before_its_export_was_there_leaves_the_earlier_one_its_own() {
    let (workspace, results) = gather_a_scan();
    let export = || run("gather", &["--keep-sums", "--export", "nxazint,dat"], &results);
    export().assert_success();
    let listings = workspace.path("out/.azpipe/exports");
    let listing = files_below(&listings).into_iter().find(|path| is_json(path)).unwrap();
    for killed in 0..3 {
        // The list is written before the files.
        let mut files: Vec<serde_json::Value> =
            serde_json::from_slice(&fs::read(&listing).unwrap()).unwrap();
        assert_eq!(files.len(), 2);
        for file in &mut files {
            file[1].as_array_mut().unwrap().insert(0, format!("{killed:032x}").into());
        }
        fs::write(&listing, serde_json::to_vec(&files).unwrap()).unwrap();
    }
    export().assert_success();
    // Of a list that can't be read, nobody knows what was on it.
    fs::write(&listing, "damaged").unwrap();
    let refused = export();
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("changed since"), "{}", refused.stderr);
}

#[test]
fn exports_with_a_mark_are_known_by_it_where_the_list_of_digests_was_removed() {
    let (workspace, results) = gather_a_scan();
    let export = || {
        let written = run("gather", &["--keep-sums", "--export", "nxazint"], &results);
        written.assert_success().records("summary").remove(0)["export"][0].clone()
    };
    let path = PathBuf::from(export().as_str().unwrap());
    let first = fs::read(&path).unwrap();
    // The file tells its date, in seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    fs::remove_dir_all(workspace.path("out/.azpipe/exports")).unwrap();
    export();
    assert_ne!(fs::read(&path).unwrap(), first);
    export();
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

#[test]
fn runs_at_the_same_time_take_each_others_exports_for_azpipes() {
    let (_workspace, results) = gather_a_scan();
    let flags = ["--keep-sums", "--export", "nxazint,nxcansas,xye"];
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| run("gather", &flags, &results).assert_success());
            }
        });
    }
}

#[test]
fn raw_data_and_settings_are_not_written_over_even_with_overwrite() {
    let (workspace, results) = gather_a_scan();
    let raw = &workspace.data.raw;
    let before = read_files_below(raw);
    assert!(before.len() > 1);
    let mut tried = 0;
    for (file, _) in before
        .iter()
        .chain(&read_files_below(&workspace.path("out")))
        .filter(|(path, _)| !path.components().any(|name| name.as_os_str() == ".azpipe"))
    {
        // By a name that gather takes, which leads to the file itself.
        for (flag, end) in [("--report", "html"), ("--plot", "png")] {
            for hard in [false, true] {
                let link = workspace.path(&format!("link{tried}.{end}"));
                match hard {
                    true => fs::hard_link(file, &link).unwrap(),
                    false => std::os::unix::fs::symlink(file, &link).unwrap(),
                }
                let refused = run("gather", &[flag, text(&link), "--overwrite"], &results);
                assert_ne!(refused.status, 0, "{} {flag}", file.display());
                assert!(
                    refused.stderr.contains("never overwritten"),
                    "{} {flag}: {}",
                    file.display(),
                    refused.stderr
                );
                assert!(fs::read(&link).unwrap() == fs::read(file).unwrap(), "the link stays");
                tried += 1;
            }
        }
    }
    assert!(tried >= 8);
    assert_eq!(read_files_below(raw), before);
}

#[test]
fn exports_never_replace_a_final_file_of_another_recipe() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--recipe-name", "x"]);
    let flags = ["--pixel-stats"];
    let results = run("ai-integrate", &flags, &tasks).assert_success().stdout;
    let gathered = run("gather", &["--average", "mean"], &results).assert_success();
    let final_file = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
    let stem = final_file.strip_suffix(".h5").unwrap();
    let background = workspace.path("background.h5");
    fs::copy(&final_file, &background).unwrap();
    let background = text(&background);
    for (end, flags) in [
        ("map.h5", &["--map", "monitor,elapsed_time"][..]),
        ("subtracted.h5", &["--subtract", background]),
        ("absolute.h5", &["--thickness", "1mm", "--calibration-factor", "1"]),
        ("pixels.h5", &["--pixel-images"]),
        ("drift.h5", &["--drift", "LaB6"]),
        ("nxcansas.h5", &["--export", "nxcansas"]),
        ("nxs", &["--export", "nxazint"]),
    ] {
        // As if recipes were called `x.map` and the like.
        let other = format!("{stem}.{end}");
        let mut bytes = fs::read(&final_file).unwrap();
        for damage in [false, true] {
            if damage {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            fs::write(&other, &bytes).unwrap();
            for overwrite in [&[][..], &["--overwrite"]] {
                let refused = run("gather", &[flags, overwrite].concat(), &results);
                assert_eq!(refused.status, 1, "{end}: {}", refused.stderr);
                let why = format!("{other}: is the final file of another recipe or scan");
                assert!(refused.stderr.contains(&why), "{end}: {}", refused.stderr);
                assert!(fs::read(&other).unwrap() == bytes, "{end}");
            }
        }
        // Not so a damaged export, or what somebody else left there.
        fs::remove_file(&other).unwrap();
        let allowed = |flags: &[&str]| run("gather", flags, &results);
        allowed(flags);
        let mut bytes = fs::read(&other).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&other, &bytes).unwrap();
        let replaced = allowed(&[flags, &["--overwrite"]].concat());
        assert!(fs::read(&other).unwrap() != bytes, "{end}: {}", replaced.stderr);
    }
}
