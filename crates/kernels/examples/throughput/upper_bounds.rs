//! Measures the upper bounds of a device's throughput: the bandwidth of copies to it, and of its
//! memory.
#![allow(unsafe_code)] // OpenCL is a C interface; each use says why it is sound.

use std::ffi::{CStr, CString};
use std::time::Instant;

use kernels::opencl::DeviceDescription;
use ocl::core::{
    self, ArgVal, CommandQueue, Context, DeviceId, DeviceInfo, DeviceType, Event, MapFlags, Mem,
    MemFlags, MemMap, PlatformInfo, Result,
};

/// Bytes of one copy: more than caches hold.
const BYTES: usize = 256 << 20;

/// Number of measurements, after one that is discarded. The best one is taken.
const REPEATS: usize = 5;

const SOURCE: &CStr = c"__kernel void copy(__global const uint4 *from, __global uint4 *to)
{ size_t i = get_global_id(0); to[i] = from[i]; }";

/// Lanes per work-group of the copy kernel. All devices support it.
const GROUP: usize = 64;

/// Bandwidths in bytes per second.
pub struct Bounds {
    /// Copies from pinned memory of the host to the device.
    pub copy: f64,
    /// Reads and writes of the device's memory, together.
    pub memory: f64,
}

impl Bounds {
    /// Measures the bandwidths of a device. Of several devices with equal descriptions, one is
    /// measured.
    ///
    /// # Errors
    /// The driver fails.
    pub fn measure(description: &DeviceDescription) -> Result<Bounds> {
        let device = find(description)?;
        let context = core::create_context(None, &[device], None, None)?;
        let queue = core::create_command_queue(&context, device, None)?;
        let buffer = |flags| {
            // SAFETY: The call is unsafe because a buffer may refer to host memory that must
            // outlive it. No host pointer is given, so the driver allocates the memory.
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
            if core::get_device_info(device, DeviceInfo::Name)?.to_string().trim()
                == description.name
            {
                return Ok(device);
            }
        }
    }
    Err("the device is not listed any more".into())
}

/// Measures the bandwidth of a call that copies `bytes` bytes.
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
    // SAFETY: The range is the whole buffer, which no other command uses. The call blocks, so the
    // memory is accessible when it returns, and it is unmapped below, after the last use.
    let mut map: MemMap<u8> = unsafe {
        core::enqueue_map_buffer(
            queue,
            pinned,
            true,
            access,
            0,
            BYTES,
            None::<&Event>,
            None::<&mut Event>,
        )
    }?;
    // SAFETY: The memory is mapped for writing, as long as the slice, and not referred to
    // elsewhere. `u8` has no invalid values, and `write_bytes` fills the memory before the slice is
    // made.
    let bytes = unsafe {
        map.as_mut_ptr().write_bytes(1, BYTES);
        std::slice::from_raw_parts(map.as_ptr(), BYTES)
    };
    let rate = rate(BYTES, queue, || {
        // SAFETY: The write does not block. The bytes stay mapped and unchanged until `finish` has
        // returned, and the device buffer is as long.
        unsafe {
            core::enqueue_write_buffer(
                queue,
                to,
                false,
                0,
                bytes,
                None::<&Event>,
                None::<&mut Event>,
            )
        }
    });
    core::enqueue_unmap_mem_object(queue, pinned, &map, None::<&Event>, None::<&mut Event>)?;
    core::finish(queue)?;
    rate
}

fn memory(
    context: &Context,
    device: DeviceId,
    queue: &CommandQueue,
    [from, to]: [&Mem; 2],
) -> Result<f64> {
    let program = core::create_program_with_source(context, &[CString::from(SOURCE)])?;
    core::build_program(&program, Some(&[device]), &CString::default(), None, None)?;
    let kernel = core::create_kernel(&program, "copy")?;
    core::set_kernel_arg(&kernel, 0, ArgVal::mem(from))?;
    core::set_kernel_arg(&kernel, 1, ArgVal::mem(to))?;
    let lanes = [BYTES / 16, 1, 1];
    rate(2 * BYTES, queue, || {
        let group = Some([GROUP, 1, 1]);
        // SAFETY: The kernel accesses element `get_global_id(0)` of both buffers, and there are as
        // many lanes as the buffers have elements. The arguments are those of the kernel, and the
        // buffers outlive the call to `finish`.
        unsafe {
            core::enqueue_kernel(
                queue,
                &kernel,
                1,
                None,
                &lanes,
                group,
                None::<&Event>,
                None::<&mut Event>,
            )
        }
    })
}
