//! Final files: the patterns of one scan by one recipe, in a NeXus tree that ESRF's viewers show as
//! a plot.
//!
//! ```text
//! /<N>.<M>                     NXentry   title, start_time, end_time; @raw_file, where the raw file was
//!   instrument                 NXinstrument   name; beam (incident_wavelength, incident_energy)
//!     <detector>               NXdetector     description, distance, x_pixel_size, y_pixel_size, poni
//!   sample                     NXsample       name; incident_angle, f64 (points) in deg, if it is that of a motor; in all three links to the other members of the raw groups
//!   measurement                NXcollection: links to the raw counters, and <detector>_integrated, the patterns
//!   <detector>_integrate       NXprocess
//!     configuration            NXnote: recipe and PONI text, digests, versions
//!     integrated               NXdata
//!       intensity              f32 (points[, chi], radial): S / (W g), see [`Normalizer`](crate::Normalizer)
//!       intensity_errors       f32: the standard error of the mean, or the standard deviation of a pixel
//!       points, [chi,] q       the axes, which are HDF5 dimension scales; the radial one is named after its quantity
//!       <motor>                f64 (points): positions of the motor that was scanned, then the first axis in place of points
//!       frame_status           u8 (points): [`Status`](crate::Status), with @flag_values and @flag_meanings
//!       monitor                f64 (points) if the recipe has a monitor, with @reference
//!       norm, norm_sq, count   f64 ([chi,] radial): weights that the frames have in common
//!       signal, variance       f64: the sums, on request and if the detector moves; `exceptions` holds the weight overrides, as in parts
//!     averaged                 NXdata: patterns averaged over frames, on request, see [`Average`]
//!     counters, positioners    NXcollection: numbers of the raw scan, copied
//!     coverage                 NXcollection: task, parts and digests, from which a rerun finds the frames that are done
//! ```
//!
//! A final file may be merged from several others ([`merge()`]); `members` beside `integrated` then
//! names them, with the recipe and PONI text of each. Cakes are stored in compressed chunks,
//! patterns contiguously.
//!
//! **Every frame of the scan has a row.** The row of a frame without a pattern is NaN, and
//! `frame_status` gives the reason.
//!
//! **Layouts.** A *copied* final file holds its data. Its parts stay until it is complete and has
//! been read back, because they hold the sums, and are then removed. A *virtual* final file shows
//! rows of the parts, which stay: it maps what depends on one frame alone (sums, and patterns that
//! need no mean over the scan) and stores what depends on the whole scan (`frame_status`, and
//! patterns whose monitor is divided by its mean). The layout *integrator* is a copied final file
//! that also shows its datasets under the names of ESRF's integrator. The `data_digest` is the same
//! in all layouts. A copied final file with rows that no part has stays a copied one.
//!
//! **Updates.** When there are parts for frames that a final file lacks, or has from a source that
//! has changed, a new final file is written, which takes all other rows from the old one. The rows
//! are exact copies, because a row depends on its own frame alone. If it also depends on the mean
//! of the monitor, parts stay until the scan has ended; if the mean changes even later, that is an
//! error.
//!
//! # Example
//! ```no_run
//! use patterns::output::{self, OutputOptions};
//! use std::path::Path;
//!
//! # fn main() -> Result<(), patterns::output::OutputError> {
//! // Gathers the parts of every scan below the output directory PROCESSED.
//! for target in output::find_outputs(Path::new("PROCESSED")) {
//!     let target = target?;
//!     let outcome = output::build(&target, &OutputOptions::default(), &())?;
//!     println!("{}: {} frames integrated", target.path().display(), outcome.integrated.count());
//! }
//! # Ok(())
//! # }
//! ```

mod absent_frames;
mod average;
mod averaged_patterns;
mod averaging;
mod build;
mod build_outcome;
mod clean;
mod content;
mod counters;
mod digest;
mod error;
mod esrf_integrator_layout;
mod frame_source;
mod inputs;
mod instrument;
mod merge;
mod nexus_tree;
mod options;
mod other_bins;
mod output_search;
mod output_spec;
mod part_index;
mod pattern_labels;
mod policy;
mod raw_links;
mod reader;
mod recorded_sources;
mod row_sources;
mod rows;
mod scan_progress;
mod scanned_motor;
mod schema;
mod timestamp;
mod unusable_output;
mod verified_file;
mod virtual_layout;
mod writer;

pub use average::{Average, AverageMethod, AveragePattern};
pub use averaged_patterns::AveragedPatterns;
pub(crate) use averaging::FrameSumAccumulator;
pub use build::build;
pub use build_outcome::{BuildOutcome, Replaced};
pub use clean::{Leftover, Leftovers, leftovers};
pub(crate) use counters::{FrameNumbers, numbers_digest};
pub use error::OutputError;
pub(crate) use instrument::KEV_ANGSTROM;
pub use merge::{MergeScope, OutdatedMerge, find_outdated_merges, merge};
pub use options::{BuildObserver, OutputOptions, WritePolicy};
pub use output_search::find_outputs;
pub use output_spec::OutputSpec;
pub use part_index::{check_owner, keep_shown_part};
pub(crate) use policy::has_newer_scan;
pub use reader::OutputFile;
pub use rows::OutputRows;
pub(crate) use scanned_motor::axis_dataset_name;
pub(crate) use schema::{create_nexus_group, entry_name, write_statuses};
pub(crate) use timestamp::format_iso8601;

/// Storage of the patterns in a final file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLayout {
    /// The final file holds the patterns.
    #[default]
    Copy,
    /// The final file shows the patterns of the parts.
    Virtual,
    /// The final file holds the patterns, and also shows them under the names of ESRF's integrator.
    Integrator,
}

impl OutputLayout {
    /// Returns the name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Virtual => "virtual",
            Self::Integrator => "integrator",
        }
    }

    /// Returns whether the final file can be read without the parts.
    pub fn holds_patterns(self) -> bool {
        self != Self::Virtual
    }

    /// Returns the layout of this name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Copy, Self::Virtual, Self::Integrator]
            .into_iter()
            .find(|layout| layout.name() == name)
    }
}
