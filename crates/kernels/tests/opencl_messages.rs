//! All error messages of [`kernels::opencl`] with a text of their own, side by side.

use kernels::opencl::{DeviceError, OpenClUnavailable};

#[test]
fn messages_read_as_listed() {
    let messages = [
        (
            DeviceError::OutOfMemory(
                "5000 bytes for a launch of 1 frames, but a queue may use 1000".to_owned(),
            )
            .to_string(),
            "out of memory: 5000 bytes for a launch of 1 frames, but a queue may use 1000",
        ),
        (
            DeviceError::Unsupported(
                "float64 pixels: expected a device with doubles (cl_khr_fp64)".to_owned(),
            )
            .to_string(),
            "float64 pixels: expected a device with doubles (cl_khr_fp64)",
        ),
        (
            DeviceError::WrongSums(7).to_string(),
            "wrong sums of frame 7: they differ from the CPU's",
        ),
        (
            DeviceError::Failed("the device did not answer for 120 s".to_owned()).to_string(),
            "the device did not answer for 120 s",
        ),
        (
            OpenClUnavailable::NoDriver.to_string(),
            "no OpenCL driver found: install the GPU's driver, which must be listed in /etc/OpenCL/vendors; if it is installed \
             but not listed, as in some containers, set OCL_ICD_VENDORS=libnvidia-opencl.so.1, or OCL_ICD_FILENAMES for the \
             Khronos loader; if it is listed, `ldd` on its library says whether one that it needs is missing",
        ),
        (
            OpenClUnavailable::Failed("CL_OUT_OF_HOST_MEMORY".to_owned()).to_string(),
            "OpenCL: listing the devices failed: CL_OUT_OF_HOST_MEMORY",
        ),
    ];
    for (message, expected) in messages {
        assert_eq!(message, expected);
    }
}
