//! Memory of a device, and memory of the host that a device can reach.

use ocl::core::{self, CommandQueue, Context, MapFlags, Mem, MemFlags, MemMap};

use super::error::DeviceError;

/// What may be copied byte by byte to a device and back.
pub(super) trait DevicePod: ocl::OclPrm {}

impl<T: ocl::OclPrm> DevicePod for T {}

/// A device's buffer.
pub(super) struct DeviceBuffer {
    pub(super) mem: Mem,
}

impl DeviceBuffer {
    /// Uninitialized.
    pub(super) fn new(context: &Context, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        // OpenCL has no empty buffers.
        let bytes = bytes.max(8);
        // SAFETY: without data there is nothing that must outlive the call.
        let mem = unsafe { core::create_buffer::<_, u8>(context, MemFlags::READ_WRITE, bytes, None) }?;
        Ok(DeviceBuffer { mem })
    }

    /// A copy of `data`, for kernels to read.
    pub(super) fn from_slice<T: DevicePod>(context: &Context, data: &[T]) -> Result<DeviceBuffer, DeviceError> {
        let one = [T::default()];
        let data = if data.is_empty() { &one } else { data };
        let flags = MemFlags::READ_ONLY | MemFlags::COPY_HOST_PTR;
        // SAFETY: `data` is `data.len()` long, and copied before the call returns.
        let mem = unsafe { core::create_buffer(context, flags, data.len(), Some(data)) }?;
        Ok(DeviceBuffer { mem })
    }
}

/// Memory of the host that stays where it is, so that a device can copy from and to it by itself. It is mapped for as
/// long as it lives; commands that use it must have ended before it is touched or dropped.
pub(super) struct PinnedBuffer {
    mem: Mem,
    map: MemMap<u8>,
    bytes: usize,
    queue: CommandQueue,
}

// SAFETY: a plain piece of memory with one owner; OpenCL's objects may be used from any thread.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    pub(super) fn new(context: &Context, queue: &CommandQueue, bytes: usize) -> Result<PinnedBuffer, DeviceError> {
        let bytes = bytes.max(8);
        let flags = MemFlags::READ_WRITE | MemFlags::ALLOC_HOST_PTR;
        // SAFETY: without data there is nothing that must outlive the call.
        let mem = unsafe { core::create_buffer::<_, u8>(context, flags, bytes, None) }?;
        let access = MapFlags::READ | MapFlags::WRITE;
        // SAFETY: the whole of a buffer that nothing else uses; the map ends in `drop`.
        let map =
            unsafe { core::enqueue_map_buffer::<u8, _, _, _>(queue, &mem, true, access, 0, bytes, NO_WAIT, NO_EVENT) }?;
        let mut pinned = PinnedBuffer { mem, map, bytes, queue: queue.clone() };
        pinned.as_mut_slice().fill(0);
        Ok(pinned)
    }

    /// All of it; no command may be using it.
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: mapped, initialized, `bytes` long, and borrowed from its one owner.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // Should the driver fail here, the memory is lost, which nobody can help.
        let _ = core::enqueue_unmap_mem_object(&self.queue, &self.mem, &self.map, NO_WAIT, NO_EVENT);
        let _ = core::flush(&self.queue);
    }
}

/// For commands that wait for none but those before them in their queue.
pub(super) const NO_WAIT: Option<&core::Event> = None;

/// For commands that nobody waits for.
pub(super) const NO_EVENT: Option<&mut core::Event> = None;
