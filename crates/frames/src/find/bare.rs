//! A dataset that the user names: `file.h5::/path`.

use std::path::Path;

use records::Acquisition;

use super::catalog::Catalog;
use super::visit::about;
use super::{Found, Select, What};

/// The scan that a dataset of frames is.
pub(super) fn found(file: &Path, dataset: &str, select: &Select<'_>) -> Found {
    let about = about(file, dataset);
    if let Err(why) = file.metadata() {
        return Found::refused(file, why.to_string());
    }
    let mut catalog = Catalog::default();
    if let Err(why) = catalog.open(file) {
        return Found::unreadable(file, &why);
    }
    let detector = dataset.rsplit('/').find(|part| !part.is_empty()).unwrap_or("data");
    if !((select.entry)("1.1") && (select.detector)(detector) && (select.scan)(None, None)) {
        return Found { about, files: vec![file.to_owned()], what: What::Unwanted };
    }
    match &*catalog.trace(file, dataset) {
        Err(why) => Found::refused(&about, why.clone()),
        Ok(traced) => {
            let acquisition = Acquisition {
                file: file.into(),
                below: file.file_name().unwrap_or_default().into(),
                entry: "1.1".to_owned(),
                detector: detector.to_owned(),
                dataset: dataset.to_owned(),
                complete: traced.absent.is_empty(),
                ..traced.acquisition()
            };
            Found { about, files: traced.files.clone(), what: What::Scan(Box::new(acquisition)) }
        }
    }
}
