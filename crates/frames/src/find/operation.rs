//! What Lima did to the images of a file before it saved them, as `image_operation` beside the frames says.

use records::{Acquisition, Operation};

use super::catalog::Catalog;
use super::error::FindError;
use super::links::Located;

/// Reads what was done to the frames of a scan, as the first of its files says; `None` where that is nothing, or no file of
/// Lima's.
///
/// # Errors
/// The file could not be looked at.
pub(super) fn read(catalog: &mut Catalog, scan: &Acquisition) -> Result<Option<Operation>, FindError> {
    let Some(source) = scan.sources.first() else { return Ok(None) };
    let Some((parent, _)) = source.dataset.rsplit_once('/') else { return Ok(None) };
    let root = catalog.root(&source.file)?;
    let Some(detector) = catalog.find(&root, parent)? else { return Ok(None) };
    let Some(done) = catalog.find(&detector, "image_operation")? else { return Ok(None) };
    let operation = Operation {
        full: pair(catalog, &detector, "detector_information/max_image_size", ["ysize", "xsize"])?,
        binning: pair(catalog, &done, "binning", ["y", "x"])?.unwrap_or([1, 1]),
        flip: pair(catalog, &done, "flipping", ["y", "x"])?.unwrap_or([0, 0]).map(|flipped| flipped != 0),
        rotation: catalog.text(&done, "rotation")?.and_then(|said| degrees(&said)).unwrap_or(0),
        region: region(catalog, &done)?.unwrap_or([0, 0, scan.shape[0], scan.shape[1]]),
    };
    Ok((!operation.is_none(scan.shape)).then_some(operation))
}

fn region(catalog: &mut Catalog, done: &Located) -> Result<Option<[u64; 4]>, FindError> {
    let Some([row, column]) = pair(catalog, done, "region_of_interest", ["ystart", "xstart"])? else { return Ok(None) };
    let Some([rows, columns]) = pair(catalog, done, "region_of_interest", ["ysize", "xsize"])? else { return Ok(None) };
    Ok(Some([row, column, rows, columns]))
}

/// Two numbers of a group.
fn pair(catalog: &mut Catalog, from: &Located, group: &str, names: [&str; 2]) -> Result<Option<[u64; 2]>, FindError> {
    let [first, second] = names.map(|name| catalog.number(from, &format!("{group}/{name}")));
    let whole = |number: Option<f64>| number.filter(|number| *number >= 0.0).map(|number| number as u64);
    Ok(whole(first?).zip(whole(second?)).map(|(first, second)| [first, second]))
}

/// `Rotation_90` is a quarter turn clockwise.
fn degrees(said: &str) -> Option<u64> {
    said.strip_prefix("Rotation_")?.parse().ok()
}
