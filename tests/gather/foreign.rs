//! What gather does not own: it replaces no file that it did not write, and never raw data.

use std::fs;
use std::path::{Path, PathBuf};

use crate::site::{NOTHING, Site, run, small};

/// A scan's results, its final gathered.
fn gathered() -> (Site, String) {
    let site = Site::new(&small());
    let results = run("ai-integrate", NOTHING, &site.plan("out", &["--unit", "2th_deg"])).good().stdout;
    run("gather", &["--keep-sums"], &results).good();
    (site, results)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file below a directory, and its content.
fn content(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(content(&path)),
            false => files.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}

#[test]
fn a_file_of_somebody_elses_is_refused_without_overwrite() {
    let (site, results) = gathered();
    for (flag, name) in [("--report", "page.html"), ("--plot", "map.png"), ("--plot", "map.svg")] {
        let path = site.path(name);
        fs::write(&path, "the only copy").unwrap();
        let flags = [flag, text(&path)];
        let refused = run("gather", &flags, &results);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        let said = format!("{flag}: {}: exists, and azpipe did not write it as a ", path.display());
        assert!(refused.stderr.contains(&said) && refused.stderr.contains("pass --overwrite"), "{}", refused.stderr);
        assert_eq!(refused.stderr.matches(name).count(), 1, "a path once: {}", refused.stderr);
        assert_eq!(fs::read(&path).unwrap(), b"the only copy");
        run("gather", &[flag, text(&path), "--overwrite"], &results).good();
        assert_ne!(fs::read(&path).unwrap(), b"the only copy");
        // From now on it is gather's own.
        run("gather", &flags, &results).good();
    }
    let wrong = run("gather", &["--report", text(&site.path("raw.h5"))], &results);
    assert!(wrong.status == 2 && wrong.stderr.contains("expected a name that ends in .html"), "{}", wrong.stderr);
}

#[test]
fn exports_replace_what_azpipe_wrote_and_nobody_changed() {
    for format in ["xye", "dat", "csv", "fxye", "nxazint"] {
        let (_site, results) = gathered();
        let export = |more: &[&str]| run("gather", &[&["--keep-sums", "--export", format], more].concat(), &results);
        let written = export(&[]).good().records("summary").remove(0)["export"][0].clone();
        let path = PathBuf::from(written.as_str().unwrap());
        let first = fs::read(&path).unwrap();
        export(&[]).good();
        export(&["--average", "sum"]).good();
        export(&[]).good();
        assert!(format == "nxazint" || fs::read(&path).unwrap() == first, "{format}");
        fs::write(&path, "the only copy").unwrap();
        let refused = export(&[]);
        assert_eq!(refused.status, 1, "{format}: {}", refused.stderr);
        assert!(refused.stderr.contains("azpipe did not write it"), "{format}: {}", refused.stderr);
        assert_eq!(fs::read(&path).unwrap(), b"the only copy", "{format}");
        export(&["--overwrite"]).good();
        assert!(format == "nxazint" || fs::read(&path).unwrap() == first, "{format}");
        export(&[]).good();
    }
}

#[test]
fn raw_data_and_settings_are_not_written_over_even_with_overwrite() {
    let (site, results) = gathered();
    let raw = &site.data.raw;
    let before = content(raw);
    assert!(before.len() > 1);
    let mut tried = 0;
    for (file, _) in before
        .iter()
        .chain(&content(&site.path("out")))
        .filter(|(path, _)| !path.components().any(|name| name.as_os_str() == ".azpipe"))
    {
        // By a name that gather takes, which leads to the file itself.
        for (flag, end) in [("--report", "html"), ("--plot", "png")] {
            for hard in [false, true] {
                let link = site.path(&format!("link{tried}.{end}"));
                match hard {
                    true => fs::hard_link(file, &link).unwrap(),
                    false => std::os::unix::fs::symlink(file, &link).unwrap(),
                }
                let refused = run("gather", &[flag, text(&link), "--overwrite"], &results);
                assert_ne!(refused.status, 0, "{} {flag}", file.display());
                assert!(refused.stderr.contains("never written over"), "{} {flag}: {}", file.display(), refused.stderr);
                assert!(fs::read(&link).unwrap() == fs::read(file).unwrap(), "the link stays");
                tried += 1;
            }
        }
    }
    assert!(tried >= 8);
    assert_eq!(content(raw), before);
}
