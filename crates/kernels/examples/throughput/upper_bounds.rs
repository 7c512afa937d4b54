//! What bounds a device's rate, measured on it beside the rate: copies to it, and its memory.
#![allow(unsafe_code)] // OpenCL is a C interface; each use says why it is sound.

use std::ffi::{CStr, CString};
use std::time::Instant;

use kernels::opencl::DeviceDescription;
use ocl::core::{
    self, ArgVal, CommandQueue, Context, DeviceId, DeviceInfo, DeviceType, Event, MapFlags, Mem, MemFlags, MemMap,
    PlatformInfo, Result,
};

/// Bytes that are copied at a time: more than caches hold.
const BYTES: usize = 256 << 20;

/// Each is measured so often, after once that is not counted; the best counts.
const REPEATS: usize = 5;

const SOURCE: &CStr = c"__kernel void copy(__global const uint4 *from, __global uint4 *to)
{ size_t i = get_global_id(0); to[i] = from[i]; }";

/// Lanes of a work-group of the copy: any device can do that.
const GROUP: usize = 64;

/// Bytes a second.
pub struct Bounds {
    /// From pinned memory of the host to the device.
    pub copy: f64,
    /// Through the device's memory, reading and writing.
    pub memory: f64,
}

impl Bounds {
    /// Those of a device; of two alike, of either.
    ///
    /// # Errors
    /// The driver fails.
    pub fn measure(description: &DeviceDescription) -> Result<Bounds> {
        let device = find(description)?;
        let context = core::create_context(None, &[device], None, None)?;
        let queue = core::create_command_queue(&context, device, None)?;
        let buffer = |flags| {
            // SAFETY: without data there is nothing that must outlive the call.
            unsafe { core::create_buffer::<_, u8>(&context, flags, BYTES, None) }
        };
        let (one, other) = (buffer(MemFlags::READ_WRITE)?, buffer(MemFlags::READ_WRITE)?);
        let pinned = buffer(MemFlags::READ_WRITE | MemFlags::ALLOC_HOST_PTR)?;
        let copy = copy(&queue, &pinned, &one)?;
        let memory = memory(&context, device, &queue, [&one, &other])?;
        Ok(Bounds { copy, memory })
    }
}

fn find(description: &DeviceDescription) -> Result<DeviceId> {
    for platform in core::get_platform_ids()? {
        let name = core::get_platform_info(platform, PlatformInfo::Name)?.to_string();
        if name.trim() != description.platform {
            continue;
        }
        for device in core::get_device_ids(platform, Some(DeviceType::ALL), None)? {
            if core::get_device_info(device, DeviceInfo::Name)?.to_string().trim() == description.name {
                return Ok(device);
            }
        }
    }
    Err("the device is not listed any more".into())
}

/// The rate of so many bytes a call of `bin_buffer`.
fn rate(bytes: usize, queue: &CommandQueue, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = 0f64;
    for repeat in 0..=REPEATS {
        let began = Instant::now();
        work()?;
        core::finish(queue)?;
        if repeat > 0 {
            best = best.max(bytes as f64 / began.elapsed().as_secs_f64());
        }
    }
    Ok(best)
}

fn copy(queue: &CommandQueue, pinned: &Mem, to: &Mem) -> Result<f64> {
    let access = MapFlags::READ | MapFlags::WRITE;
    // SAFETY: the whole of a buffer that nothing else uses, unmapped below.
    let mut map: MemMap<u8> =
        unsafe { core::enqueue_map_buffer(queue, pinned, true, access, 0, BYTES, None::<&Event>, None::<&mut Event>) }?;
    // SAFETY: mapped, and written before it is read.
    let bytes = unsafe {
        map.as_mut_ptr().write_bytes(1, BYTES);
        std::slice::from_raw_parts(map.as_ptr(), BYTES)
    };
    let rate = rate(BYTES, queue, || {
        // SAFETY: the bytes stay until the queue has finished.
        unsafe { core::enqueue_write_buffer(queue, to, false, 0, bytes, None::<&Event>, None::<&mut Event>) }
    });
    core::enqueue_unmap_mem_object(queue, pinned, &map, None::<&Event>, None::<&mut Event>)?;
    core::finish(queue)?;
    rate
}

fn memory(context: &Context, device: DeviceId, queue: &CommandQueue, [from, to]: [&Mem; 2]) -> Result<f64> {
    let program = core::create_program_with_source(context, &[CString::from(SOURCE)])?;
    core::build_program(&program, Some(&[device]), &CString::default(), None, None)?;
    let kernel = core::create_kernel(&program, "copy")?;
    core::set_kernel_arg(&kernel, 0, ArgVal::mem(from))?;
    core::set_kernel_arg(&kernel, 1, ArgVal::mem(to))?;
    let lanes = [BYTES / 16, 1, 1];
    rate(2 * BYTES, queue, || {
        let group = Some([GROUP, 1, 1]);
        // SAFETY: as many lanes as both buffers have elements.
        unsafe { core::enqueue_kernel(queue, &kernel, 1, None, &lanes, group, None::<&Event>, None::<&mut Event>) }
    })
}
