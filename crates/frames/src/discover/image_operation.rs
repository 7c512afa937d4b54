//! Reads `image_operation`: what Lima did to the images before saving them, such as binning or rotation.

use records::{Acquisition, ImageOperation};

use super::error::DiscoverError;
use super::links::ResolvedObject;
use super::open_files::OpenFiles;

/// Reads the operation on a scan's images from the first of its files. Returns `None` if there was none, or no
/// file is Lima's.
///
/// # Errors
/// The file can't be read.
pub(super) fn read_image_operation(
    files: &mut OpenFiles,
    scan: &Acquisition,
) -> Result<Option<ImageOperation>, DiscoverError> {
    let Some(source) = scan.sources.first() else { return Ok(None) };
    let Some((parent, _)) = source.dataset.rsplit_once('/') else { return Ok(None) };
    let root = files.root(&source.file)?;
    let Some(detector) = files.try_resolve(&root, parent)? else { return Ok(None) };
    let Some(done) = files.try_resolve(&detector, "image_operation")? else { return Ok(None) };
    let operation = ImageOperation {
        full: read_pair(files, &detector, "detector_information/max_image_size", ["ysize", "xsize"])?,
        binning: read_pair(files, &done, "binning", ["y", "x"])?.unwrap_or([1, 1]),
        flip: read_pair(files, &done, "flipping", ["y", "x"])?.unwrap_or([0, 0]).map(|flipped| flipped != 0),
        rotation: files.read_text(&done, "rotation")?.and_then(|value| parse_rotation(&value)).unwrap_or(0),
        region: read_region(files, &done)?.unwrap_or([0, 0, scan.shape[0], scan.shape[1]]),
    };
    Ok((!operation.is_identity(scan.shape)).then_some(operation))
}

fn read_region(files: &mut OpenFiles, done: &ResolvedObject) -> Result<Option<[u64; 4]>, DiscoverError> {
    let Some([row, column]) = read_pair(files, done, "region_of_interest", ["ystart", "xstart"])? else {
        return Ok(None);
    };
    let Some([rows, columns]) = read_pair(files, done, "region_of_interest", ["ysize", "xsize"])? else {
        return Ok(None);
    };
    Ok(Some([row, column, rows, columns]))
}

/// Reads two numbers of a group.
fn read_pair(
    files: &mut OpenFiles,
    from: &ResolvedObject,
    group: &str,
    names: [&str; 2],
) -> Result<Option<[u64; 2]>, DiscoverError> {
    let [first, second] = names.map(|name| files.read_number(from, &format!("{group}/{name}")));
    let whole = |number: Option<f64>| number.filter(|number| *number >= 0.0).map(|number| number as u64);
    Ok(whole(first?).zip(whole(second?)).map(|(first, second)| [first, second]))
}

/// Returns the number of clockwise quarter turns: 1 for `Rotation_90`.
fn parse_rotation(value: &str) -> Option<u64> {
    value.strip_prefix("Rotation_")?.parse().ok()
}
