//! Finals: one scan by one recipe, in the tree that ESRF's viewers open with a plot.
//!
//! ```text
//! /<N>.<M>                     NXentry   title, start_time, end_time; instrument and sample of the raw file
//!   measurement                NXcollection: the raw counters, and <detector>_integrated, the patterns
//!   <detector>_integrate       NXprocess
//!     configuration            NXnote: recipe and PONI text, digests, versions
//!     integrated               NXdata
//!       intensity              f32 (points[, chi], radial): S / (W g), see [`Normalizer`](crate::Finish)
//!       intensity_errors       f32: the standard error of the mean, or the standard deviation of a pixel
//!       points, [chi,] q       the axes; the radial one is named after its quantity
//!       frame_status           u8 (points), its meanings as attributes
//!       monitor                f64 (points), where the recipe has one, with @reference
//!       norm, norm_sq, count   f64 ([chi,] radial), once
//!       signal, variance       f64: the sums, on request; `weight_overrides` holds the weights that differ
//!     averaged                 NXdata: patterns of many frames, on request, see [`Average`]
//!     counters, positioners    NXcollection: numbers of the raw scan, copied
//!     coverage                 NXcollection: what a rerun asks for, and the digests of all of it
//! ```
//!
//! A union of several finals ([`merge()`]) is such a file, too; `members` beside `integrated` says of which, with the recipe and PONI
//! text of each. Cakes are stored in compressed chunks, patterns in one piece.
//!
//! **Every frame of the scan has a row**, whatever is missing. A row that no file gives is NaN, and
//! `frame_status` says why.
//!
//! **Layouts.** A copied final holds its data; its parts go once it is complete and has been read back.
//! Until then they stay, for they hold the sums. A virtual final shows rows of the parts, which stay:
//! what depends on a frame alone (sums, and patterns that need no mean over the scan) is mapped, and
//! what depends on the scan as a whole (`frame_status`, and patterns whose monitor is divided by its
//! mean) is stored. A final of the layout `integrator_layout` is a copied one that shows its datasets under the names of ESRF's integrator as
//! well. All have the same `data_digest`. What an earlier copied final alone still holds is
//! never given up: such a final stays a copied one.
//!
//! **Growing.** When parts come for frames that a final lacks, or holds from a source that has changed
//! since, its other rows are taken over. That is exact, for a row depends on its own frame alone; where
//! it also depends on the mean of the monitor, parts stay until the scan itself has ended, and a mean
//! that changes even after that is an error, not an approximation.

mod absent_frames;
mod average;
mod average_group;
mod build;
mod clean;
mod counters;
mod digest;
mod error;
mod frame_source;
mod integrator_layout;
mod median;
mod merge;
mod options;
mod outcome;
mod output_spec;
mod part_index;
mod raw_links;
mod reader;
mod row_sources;
mod rows;
mod schema;
mod timestamp;
mod virtual_layout;
mod writer;

pub use average::{Average, AverageMethod, AveragePattern};
pub use average_group::AveragedPatterns;
pub use build::build;
pub use clean::{Leftover, Leftovers, leftovers};
pub use error::OutputError;
pub use merge::{MergeScope, merge};
pub use options::{BuildObserver, OutputOptions, WritePolicy};
pub use outcome::BuildOutcome;
pub use output_spec::OutputSpec;
pub use part_index::find_outputs;
pub use reader::OutputFile;
pub use rows::OutputRows;
pub(crate) use schema::create_nexus_group;
pub(crate) use timestamp::format_iso8601;

/// How a final stores its patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLayout {
    /// It holds them.
    #[default]
    Copy,
    /// It shows those of the parts.
    Virtual,
    /// It holds them, and shows them under the names of ESRF's integrator, too.
    Integrator,
}

impl OutputLayout {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Virtual => "virtual",
            Self::Integrator => "integrator",
        }
    }

    /// Whether the final needs no parts to be read.
    pub fn holds_patterns(self) -> bool {
        self != Self::Virtual
    }

    /// Reads its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Copy, Self::Virtual, Self::Integrator].into_iter().find(|layout| layout.name() == name)
    }
}
