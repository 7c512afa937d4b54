//! Buffers in the memory of a device, and pinned buffers in the memory of the host.

use ocl::core::{self, CommandQueue, Context, MapFlags, Mem, MemFlags, MemMap};

use super::error::DeviceError;

/// A type that may be copied byte by byte to a device and back.
pub(super) trait DevicePod: ocl::OclPrm {}

impl<T: ocl::OclPrm> DevicePod for T {}

/// A buffer in the memory of a device.
pub(super) struct DeviceBuffer {
    pub(super) mem: Mem,
}

impl DeviceBuffer {
    /// Allocates an uninitialized buffer of at least `bytes` bytes.
    pub(super) fn new(context: &Context, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        // OpenCL has no empty buffers.
        let bytes = bytes.max(8);
        // SAFETY: The call is unsafe because a buffer may refer to host memory that must outlive
        // it. No host pointer is given here, so the driver allocates memory of its own, and `Mem`
        // counts the references to it. The length is not 0. The contents are undefined until a
        // command writes them; kernels and `wait_and_read` read only what was written before.
        let mem =
            unsafe { core::create_buffer::<_, u8>(context, MemFlags::READ_WRITE, bytes, None) }?;
        Ok(DeviceBuffer { mem })
    }

    /// Allocates a buffer that kernels may only read, with a copy of `data`.
    pub(super) fn from_slice<T: DevicePod>(
        context: &Context,
        data: &[T],
    ) -> Result<DeviceBuffer, DeviceError> {
        let one = [T::default()];
        let data = if data.is_empty() { &one } else { data };
        let flags = MemFlags::READ_ONLY | MemFlags::COPY_HOST_PTR;
        // SAFETY: The driver reads `data.len()` elements from the slice. `COPY_HOST_PTR` makes it
        // copy them before the call returns, so the buffer does not refer to the slice afterwards;
        // `USE_HOST_PTR` would break this. `T` is `OclPrm`: plain data without padding or pointers.
        // The length is not 0.
        let mem = unsafe { core::create_buffer(context, flags, data.len(), Some(data)) }?;
        Ok(DeviceBuffer { mem })
    }
}

/// Page-locked memory of the host, which a device can copy from and to by DMA.
///
/// The buffer is mapped until it is dropped. Commands that use it must have ended before it is
/// accessed or dropped: [`super::queue::DeviceQueue`] waits for them, or leaks the buffer if it
/// can't.
pub(super) struct PinnedBuffer {
    mem: Mem,
    map: MemMap<u8>,
    bytes: usize,
    queue: CommandQueue,
}

// SAFETY: `MemMap` holds a raw pointer and is therefore not `Send`. The pointer is not bound to a
// thread: it refers to memory mapped into the process, and this value is its only owner. OpenCL 1.2
// (appendix A.2) requires that all API calls used here, including unmapping in `drop`, can be made
// from any thread. A copy of the `MemMap` kept elsewhere would break this; the field is private and
// never handed out.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocates and maps a buffer of at least `bytes` bytes, all 0.
    pub(super) fn new(
        context: &Context,
        queue: &CommandQueue,
        bytes: usize,
    ) -> Result<PinnedBuffer, DeviceError> {
        let bytes = bytes.max(8);
        let flags = MemFlags::READ_WRITE | MemFlags::ALLOC_HOST_PTR;
        // SAFETY: The call is unsafe because a buffer may refer to host memory that must outlive
        // it. No host pointer is given here: `ALLOC_HOST_PTR` makes the driver allocate the memory.
        // The length is not 0.
        let mem = unsafe { core::create_buffer::<_, u8>(context, flags, bytes, None) }?;
        let access = MapFlags::READ | MapFlags::WRITE;
        // SAFETY: The range 0..bytes is the buffer just created, so it is within bounds and no
        // other command uses it. The call blocks, so the memory is accessible when it returns. The
        // mapping is undone once, in `drop`, and `mem` is kept as long as `map`. Enqueueing a
        // command on `mem` itself while it is mapped would break this; commands get the mapped
        // memory as a host pointer only.
        let map = unsafe {
            core::enqueue_map_buffer::<u8, _, _, _>(
                queue, &mem, true, access, 0, bytes, NO_WAIT, NO_EVENT,
            )
        }?;
        let mut pinned = PinnedBuffer { mem, map, bytes, queue: queue.clone() };
        pinned.as_mut_slice().fill(0);
        Ok(pinned)
    }

    /// Returns the whole buffer. No queued command may be using the part that the caller accesses.
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: The memory is mapped for reading and writing from `new` to `drop`, `bytes` long,
        // and initialized: `new` fills it, if only through this function, and `u8` has no invalid
        // values. `&mut self` rules out other references. A device may write to the memory behind
        // the compiler's back while a read command is queued. `DeviceQueue` therefore reads results
        // only after their last command has ended, and disjoint parts otherwise.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // If the driver fails here, the memory leaks. Nothing can be done about it.
        let _ =
            core::enqueue_unmap_mem_object(&self.queue, &self.mem, &self.map, NO_WAIT, NO_EVENT);
        let _ = core::flush(&self.queue);
    }
}

/// The wait list of commands that wait only for the commands before them in their queue.
pub(super) const NO_WAIT: Option<&core::Event> = None;

/// The event of commands that nothing waits for.
pub(super) const NO_EVENT: Option<&mut core::Event> = None;
