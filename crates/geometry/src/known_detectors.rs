//! Detectors known by name: all detectors of pyFAI 2026.9, from a generated table, and others from
//! a table written by hand.

mod readout;
mod table;

pub(crate) use readout::Readout;
pub(crate) use table::DetectorEntry;

/// No known detector has the name asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown detector {name:?}{}", match nearest {
    Some(nearest) => format!(": did you mean {nearest:?}?"),
    None => "; expected a name that pyFAI knows, such as eiger2_cdte_4m".to_owned(),
})]
pub struct UnknownDetector {
    /// Name asked for.
    pub name: String,
    /// Known name most similar to `name`; `None` if no name is similar.
    pub nearest: Option<String>,
}

/// The least similarity at which another name is suggested, from 0 to 1: about every second letter
/// is right.
const MIN_SIMILARITY: f64 = 0.5;

/// Returns the class names of all known detectors, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    table::entries().iter().map(|entry| entry.class.as_str())
}

/// Returns the class names of the detectors that pyFAI does not know.
pub fn names_unknown_to_pyfai() -> impl Iterator<Item = &'static str> {
    table::names_of_more()
}

/// Returns the class name of the detector that a name or alias stands for. As in pyFAI, case does
/// not matter and a space may stand for an underscore or for nothing.
pub fn class_name(name: &str) -> Result<&'static str, UnknownDetector> {
    entry_by_name(name).map(|entry| entry.class.as_str())
}

pub(crate) fn entry_by_name(name: &str) -> Result<&'static DetectorEntry, UnknownDetector> {
    let wanted = name.trim().to_lowercase();
    let joined = wanted.replace(' ', "_");
    let known = |entry: &&DetectorEntry| {
        entry.names.iter().any(|known| *known == wanted || *known == joined)
    };
    table::entries().iter().find(known).ok_or_else(|| {
        let all = table::entries().iter().flat_map(|entry| &entry.names);
        let similarity = |known: &&String| strsim::normalized_damerau_levenshtein(known, &joined);
        let nearest = all.max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
        let nearest = nearest.filter(|known| similarity(known) > MIN_SIMILARITY).cloned();
        UnknownDetector { name: name.to_owned(), nearest }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_pyfai_matches_them() {
        for name in [
            "Eiger2CdTe_4M",
            "eiger2_cdte_4m",
            "Eiger2 CdTe 4M",
            "EIGER2CDTE4M",
            " eiger2 cdte 4m ",
        ] {
            assert_eq!(class_name(name), Ok("Eiger2CdTe_4M"), "{name}");
        }
        assert_eq!(class_name("MAR 345"), Ok("Mar345"));
        assert_eq!(class_name("Fairchild Condor 486:90"), Ok("Fairchild"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let message = class_name("Pilatus 2N").unwrap_err().to_string();
        assert_eq!(message, "unknown detector \"Pilatus 2N\": did you mean \"pilatus_2m\"?");
        assert!(class_name("Eigr4M").unwrap_err().nearest.is_some());
        for far in ["", " ", "zzzzzzzz"] {
            let message = class_name(far).unwrap_err().to_string();
            let expected = "expected a name that pyFAI knows, such as eiger2_cdte_4m";
            assert_eq!(message, format!("unknown detector {far:?}; {expected}"));
        }
    }

    #[test]
    fn no_name_stands_for_two_detectors() {
        let mut names: Vec<&String> =
            table::entries().iter().flat_map(|entry| &entry.names).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
