//! Reads detector files: HDF5 files with an NXdetector group as pyFAI saves it, with a mask and the
//! corners of all pixels.

use std::path::Path;

use frames::hdf5_array::{
    Hdf5ArrayError, list_group, read_array, read_numbers, read_text_attribute,
};
use geometry::{Detector, NexusDetector, PixelCorners, Poni};
use recipe::FileRef;

use crate::IntegratorError;
use crate::image_role::{image_error, may_pass};

/// How many levels of groups are searched. pyFAI writes the detector to /entry/program/detector.
const MAX_SEARCH_DEPTH: usize = 4;

/// Reads the detector that a file describes. The orientation of the PONI file, if it has one,
/// replaces the orientation of the file.
pub fn read_detector(file: &FileRef, poni: &Poni) -> Result<Detector, IntegratorError> {
    let error = |why: String| image_error("detector file", file, why, false);
    let group = find_nxdetector(&file.path, "/", MAX_SEARCH_DEPTH).map_err(|why| {
        let is_retryable = matches!(&why, Hdf5ArrayError::Io { why, .. } if may_pass(why));
        image_error("detector file", file, why.to_string(), is_retryable)
    })?;
    let group = group.ok_or_else(|| {
        error("no NXdetector group; expected a detector file as pyFAI saves it".to_owned())
    })?;
    let content = read_nxdetector(&file.path, &group).map_err(error)?;
    Detector::from_nexus(content, &poni.detector).map_err(|why| error(why.to_string()))
}

/// Finds the first group of class NXdetector, depth first in the order of the names.
fn find_nxdetector(
    file: &Path,
    group: &str,
    depth: usize,
) -> Result<Option<String>, Hdf5ArrayError> {
    if read_text_attribute(file, group, "NX_class")?.as_deref() == Some("NXdetector") {
        return Ok(Some(group.to_owned()));
    }
    if depth == 0 {
        return Ok(None);
    }
    for name in list_group(file, group)? {
        let child = format!("{}/{name}", group.trim_end_matches('/'));
        match find_nxdetector(file, &child, depth - 1) {
            // A child that is no group, or that the HDF5 library can't open, is skipped.
            Ok(None) | Err(Hdf5ArrayError::Dataset { .. }) => (),
            found_or_failed => return found_or_failed,
        }
    }
    Ok(None)
}

/// Reads the fields of an NXdetector group; a missing field is `None`.
fn read_nxdetector(file: &Path, group: &str) -> Result<NexusDetector, String> {
    let members = list_group(file, group).map_err(|why| why.to_string())?;
    let path =
        |name: &str| members.iter().any(|member| member == name).then(|| format!("{group}/{name}"));
    let numbers = |name: &str| {
        path(name).map(|path| read_numbers(file, &path)).transpose().map_err(|why| why.to_string())
    };
    let pair = |name: &str| {
        numbers(name).map(|values| values.and_then(|values| <[f64; 2]>::try_from(values).ok()))
    };
    let one =
        |name: &str| numbers(name).map(|values| values.and_then(|values| values.first().copied()));
    let corners = path("pixel_corners").map(|path| read_corners(file, &path)).transpose()?;
    let shape =
        pair("shape")?.or(pair("max_shape")?).map(|shape| shape.map(|length| length as usize));
    Ok(NexusDetector {
        name: group.rsplit('/').next().unwrap_or(group).to_owned(),
        shape,
        pixel_size: pair("pixel_size")?,
        corners,
        mask: numbers("mask")?.map(|values| values.into_iter().map(|value| value != 0.0).collect()),
        orientation: one("orientation")?.map(|number| number as u64),
        dummy: one("dummy")?,
        delta: one("delta_dummy")?,
    })
}

/// Reads the corners of all pixels: rows x columns x 4 corners x (z, y, x), in metres.
fn read_corners(file: &Path, path: &str) -> Result<PixelCorners, String> {
    let array = read_array(file, path).map_err(|why| why.to_string())?;
    let [rows, columns, 4, 3] = array.shape[..] else {
        let shape = array.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
        return Err(format!(
            "pixel_corners has the shape {shape}; expected rows x columns x 4 x 3"
        ));
    };
    let values = array.values.iter().map(|&value| value as f32).collect();
    PixelCorners::new([rows as usize, columns as usize], values).map_err(|why| why.to_string())
}
