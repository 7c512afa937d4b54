//! What Lima did to the images of a file before it saved them, as `image_operation` beside the frames says.

use records::{Acquisition, Operation};

use super::catalog::Catalog;
use crate::ffi::Object;

/// What was done to the frames of a scan, as the first of its files says; `None` where that is nothing, or no file of
/// Lima's.
pub(super) fn of(catalog: &mut Catalog, scan: &Acquisition) -> Option<Operation> {
    let source = scan.sources.first()?;
    let (parent, _) = source.dataset.rsplit_once('/')?;
    let opened = catalog.open(&source.file).ok()?;
    let detector = opened.open(parent).ok()?;
    let done = detector.find("image_operation")?;
    let operation = Operation {
        full: pair(&detector, "detector_information/max_image_size", ["ysize", "xsize"]),
        binning: pair(&done, "binning", ["y", "x"]).unwrap_or([1, 1]),
        flip: pair(&done, "flipping", ["y", "x"]).unwrap_or([0, 0]).map(|flipped| flipped != 0),
        rotation: done.find("rotation").and_then(|said| degrees(&said.text().ok()?)).unwrap_or(0),
        region: region(&done).unwrap_or([0, 0, scan.shape[0], scan.shape[1]]),
    };
    (!operation.is_none(scan.shape)).then_some(operation)
}

fn region(done: &Object) -> Option<[u64; 4]> {
    let [row, column] = pair(done, "region_of_interest", ["ystart", "xstart"])?;
    let [rows, columns] = pair(done, "region_of_interest", ["ysize", "xsize"])?;
    Some([row, column, rows, columns])
}

/// Two numbers of a group.
fn pair(object: &Object, group: &str, names: [&str; 2]) -> Option<[u64; 2]> {
    let group = object.find(group)?;
    let number = |name| {
        let number = group.find(name)?.numbers().ok()?.first().copied()?;
        (number >= 0.0).then_some(number as u64)
    };
    let [first, second] = names.map(number);
    Some([first?, second?])
}

/// `Rotation_90` is a quarter turn clockwise.
fn degrees(said: &str) -> Option<u64> {
    said.strip_prefix("Rotation_")?.parse().ok()
}
