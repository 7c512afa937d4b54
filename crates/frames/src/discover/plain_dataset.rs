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
    let entry = entry_in_path(dataset);
    if !(select.includes_entry(entry)
        && select.includes_detector(detector)
        && select.includes_scan(None, None))
    {
        let what =
            DiscoveryKind::Excluded { entry: entry.to_owned(), detector: detector.to_owned() };
        return Discovery { files: vec![file.to_owned()], ..Discovery::new(file, dataset, what) };
    }
    match &*cache.frame_map(file, dataset) {
        Err(why) => Discovery::failed(file, dataset, why, None),
        Ok(frame_map) => {
            let acquisition = Acquisition {
                file: file.into(),
                below: file.file_name().unwrap_or_default().into(),
                entry: entry.to_owned(),
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

/// Returns the entry of a scan that a dataset is in: `2.1` of `/2.1/measurement/p3`; `1.1` if its path names
/// none.
fn entry_in_path(dataset: &str) -> &str {
    let mut parts = dataset.split('/').filter(|part| !part.is_empty());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_entry = |name: &&str| {
        name.split_once('.').is_some_and(|(scan, sub)| is_number(scan) && is_number(sub))
    };
    parts.next().filter(is_entry).unwrap_or("1.1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_that_of_the_path() {
        for (dataset, entry) in [
            ("/2.1/measurement/p3", "2.1"),
            ("12.2/measurement/p3", "12.2"),
            ("/2.1", "2.1"),
            ("/entry_0000/measurement/data", "1.1"),
            ("/data", "1.1"),
            ("/2.x/data", "1.1"),
        ] {
            assert_eq!(entry_in_path(dataset), entry, "{dataset}");
        }
    }
}
