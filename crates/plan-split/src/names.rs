//! Where finals lie below the output root.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use records::{Acquisition, RawPath};

/// The final's path: the master's path below the operand, mirrored, then
/// `<master stem>_scan<NNNN>_<detector>[_<recipe name>].h5`.
pub fn final_path(scan: &Acquisition, recipe_name: Option<&str>) -> RawPath {
    let mut name = OsString::from(scan.below.file_stem().unwrap_or(OsStr::new("scan")));
    name.push("_");
    name.push(scan_label(&scan.entry));
    name.push("_");
    name.push(plain(&scan.detector));
    if let Some(recipe) = recipe_name {
        name.push("_");
        name.push(plain(recipe));
    }
    name.push(".h5");
    scan.below.parent().map_or(PathBuf::from(&name), |parent| parent.join(&name)).into()
}

/// `1.1` is `scan0001`, as the integrator's users know it; its sub-scan `1.2` is `scan0001.2`, and
/// an entry that is no number stands as it is.
fn scan_label(entry: &str) -> String {
    match entry.split_once('.').map(|(scan, sub)| (scan.parse::<u32>(), sub)) {
        Some((Ok(scan), "1")) => format!("scan{scan:04}"),
        Some((Ok(scan), sub)) if sub.parse::<u32>().is_ok() => format!("scan{scan:04}.{sub}"),
        _ => plain(entry),
    }
}

/// A name without a separator, so that it stays one component of a path.
pub fn plain(name: &str) -> String {
    name.chars().map(|letter| if letter == '/' || letter.is_control() { '_' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(below: &str, entry: &str, detector: &str, recipe: Option<&str>) -> String {
        let scan =
            Acquisition { below: below.into(), entry: entry.into(), detector: detector.into(), ..Default::default() };
        final_path(&scan, recipe).to_str().unwrap().to_owned()
    }

    #[test]
    fn finals_mirror_the_masters() {
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
