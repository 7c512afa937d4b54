//! Texts: records, frame ranges, PONI files, recipes in the formats that are read, tables of
//! standards, and values of options.

use std::path::Path;

use geometry::{Detector, Poni};
use patterns::export::{CalibrationFactor, Standard, Thickness, Transmission};
use recipe::{RecipeFile, Settings};
use records::{Record, Spans};

/// A record that is read is written as one that reads as the same, and reads as the same by the way
/// for any spelling, which a space before the brace takes.
pub fn record(data: &[u8]) {
    let Some(line) = text(data) else { return };
    let (parsed, spaced) = (Record::parse(line), Record::parse(&format!(" {line}")));
    let record = match (parsed, spaced) {
        // The line itself, with the space.
        (Ok(Record::Other(_)), Ok(Record::Other(_))) => return,
        (Ok(parsed), Ok(spaced)) => {
            assert_eq!(parsed, spaced, "{line}");
            parsed
        }
        (parsed, spaced) => {
            assert!(parsed.is_err() && spaced.is_err(), "{line}");
            return;
        }
    };
    let line = record.to_line();
    assert_eq!(Record::parse(&line).expect("a written record reads"), record, "{line}");
}

/// Frame ranges are what lists of their numbers are.
pub fn spans(data: &[u8]) {
    let Some((one, two)) = text(data).and_then(|text| text.split_once(';')) else { return };
    let parse =
        |text: &str| serde_json::from_str::<Spans>(text).ok().filter(|spans| spans.count() < 1000);
    let (Some(one), Some(two)) = (parse(one), parse(two)) else { return };
    let list = |spans: &Spans| {
        let mut all: Vec<u64> = spans.iter().collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (first, second) = (list(&one), list(&two));
    assert_eq!(list(&one.to_sorted()), first);
    assert_eq!(
        list(&one.intersection(&two)),
        first.iter().copied().filter(|frame| second.contains(frame)).collect::<Vec<_>>()
    );
    assert_eq!(
        list(&one.difference(&two)),
        first.iter().copied().filter(|frame| !second.contains(frame)).collect::<Vec<_>>()
    );
    let again: Spans =
        serde_json::from_str(&serde_json::to_string(&one).expect("numbers serialize"))
            .expect("and read");
    assert_eq!(again, one);
}

/// A PONI file, and the detector that it names.
pub fn poni(data: &[u8]) {
    if let Some(poni) = text(data).and_then(|text| Poni::parse(text).ok()) {
        let _ = Detector::from_poni(&poni);
    }
}

/// Our own recipe, whose settings come back as they were.
pub fn recipe_toml(data: &[u8]) {
    let Some(settings) =
        text(data).and_then(|text| Settings::parse(text, Path::new("r.toml")).ok())
    else {
        return;
    };
    // What can't be written, such as a number beyond TOML's, is refused when the recipe is made.
    let _ = recipe::Recipe::resolve(&Settings {
        geometry: Some("Distance: 1".to_owned()),
        poni: None,
        ..settings
    });
}

/// A configuration of pyFAI's worker.
pub fn recipe_json(data: &[u8]) {
    read_as("r.json", data);
}

/// A configuration of ESRF's integrator.
pub fn recipe_ini(data: &[u8]) {
    read_as("r.conf", data);
}

fn read_as(name: &str, data: &[u8]) {
    crate::files::with_file(name, data, |path| {
        if let Ok(file) = RecipeFile::read(path) {
            let _ = file.section_for("pilatus");
            file.sections();
        }
    });
}

/// A table of a standard's cross-sections.
pub fn standard(data: &[u8]) {
    crate::files::with_file("standard", data, |path| {
        let _ = Standard::open(path);
    });
}

/// Values of gather's options for absolute units: as they are shown, they read as the same.
pub fn reduction(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(parsed) = text.parse::<Transmission>() {
        let shown = parsed.to_string();
        assert_eq!(shown.parse(), Ok(parsed), "{text} is shown as {shown}");
    }
    let _ = (text.parse::<Thickness>(), text.parse::<CalibrationFactor>());
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}
