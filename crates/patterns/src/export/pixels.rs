//! Images of the statistics of each pixel over the frames of a scan, as a NeXus file.
//!
//! ```text
//! /entry                  NXentry    title, start_time, end_time; process (program, version, date, final_file)
//!   mean                  NXdata     mean of each pixel's valid values; NaN if there are none
//!   max                   NXdata     the largest of them
//!   variance              NXdata     their variance, with the sum of squares divided by their number less 1
//!   zeros                 NXdata     in how many frames the pixel is 0
//!   frames                NXdata     in how many frames its value is valid
//!   suggested_mask        NXdata     1 for pixels that are dead, hot or saturated; `kind` says which
//!   statistics            NXcollection: complete, frames, frames_without_statistics, no_measurement
//! ```

use std::path::PathBuf;

use records::{Spans, format_ranges};
use system::ownership::ReplacePolicy;

use super::ExportError;
use super::export_digests::output_root;
use super::hdf5_file::{Hdf5Export, write_entry, write_hdf5_file};
use crate::Status;
use crate::h5::{self, DatasetElement, Group};
use crate::output::{OutputFile, create_nexus_group};
use crate::pixel_statistics::{self, FoundStatistics, StatisticsTotal, SuggestedMask, kind};

/// Images that were written.
#[derive(Debug)]
pub struct WrittenImages {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of frames of which the statistics are.
    pub frames: u64,
    /// Frames that have a pattern and are not in the statistics.
    pub lacking: Spans,
    /// Files that can't be used, with the reasons.
    pub unusable: Vec<String>,
    /// The numbers of pixels that the suggested mask marks.
    pub marked: MarkedPixels,
}

/// Numbers of pixels that a suggested mask marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkedPixels {
    /// Pixels that are zero in all frames, where their neighbours are not.
    pub dead: usize,
    /// Pixels far above their neighbours.
    pub hot: usize,
    /// Pixels that were saturated.
    pub saturated: usize,
    /// All of these; some are of two kinds.
    pub all: usize,
    /// Pixels of a frame.
    pub of_frame: usize,
}

impl MarkedPixels {
    fn new(mask: &SuggestedMask) -> Self {
        Self {
            dead: mask.count(kind::DEAD),
            hot: mask.count(kind::HOT),
            saturated: mask.count(kind::SATURATED),
            all: mask.count(kind::DEAD | kind::HOT | kind::SATURATED),
            of_frame: mask.kinds.len(),
        }
    }
}

/// Writes images of a scan's pixel statistics beside its final file. `invalid` are the values that
/// mean "no measurement" by the final's recipe. A file that exists is replaced if azpipe wrote it, or
/// if `policy` allows it.
///
/// # Errors
/// Fails if there are no statistics that leave out these values, if a file of somebody else has the
/// path, or if a file can't be read or written.
pub fn write_pixel_images(
    output: &OutputFile,
    invalid: &[[i64; 2]],
    policy: &ReplacePolicy,
) -> Result<WrittenImages, ExportError> {
    let wrong = |why: String| ExportError::PixelStatistics { path: output.path.clone(), why };
    let root = output_root(output).ok_or_else(|| {
        wrong("was moved, so that the statistics of its scan are not found".to_owned())
    })?;
    let FoundStatistics { files, unusable, other_rule } =
        pixel_statistics::find_for_final(root, &output.task, invalid);
    let unusable: Vec<String> = unusable.iter().map(ToString::to_string).collect();
    if files.is_empty() {
        let why = match (unusable.first(), other_rule) {
            (_, Some(other)) => format!(
                "the pixel statistics of its scan leave out these values: {}; its recipe leaves out: {}; run ai-integrate \
                 --pixel-stats with the tasks of this recipe",
                describe_ranges(&other),
                describe_ranges(invalid)
            ),
            (Some(first), None) => {
                format!("its scan has no pixel statistics that can be used: {first}")
            }
            (None, None) => {
                "its scan has no pixel statistics: run ai-integrate with --pixel-stats".to_owned()
            }
        };
        return Err(wrong(why));
    }
    let frames = Spans::union_all(files.iter().map(|file| file.frames()));
    let has_pattern = |(_, status): &(u64, &Status)| **status == Status::Ok;
    let with_pattern: Spans =
        (0..).zip(&output.status).filter(has_pattern).map(|(frame, _)| frame).collect();
    let lacking = with_pattern.difference(&frames);
    let total = StatisticsTotal::read(files).map_err(|why| wrong(why.to_string()))?;
    let columns = output.task.acquisition.shape[1] as usize;
    let mask = SuggestedMask::new(&total, columns, saturation_value(output));
    let images =
        Images { output, total: &total, mask: &mask, frames: &frames, lacking: &lacking, invalid };
    let export = Hdf5Export { extension: "pixels.h5", mark: "process/program" };
    let mut paths = write_hdf5_file(&export, output, policy, |file| {
        let (entry, _) = write_entry(file, output, "mean")?;
        Ok(images.write(&entry)?)
    })?;
    let path = paths.pop().unwrap_or_default();
    let marked = MarkedPixels::new(&mask);
    Ok(WrittenImages { path, frames: frames.count(), lacking, unusable, marked })
}

