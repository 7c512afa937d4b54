//! Files that gather did not write: it replaces none of them, and never raw data.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{NO_ARGUMENTS, Workspace, read_files_below, run, small_options};

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
    let command = gather::command();
    let formats =
        command.get_arguments().find(|argument| argument.get_long() == Some("export")).unwrap();
    for format in formats.get_possible_values() {
        let (_site, results) = gather_a_scan();
        let format = format.get_name();
        let export = |more: &[&str]| {
            run("gather", &[&["--keep-sums", "--export", format], more].concat(), &results)
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
