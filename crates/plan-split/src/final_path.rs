//! The paths of final files below the output root.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use records::{Acquisition, RawPath};

/// Returns the path of a scan's final file below the output root: the directory of the master below
/// the operand of scan-find, and `<master stem>_scan<NNNN>_<detector>[_<recipe name>].h5`.
pub fn final_path(scan: &Acquisition, recipe_name: Option<&str>) -> RawPath {
    let mut name = OsString::from(scan.below.file_stem().unwrap_or(OsStr::new("scan")));
    name.push("_");
    name.push(scan_label(&scan.entry));
    name.push("_");
    name.push(replace_separators(&scan.detector));
    if let Some(recipe) = recipe_name {
        name.push("_");
        name.push(replace_separators(recipe));
    }
    name.push(".h5");
    scan.below.parent().map_or(PathBuf::from(&name), |parent| parent.join(&name)).into()
}

/// Returns the part of a file name for an entry: `scan0001` for `1.1`, as in ESRF's integrator,
/// `scan0001.2` for the subscan `1.2`, and the entry itself if it is not a number.
fn scan_label(entry: &str) -> String {
    match entry.split_once('.').map(|(scan, sub)| (scan.parse::<u32>(), sub)) {
        Some((Ok(scan), "1")) => format!("scan{scan:04}"),
        Some((Ok(scan), sub)) if sub.parse::<u32>().is_ok() => format!("scan{scan:04}.{sub}"),
        _ => replace_separators(entry),
    }
}

/// Replaces `/` and control characters by `_`, so that the name is one component of a path.
pub fn replace_separators(name: &str) -> String {
    name.chars()
        .map(|letter| if letter == '/' || letter.is_control() { '_' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(below: &str, entry: &str, detector: &str, recipe: Option<&str>) -> String {
        let scan = Acquisition {
            below: below.into(),
            entry: entry.into(),
            detector: detector.into(),
            ..Default::default()
        };
        final_path(&scan, recipe).to_str().unwrap().to_owned()
    }

    #[test]
    fn final_files_lie_as_their_masters_do() {
        assert_eq!(name("s/s_1/s_1.h5", "12.1", "p3", None), "s/s_1/s_1_scan0012_p3.h5");
        assert_eq!(name("s.h5", "1.2", "p3", Some("wide")), "s_scan0001.2_p3_wide.h5");
        assert_eq!(name("s.h5", "entry", "a/b", None), "s_entry_a_b.h5");
    }

    #[test]
    fn a_hostile_name_stays_one_component() {
        let below = name("d/x.h5", "../../etc", "..", None);
        assert!(RawPath::from(below.as_str()).is_contained());
        assert_eq!(below, "d/x_.._.._etc_...h5");
    }
}