/// Returns the least value that counts as saturated: the recipe's valid-max, or else the largest
/// value of the pixels' type.
fn saturation_value(output: &OutputFile) -> f64 {
    output.recipe.valid_max.unwrap_or(match output.task.acquisition.dtype.as_str() {
        "u8" => u8::MAX.into(),
        "i8" => i8::MAX.into(),
        "u16" => u16::MAX.into(),
        "i16" => i16::MAX.into(),
        "i32" => i32::MAX.into(),
        _ => u32::MAX.into(),
    })
}

/// The content of a file of images.
struct Images<'a> {
    output: &'a OutputFile,
    total: &'a StatisticsTotal,
    mask: &'a SuggestedMask,
    frames: &'a Spans,
    lacking: &'a Spans,
    invalid: &'a [[i64; 2]],
}

impl Images<'_> {
    fn write(&self, entry: &Group) -> h5::Result<()> {
        let total = self.total;
        self.write_image(entry, "mean", "mean of the valid values", &total.means())?;
        self.write_image(entry, "max", "largest valid value", &total.maxima())?;
        self.write_image(entry, "variance", "variance of the valid values", &total.variances())?;
        self.write_image(entry, "zeros", "frames in which the pixel is 0", &total.zeros())?;
        let valid = total.valid_frames();
        self.write_image(entry, "frames", "frames with a valid value", &valid)?;
        self.write_mask(entry)?;
        let about = create_nexus_group(entry, "statistics", "NXcollection")?;
        let all_ranges = |frames: &Spans| format_ranges(frames, usize::MAX);
        about.write_scalar("complete", u8::from(self.lacking.is_empty()))?;
        about.write_scalar("frame_count", self.frames.count())?;
        about.write_text("frames", &all_ranges(self.frames))?;
        about.write_text("frames_without_statistics", &all_ranges(self.lacking))?;
        about.write_text("no_measurement", &describe_ranges(self.invalid))?;
        Ok(())
    }

    fn write_mask(&self, entry: &Group) -> h5::Result<()> {
        let kinds = &self.mask.kinds;
        let mask: Vec<u8> = kinds.iter().map(|kinds| u8::from(*kinds != 0)).collect();
        let title = "pixels that are dead, hot or saturated";
        let group = self.write_image(entry, "suggested_mask", title, &mask)?;
        let shape = self.output.task.acquisition.shape.map(|length| length as usize);
        let kind = group.write_array("kind", kinds, &shape)?;
        kind.set_text("interpretation", "image")?;
        kind.set_text("long_name", "sum of 1 (dead), 2 (hot) and 4 (saturated)")
    }

    /// Writes an image as a group with a plot of its own, and returns the group.
    fn write_image<T: DatasetElement>(
        &self,
        entry: &Group,
        name: &str,
        title: &str,
        values: &[T],
    ) -> h5::Result<Group> {
        let group = create_nexus_group(entry, name, "NXdata")?;
        group.set_text("signal", name)?;
        let shape = self.output.task.acquisition.shape.map(|length| length as usize);
        let image = group.write_array(name, values, &shape)?;
        image.set_text("interpretation", "image")?;
        image.set_text("long_name", title)?;
        group.write_text("title", &format!("{title}, of {} frames", self.frames.count()))?;
        Ok(group)
    }
}

/// Names ranges of values, as in `-2 to -1`; `none` if there are none.
fn describe_ranges(ranges: &[[i64; 2]]) -> String {
    let name = |[low, high]: &[i64; 2]| match low == high {
        true => low.to_string(),
        false => format!("{low} to {high}"),
    };
    match ranges {
        [] => "none".to_owned(),
        ranges => ranges.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}
