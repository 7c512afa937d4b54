//! A dataset that the user names: `file.h5::/path`.

use std::path::Path;

use records::Acquisition;

use super::catalog::Catalog;
use super::{Found, Select, What};

/// Finds the scan that a dataset of frames is.
pub(super) fn found(file: &Path, dataset: &str, select: &dyn Select) -> Found {
    let mut catalog = Catalog::default();
    if let Err(why) = catalog.open(file) {
        return Found::failed(file, "", &why, None);
    }
    let detector = dataset.rsplit('/').find(|part| !part.is_empty()).unwrap_or("data");
    if !(select.entry("1.1") && select.detector(detector) && select.scan(None, None)) {
        let what = What::Unwanted { entry: "1.1".to_owned(), detector: detector.to_owned() };
        return Found { files: vec![file.to_owned()], ..Found::new(file, dataset, what) };
    }
    match &*catalog.trace(file, dataset) {
        Err(why) => Found::failed(file, dataset, why, None),
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
            Found { files: traced.files.clone(), ..Found::new(file, dataset, What::Scan(Box::new(acquisition))) }
        }
    }
}
