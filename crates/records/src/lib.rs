//! The wire format of azpipe's records: one JSON object per line, which begins with `type`, `v` and `id`.
//!
//! | type | struct | written by |
//! |---|---|---|
//! | `scan` | [`Scan`] | scan-find |
//! | `task` | [`Task`] | plan-split |
//! | `result` | [`TaskResult`] | ai-integrate |
//! | `summary` | [`Summary`] | gather |
//! | `fail` | [`Fail`] | any |
//!
//! Every line can be read on its own. Fields that this version does not know are kept and written again. A record of
//! a newer version is refused. A path that is not UTF-8 is written as `<name>_b64`, the base64 of its bytes, in place
//! of `<name>`.
//!
//! ```
//! use records::{Record, Fail};
//! let line = r#"{"type":"fail","v":1,"id":"0a","stage":"plan-split","about":"/x.h5","error":"no frames","retryable":false,"beamline":"id31"}"#;
//! let Ok(Record::Fail(fail)) = Record::parse(line) else { panic!() };
//! assert_eq!(fail.error, "no frames");
//! assert_eq!(Record::Fail(fail).to_line(), line);
//! ```

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod acquisition;
mod fail;
mod id_hasher;
mod image_operation;
mod mtime;
mod path;
mod result;
mod span;
mod task;
mod wire;

pub use acquisition::{Absent, AbsentKind, Acquisition, Scan, ScanState, Source};
pub use fail::Fail;
pub use id_hasher::IdHasher;
pub use image_operation::{FrameLayout, ImageOperation};
pub use path::{RawPath, relative_path};
pub use result::{Seconds, Summary, TaskResult};
pub use span::{Span, Spans};
pub use task::{MonitorReadings, Task, TaskRecipe};
pub use wire::{Record, RecordError, VERSION};

/// Fields that this version does not know, kept in their order.
pub type Extra = serde_json::Map<String, serde_json::Value>;
