//! A file as Lima 1 writes it with HDF5BS saving.

use std::path::Path;

use hdf5::types::{IntSize, TypeDescriptor};
use hdf5::{Group, Result};

use crate::ffi::{announce_filter, write_chunk};
use crate::nexus::{attribute, create, group, scalar, string};
use crate::{Defect, Dtype, Scan};

/// Bitshuffle's number among HDF5's registered filters.
const BITSHUFFLE: i32 = 32008;
/// LZ4's number among bitshuffle's codecs.
const LZ4: u32 = 2;
/// Seconds that each frame is exposed.
pub(crate) const EXPOSURE: f64 = 0.1;

/// Where Lima files hold the frames.
pub(crate) fn dataset_path(scan: &Scan<'_>) -> String {
    format!("/entry_0000/ESRF-ID31/{}/data", scan.options.detector.device)
}

/// Writes Lima file number `file` of a scan, whose frames are `chunks` over and over.
pub(crate) fn write(path: &Path, scan: &Scan<'_>, file: usize, chunks: &[Vec<u8>]) -> Result<()> {
    let device = scan.options.detector.device;
    let root = create(path)?;
    attribute(&root, "NX_class", "NXroot")?;
    attribute(&root, "default", "/entry_0000")?;
    attribute(&root, "creator", "LIMA-1.10.0")?;
    attribute(&root, "file_name", &path.to_string_lossy())?;
    attribute(&root, "file_time", "2026-03-04T09:20:30Z")?;
    let entry = group(&root, "entry_0000", "NXentry")?;
    attribute(&entry, "default", &format!("ESRF-ID31/{device}/plot"))?;
    string(&entry, "title", "Lima 2D detector acquisition")?;
    string(&entry, "start_time", "2026-03-04T09:20:30Z")?;
    let instrument = group(&entry, "ESRF-ID31", "NXinstrument")?;
    let detector = group(&instrument, device, "NXdetector")?;
    describe(&detector, scan)?;
    frames(&detector, scan, file, chunks)?;
    let target = dataset_path(scan);
    group(&entry, "measurement", "NXcollection")?.link_soft(&target, "data")?;
    if scan.is_closed(file) {
        let plot = group(&detector, "plot", "NXdata")?;
        attribute(&plot, "signal", "data")?;
        plot.link_soft(&target, "data")?;
        string(&entry, "end_time", "2026-03-04T09:20:50Z")?;
    }
    Ok(())
}

/// The stack of frames: allocated for as many as the file is for, one chunk each.
fn frames(detector: &Group, scan: &Scan<'_>, file: usize, chunks: &[Vec<u8>]) -> Result<()> {
    let options = scan.options;
    let [rows, columns] = options.detector.shape;
    let range = scan.frames_of(file);
    announce_filter(BITSHUFFLE)?;
    let dataset = detector
        .new_dataset_builder()
        .empty_as(descriptor(options.dtype))
        .chunk((1, rows, columns))
        // Version 0.4 of the filter, the element's size, the default block.
        .add_filter(BITSHUFFLE, &[0, 4, options.dtype.size() as u32, 0, LZ4])
        .shape((range.len().., rows, columns))
        .create("data")?;
    attribute(&dataset, "interpretation", "image")?;
    for (row, frame) in range.clone().enumerate().filter(|(_, frame)| scan.is_written(*frame)) {
        let chunk = &chunks[frame % chunks.len()];
        let whole = scan.defect != Some(Defect::TruncatedChunk) || frame != scan.middle();
        let stored = if whole { &chunk[..] } else { &chunk[..chunk.len() / 2] };
        write_chunk(&dataset, &[row as u64, 0, 0], 0, stored)?;
    }
    let times: Vec<f64> = range.map(|frame| frame as f64 * EXPOSURE).collect();
    detector.new_dataset_builder().with_data(&times).create("time_of_frame")?;
    Ok(())
}

/// Writes Lima's description of the detector and its settings.
fn describe(detector: &Group, scan: &Scan<'_>) -> Result<()> {
    let options = scan.options;
    let [rows, columns] = options.detector.shape.map(|extent| extent as i32);
    let extent = |parent: &Group, name: &str| {
        let group = group(parent, name, "NXcollection")?;
        scalar(&group, "xsize", columns)?;
        scalar(&group, "ysize", rows)?;
        Ok::<_, hdf5::Error>(group)
    };

    let information = group(detector, "detector_information", "NXcollection")?;
    string(&information, "name", options.detector.device)?;
    string(&information, "type", options.detector.device)?;
    string(&information, "model", options.detector.name)?;
    let pixel = group(&information, "pixel_size", "NXcollection")?;
    scalar(&pixel, "xsize", options.detector.pixel)?;
    scalar(&pixel, "ysize", options.detector.pixel)?;
    extent(&information, "max_image_size")?;

    let acquisition = group(detector, "acquisition", "NXcollection")?;
    string(&acquisition, "mode", "Single")?;
    string(&acquisition, "trigger_mode", "ExtTrigMult")?;
    scalar(&acquisition, "exposure_time", EXPOSURE)?;
    scalar(&acquisition, "latency_time", 0.000_95)?;
    scalar(&acquisition, "nb_frames", options.frames as i32)?;

    let operation = group(detector, "image_operation", "NXcollection")?;
    extent(&operation, "dimension")?;
    let region = extent(&operation, "region_of_interest")?;
    scalar(&region, "xstart", 0)?;
    scalar(&region, "ystart", 0)?;
    let binning = group(&operation, "binning", "NXcollection")?;
    scalar(&binning, "x", 1)?;
    scalar(&binning, "y", 1)?;
    let flipping = group(&operation, "flipping", "NXcollection")?;
    scalar(&flipping, "x", 0_u8)?;
    scalar(&flipping, "y", 0_u8)?;
    string(&operation, "rotation", "Rotation_0")?;
    string(&operation, "bin_mode", "Bin_Sum")?;

    let header = group(detector, "header", "NXcollection")?;
    string(&header, "acq_nb_frames", &options.frames.to_string())?;
    string(&header, "image_rotation", "Rotation_0")
}

/// HDF5's name of a pixel's type.
pub(crate) fn descriptor(dtype: Dtype) -> TypeDescriptor {
    match dtype {
        Dtype::U8 => TypeDescriptor::Unsigned(IntSize::U1),
        Dtype::I8 => TypeDescriptor::Integer(IntSize::U1),
        Dtype::U16 => TypeDescriptor::Unsigned(IntSize::U2),
        Dtype::I16 => TypeDescriptor::Integer(IntSize::U2),
        Dtype::U32 => TypeDescriptor::Unsigned(IntSize::U4),
        Dtype::I32 => TypeDescriptor::Integer(IntSize::U4),
        Dtype::U64 => TypeDescriptor::Unsigned(IntSize::U8),
        Dtype::F32 => TypeDescriptor::Float(hdf5::types::FloatSize::U4),
        Dtype::F64 => TypeDescriptor::Float(hdf5::types::FloatSize::U8),
    }
}
