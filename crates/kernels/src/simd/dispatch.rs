//! [`Isa`], the instruction sets, and the choice of one at run time.

use super::portable::Portable;
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Avx512};
use super::{Kernel, Simd};

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The instructions of the compiler's target, such as SSE2 on x86-64; 8 frames interleaved.
    Portable,
    /// AVX2 and FMA; 8 frames interleaved.
    Avx2,
    /// AVX-512 (F, BW, VL, DQ); 16 frames interleaved, or 8 if a call has no more.
    Avx512,
    /// AVX-512 (F, BW, VL, DQ) with VBMI and GFNI; 16 frames interleaved, or 8 if a call has no
    /// more.
    Avx512Gfni,
}

impl Isa {
    /// All instruction sets, the fastest first.
    const ALL: [Isa; 4] = [Isa::Avx512Gfni, Isa::Avx512, Isa::Avx2, Isa::Portable];

    /// Returns the instruction sets that this processor supports, the fastest first.
    pub fn available() -> Vec<Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Returns the fastest instruction set that this processor supports.
    pub(crate) fn fastest() -> Isa {
        Isa::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Portable)
    }

    fn is_available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Gfni => Avx512::detect_with_gfni().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Runs a kernel with this instruction set, or with [`Isa::Portable`] if the processor lacks
    /// it.
    ///
    /// The features are looked up at each call, which costs nothing for kernels that work on whole
    /// blocks.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[cfg(target_arch = "x86_64")]
        match self {
            Isa::Avx512Gfni => {
                if let Some(simd) = Avx512::detect_with_gfni() {
                    return simd.run(kernel);
                }
            }
            Isa::Avx512 => {
                if let Some(simd) = Avx512::detect() {
                    return simd.run(kernel);
                }
            }
            Isa::Avx2 => {
                if let Some(simd) = Avx2::detect() {
                    return simd.run(kernel);
                }
            }
            Isa::Portable => {}
        }
        Portable.run(kernel)
    }

    /// Returns how many frames are interleaved at most.
    pub(crate) fn lanes(self) -> usize {
        /// A kernel that tells the lanes of the instruction set that it runs with.
        struct Lanes;

        impl Kernel for Lanes {
            type Output = usize;

            #[inline(always)]
            fn run<S: Simd>(self, _: S) -> usize {
                if S::HAS_16_LANES { 16 } else { 8 }
            }
        }

        self.run(Lanes)
    }
}
