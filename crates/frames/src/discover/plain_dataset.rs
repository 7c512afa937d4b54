//! Discovers a single dataset that the user names: `file.h5::/path`.

use std::path::Path;

use records::Acquisition;

use super::dataset_cache::DatasetCache;
use super::{Discovery, DiscoveryKind, ScanFilter};

/// Returns the scan that a dataset of frames forms.
pub(super) fn discover_dataset(file: &Path, dataset: &str, select: &dyn ScanFilter) -> Discovery {
    let mut cache = DatasetCache::default();
    if let Err(why) = cache.files.open(file) {
        return Discovery::failed(file, "", &why, None);
    }
    let detector = dataset.rsplit('/').find(|part| !part.is_empty()).unwrap_or("data");
    if !(select.includes_entry("1.1")
        && select.includes_detector(detector)
        && select.includes_scan(None, None))
    {
        let what =
            DiscoveryKind::Excluded { entry: "1.1".to_owned(), detector: detector.to_owned() };
        return Discovery { files: vec![file.to_owned()], ..Discovery::new(file, dataset, what) };
    }
    match &*cache.frame_map(file, dataset) {
        Err(why) => Discovery::failed(file, dataset, why, None),
        Ok(frame_map) => {
            let acquisition = Acquisition {
                file: file.into(),
                below: file.file_name().unwrap_or_default().into(),
                entry: "1.1".to_owned(),
                detector: detector.to_owned(),
                dataset: dataset.to_owned(),
                complete: frame_map.absent.is_empty(),
                ..frame_map.to_acquisition()
            };
            Discovery {
                files: frame_map.files.clone(),
                ..Discovery::new(file, dataset, DiscoveryKind::Scan(Box::new(acquisition)))
            }
        }
    }
}
