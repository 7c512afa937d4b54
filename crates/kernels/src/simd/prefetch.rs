//! Prefetching where the hardware prefetcher can't follow.

/// Prefetches bytes into the second-level cache, to be read some thousand cycles later. Frames are
/// read in turn, a tile of each, so the hardware prefetcher can't follow.
#[allow(unsafe_code)]
pub(crate) fn prefetch_bytes(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: A prefetch is a hint: it reads no value, and an address that is not mapped causes
        // no fault. The pointer comes from a slice anyway. The instruction is part of SSE, which
        // every x86-64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Prefetches the cache line that a value starts in into the first-level cache.
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) fn prefetch_value<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: A prefetch is a hint: it reads no value, and an address that is not mapped causes
        // no fault. The pointer comes from a reference anyway. The instruction is part of SSE,
        // which every x86-64 processor has.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
