//! Errors of a device.

use ocl::core::{self, Status};

use super::discovery::error_text;

/// An error of a device. The call that returns it has integrated no frame: the caller must
/// integrate them on the CPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The device has too little memory, even for one frame at a time.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// The device or its driver lacks a feature that the integration needs.
    #[error("{0}")]
    Unsupported(String),
    /// The device's sums of the given frame differ from the CPU's.
    #[error("wrong sums of frame {0}: they differ from the CPU's")]
    WrongSums(u64),
    /// The device, its driver or its compiler failed, now or in an earlier call.
    #[error("{0}")]
    Failed(String),
}

impl DeviceError {
    /// Returns the error for a command whose execution status is negative.
    pub(super) fn from_status(code: i32) -> DeviceError {
        let text = format!("a command ended with OpenCL error {code}");
        match code {
            // CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY.
            -6..=-4 => DeviceError::OutOfMemory(text),
            _ => DeviceError::Failed(text),
        }
    }
}

impl From<core::Error> for DeviceError {
    fn from(why: core::Error) -> DeviceError {
        use Status::{
            CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY,
            CL_OUT_OF_RESOURCES,
        };
        let text = error_text(&why);
        match why.api_status() {
            Some(
                CL_MEM_OBJECT_ALLOCATION_FAILURE
                | CL_OUT_OF_RESOURCES
                | CL_OUT_OF_HOST_MEMORY
                | CL_INVALID_BUFFER_SIZE,
            ) => DeviceError::OutOfMemory(text),
            _ => DeviceError::Failed(text),
        }
    }
}
