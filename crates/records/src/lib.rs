//! The records that azpipe's filters exchange, and the best page to begin with: it defines the
//! words of all crates.
//!
//! # The pipe
//! azpipe turns detector frames into diffraction patterns. Its programs are Unix filters, which
//! read and write records:
//!
//! ```sh
//! scan-find /data/visitor | plan-split --poni lab6.poni --out PROCESSED | ai-integrate | gather > summaries.jsonl
//! ```
//!
//! | filter | reads | writes |
//! |---|---|---|
//! | scan-find | paths | a `scan` record ([`Scan`]) for each scan and detector |
//! | plan-split | `scan` | `task` records ([`Task`]), each a range of frames and the recipes to apply |
//! | ai-integrate | `task` | `result` records ([`TaskResult`]), and a part file for each task and recipe |
//! | gather | `result` | `summary` records ([`Summary`]), and the final file of each scan and recipe |
//! | slurm-emit | `task` | a directory of job scripts that run ai-integrate on a cluster |
//! | any | | `fail` records ([`Fail`]), one for each input that can't be processed |
//!
//! # Words
//! | word | meaning |
//! |---|---|
//! | master | HDF5 file by which scans are opened; it links to the files with the frames |
//! | entry | group of a master that describes one measurement, such as `1.1` (NeXus: NXentry) |
//! | scan | the frames that one detector took during one entry: [`Acquisition`] |
//! | frame | one image of the detector. The frames of a scan are numbered from 0 |
//! | source | a dataset or image file that holds some frames of the scan: [`Source`] |
//! | recipe | all settings of an integration, known by the digest of their values |
//! | pattern | intensity over the radial axis: the result for a frame |
//! | cake | pattern with a second, azimuthal axis |
//! | monitor | quantity such as the photon flux that a frame's intensities are divided by |
//! | task | work that can be run alone: a range of frames of one scan, and recipes |
//! | part | HDF5 file with the sums of a task's frames by one recipe, below `OUT/.azpipe/parts` |
//! | final, final file | HDF5 file with the patterns of all frames of one scan by one recipe: the result |
//! | output root | the directory `OUT` of finals and parts: `plan-split --out` |
//!
//! # The format
//! A record is one JSON object on one line, which begins with `type`, `v` and `id`. Every line can
//! be read on its own. Fields that this version does not know are kept and written again. A record
//! of a newer version is refused. A path that is not UTF-8 is written as `<name>_b64`, the base64
//! of its bytes, in place of `<name>`.
//!
//! ```
//! use records::{Record, Fail};
//! let line = r#"{"type":"fail","v":1,"id":"0a","stage":"plan-split","about":"/x.h5","error":"no frames","retryable":false,"beamline":"id31"}"#;
//! let Ok(Record::Fail(fail)) = Record::parse(line) else { panic!() };
//! assert_eq!(fail.error, "no frames");
//! assert_eq!(Record::Fail(fail).to_line(), line);
//! ```

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod absent;
mod acquisition;
mod error;
mod fail;
mod id_hasher;
mod image_operation;
mod mtime;
mod path;
mod result;
mod source;
mod span;
mod task;
mod text;
mod valid;
mod wire;

pub use absent::{Absent, AbsentKind};
pub use acquisition::{Acquisition, Scan, ScanState};
pub use error::FieldError;
pub use fail::Fail;
pub use id_hasher::IdHasher;
pub use image_operation::{FrameLayout, ImageOperation};
pub use path::{RawPath, relative_path};
pub use result::{Seconds, Summary, TaskResult};
pub use source::Source;
pub use span::{Span, Spans, SpansError};
pub use task::{MonitorReadings, Task, TaskRecipe};
pub use text::{format_count, format_frames, format_ranges};
pub use wire::{Record, RecordError, VERSION};

/// Fields that this version does not know, kept in their order.
pub type Extra = serde_json::Map<String, serde_json::Value>;
