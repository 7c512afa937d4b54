//! Why a device did not do what it was asked for.

use ocl::core::{self, Status};

use super::discovery::error_text;

/// A device fails, or lacks something. Frames are never lost by it: the processor can integrate them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// More memory is needed than there is, even for one frame at a time.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// It is not made for this.
    #[error("{0}")]
    Unsupported(String),
    /// Its sums of a frame are not those of the processor.
    #[error("wrong sums of frame {0}")]
    WrongSums(u64),
    /// It, its driver or its compiler fails, now or before.
    #[error("{0}")]
    Failed(String),
}

impl DeviceError {
    /// What a command ended with.
    pub(super) fn from_status(code: i32) -> DeviceError {
        match code {
            -6..=-4 => DeviceError::OutOfMemory(format!("a command ended with {code}")),
            _ => DeviceError::Failed(format!("a command ended with {code}")),
        }
    }
}

impl From<core::Error> for DeviceError {
    fn from(why: core::Error) -> DeviceError {
        use Status::{
            CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES,
        };
        let text = error_text(&why);
        match why.api_status() {
            Some(
                CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_RESOURCES | CL_OUT_OF_HOST_MEMORY | CL_INVALID_BUFFER_SIZE,
            ) => DeviceError::OutOfMemory(text),
            _ => DeviceError::Failed(text),
        }
    }
}
