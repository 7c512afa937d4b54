//! Reads `image_operation`: what Lima did to the images before saving them, such as binning or
//! rotation.

use records::{Acquisition, ImageOperation};

use super::error::DiscoverError;
use super::links::ResolvedObject;
use super::open_files::OpenFiles;
use super::unusable::UnusableError;

/// Reads the operation on a scan's images from the first of its files. Returns `None` if there was
/// none, or no file is Lima's.
///
/// # Errors
/// The file can't be read, or the operation is not one that Lima writes.
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
        full: read_pair(
            files,
            &detector,
            "detector_information/max_image_size",
            ["ysize", "xsize"],
        )?,
        binning: read_pair(files, &done, "binning", ["y", "x"])?.unwrap_or([1, 1]),
        flip: read_pair(files, &done, "flipping", ["y", "x"])?
            .unwrap_or([0, 0])
            .map(|flipped| flipped != 0),
        rotation: read_rotation(files, &done)?,
        region: read_region(files, &done)?.unwrap_or([0, 0, scan.shape[0], scan.shape[1]]),
    };
    Ok((!operation.is_identity(scan.shape)).then_some(operation))
}

fn read_region(
    files: &mut OpenFiles,
    done: &ResolvedObject,
) -> Result<Option<[u64; 4]>, DiscoverError> {
    let Some([row, column]) = read_pair(files, done, "region_of_interest", ["ystart", "xstart"])?
    else {
        return Ok(None);
    };
    let Some([rows, columns]) = read_pair(files, done, "region_of_interest", ["ysize", "xsize"])?
    else {
        return Ok(None);
    };
    Ok(Some([row, column, rows, columns]))
}

/// Reads two whole numbers of a group, or returns `None` if it has neither.
///
/// # Errors
/// One of them is missing, or is no whole number: a default in its place would put the frames
/// elsewhere on the detector.
fn read_pair(
    files: &mut OpenFiles,
    from: &ResolvedObject,
    group: &str,
    names: [&str; 2],
) -> Result<Option<[u64; 2]>, DiscoverError> {
    let [first, second] =
        names.map(|name| read_whole_number(files, from, &format!("{group}/{name}")));
    match (first?, second?) {
        (Some(first), Some(second)) => Ok(Some([first, second])),
        (None, None) => Ok(None),
        (first, _) => {
            let missing = if first.is_none() { names[0] } else { names[1] };
            Err(operation_error(&format!("{group}/{missing}"), "missing", "a whole number"))
        }
    }
}

fn read_whole_number(
    files: &mut OpenFiles,
    from: &ResolvedObject,
    path: &str,
) -> Result<Option<u64>, DiscoverError> {
    match files.read_number(from, path)? {
        Some(number) if number >= 0.0 && number.fract() == 0.0 => Ok(Some(number as u64)),
        Some(number) => Err(operation_error(path, &number.to_string(), "a whole number")),
        None if files.try_resolve(from, path)?.is_some() => {
            Err(operation_error(path, "no number", "a whole number"))
        }
        None => Ok(None),
    }
}

/// Reads the rotation in degrees clockwise: 90 for `Rotation_90`, as Lima writes it, or 0 if there
/// is none.
fn read_rotation(files: &mut OpenFiles, done: &ResolvedObject) -> Result<u64, DiscoverError> {
    let wrong = |found: &str| {
        operation_error("rotation", found, "Rotation_0, Rotation_90, Rotation_180 or Rotation_270")
    };
    match files.read_text(done, "rotation")? {
        Some(text) => match text.as_str() {
            "Rotation_0" => Ok(0),
            "Rotation_90" => Ok(90),
            "Rotation_180" => Ok(180),
            "Rotation_270" => Ok(270),
            other => Err(wrong(other)),
        },
        None if files.try_resolve(done, "rotation")?.is_some() => Err(wrong("no text")),
        None => Ok(0),
    }
}

fn operation_error(path: &str, found: &str, expected: &'static str) -> DiscoverError {
    UnusableError::ImageOperation { path: path.to_owned(), found: found.to_owned(), expected }
        .into()
}
