//! The device that tests run on.

use std::sync::Arc;

use kernels::opencl::{Device, Settings, devices};

/// The first device that there is. Its lack is a failure in CI.
pub fn device(settings: Settings) -> Option<Arc<Device>> {
    let found = devices().map(|all| all.into_iter().find(|device| device.unusable.is_none()));
    match found {
        Ok(Some(description)) => Some(Arc::new(Device::open(&description, settings).expect("a device that works"))),
        why => {
            assert!(std::env::var_os("CI").is_none(), "no OpenCL device ({why:?}): scripts/setup tests installs PoCL");
            None
        }
    }
}
