//! What Lima did to the images of a file before it saved them, as `image_operation` beside the frames says.

use records::{Acquisition, ImageOperation};

use super::dataset_cache::DatasetCache;
use super::error::DiscoverError;
use super::links::ResolvedObject;

/// Reads what was done to the frames of a scan, as the first of its files says; `None` where that is nothing, or no file of
/// Lima's.
///
/// # Errors
/// The file could not be looked at.
pub(super) fn read_image_operation(
    catalog: &mut DatasetCache,
    scan: &Acquisition,
) -> Result<Option<ImageOperation>, DiscoverError> {
    let Some(source) = scan.sources.first() else { return Ok(None) };
    let Some((parent, _)) = source.dataset.rsplit_once('/') else { return Ok(None) };
    let root = catalog.root(&source.file)?;
    let Some(detector) = catalog.try_resolve(&root, parent)? else { return Ok(None) };
    let Some(done) = catalog.try_resolve(&detector, "image_operation")? else { return Ok(None) };
    let operation = ImageOperation {
        full: read_pair(catalog, &detector, "detector_information/max_image_size", ["ysize", "xsize"])?,
        binning: read_pair(catalog, &done, "binning", ["y", "x"])?.unwrap_or([1, 1]),
        flip: read_pair(catalog, &done, "flipping", ["y", "x"])?.unwrap_or([0, 0]).map(|flipped| flipped != 0),
        rotation: catalog.read_text(&done, "rotation")?.and_then(|said| parse_rotation(&said)).unwrap_or(0),
        region: read_region(catalog, &done)?.unwrap_or([0, 0, scan.shape[0], scan.shape[1]]),
    };
    Ok((!operation.is_identity(scan.shape)).then_some(operation))
}

fn read_region(catalog: &mut DatasetCache, done: &ResolvedObject) -> Result<Option<[u64; 4]>, DiscoverError> {
    let Some([row, column]) = read_pair(catalog, done, "region_of_interest", ["ystart", "xstart"])? else {
        return Ok(None);
    };
    let Some([rows, columns]) = read_pair(catalog, done, "region_of_interest", ["ysize", "xsize"])? else {
        return Ok(None);
    };
    Ok(Some([row, column, rows, columns]))
}

/// Two numbers of a group.
fn read_pair(
    catalog: &mut DatasetCache,
    from: &ResolvedObject,
    group: &str,
    names: [&str; 2],
) -> Result<Option<[u64; 2]>, DiscoverError> {
    let [first, second] = names.map(|name| catalog.read_number(from, &format!("{group}/{name}")));
    let whole = |number: Option<f64>| number.filter(|number| *number >= 0.0).map(|number| number as u64);
    Ok(whole(first?).zip(whole(second?)).map(|(first, second)| [first, second]))
}

/// `Rotation_90` is a quarter turn clockwise.
fn parse_rotation(said: &str) -> Option<u64> {
    said.strip_prefix("Rotation_")?.parse().ok()
}
