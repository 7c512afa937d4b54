//! The kernels, compiled for a device; what its compiler made is kept in files.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use filter::atomic;
use filter::ownership::{self, OwnedFiles};
use ocl::core::{self, Context, DeviceId, Program, ProgramBuildInfo, ProgramInfo, ProgramInfoResult};
use xxhash_rust::xxh3::xxh3_64;

use super::csr;
use super::error::DeviceError;
use crate::PixelType;

/// What comes before the sources: a pixel may be a double.
const SOURCE_PROLOGUE: &str = "#if DOUBLES\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n";

/// What becomes of the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KernelKind {
    /// They are summed as they come: signals and, with errors of each pixel's own counts, the variances' excesses.
    Sums {
        /// Whether there are such errors.
        variance: bool,
    },
    /// They are chosen by a look at all of a bin.
    Csr,
}

/// What kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KernelVariant {
    pub(super) dtype: PixelType,
    /// Bytes of a decoded block.
    pub(super) block_bytes: usize,
    pub(super) method: KernelKind,
    /// Lanes of a work-group.
    pub(super) group: usize,
    /// Whether sums are doubles, not pairs of floats: the same size in either case.
    pub(super) doubles: bool,
}

impl KernelVariant {
    /// Pixels in a block.
    pub(super) fn elements(&self) -> usize {
        self.block_bytes / self.dtype.size()
    }

    /// Sums by bin.
    pub(super) fn sums_per_bin(&self) -> usize {
        match self.method {
            KernelKind::Sums { variance } => 1 + usize::from(variance),
            KernelKind::Csr => csr::SUMS_PER_BIN,
        }
    }

    /// The two kernels that follow one another.
    pub(super) fn kernels(&self) -> [&'static str; 2] {
        match self.method {
            KernelKind::Sums { .. } => ["integrate", "reduce"],
            KernelKind::Csr => ["decode", "choose"],
        }
    }

    /// Frames whose pixels of one bin a work-group looks at side by side.
    pub(super) fn bins_per_group(&self) -> usize {
        (self.group / csr::LANES_PER_BIN).max(1)
    }

    fn sources(&self) -> String {
        let own = match self.method {
            KernelKind::Sums { .. } => [include_str!("sums.cl"), include_str!("integrate.cl")].concat(),
            KernelKind::Csr => include_str!("csr.cl").to_owned(),
        };
        [SOURCE_PROLOGUE, include_str!("lz4.cl"), include_str!("frame.cl"), &own].concat()
    }

    /// A sum as the kernels leave it.
    pub(super) fn decode_sum(&self, real: [u8; 8]) -> f64 {
        if self.doubles {
            return f64::from_le_bytes(real);
        }
        let [high, low] = [[real[0], real[1], real[2], real[3]], [real[4], real[5], real[6], real[7]]];
        f64::from(f32::from_le_bytes(high)) + f64::from(f32::from_le_bytes(low))
    }

    fn options(&self) -> String {
        let pixel = match self.dtype {
            PixelType::U8 => "uchar",
            PixelType::I8 => "char",
            PixelType::U16 => "ushort",
            PixelType::I16 => "short",
            PixelType::U32 => "uint",
            PixelType::I32 => "int",
            PixelType::U64 => "ulong",
            PixelType::I64 => "long",
            PixelType::F32 => "float",
            PixelType::F64 => "double",
        };
        let is_real = u8::from(matches!(self.dtype, PixelType::F32 | PixelType::F64));
        format!(
            "-cl-std=CL1.2 -DPIXEL={pixel} -DAS_PIXEL=as_{pixel} -DREAL_PIXEL={is_real} -DSIZE={} -DBLOCK_BYTES={} \
             -DQUANTITIES={} -DGROUP={} -DTEAMS={} -DDOUBLES={}",
            self.dtype.size(),
            self.block_bytes,
            self.sums_per_bin(),
            self.group,
            self.bins_per_group(),
            u8::from(self.doubles)
        )
    }

    /// The program, out of the cache, a directory, if it is there; else compiled, and put into it. `driver` is all that makes
    /// one driver's binaries unfit for another.
    pub(super) fn build(
        &self,
        context: &Context,
        device: DeviceId,
        driver: &str,
        cache: Option<&Path>,
    ) -> Result<Program, DeviceError> {
        let (options, sources) = (self.options(), self.sources());
        let key = format!("{driver}\n{options}\n{sources}");
        let file = cache.map(|cache| cache.join(format!("{:016x}.bin", xxh3_64(key.as_bytes()))));
        let options = CString::new(options).map_err(|why| DeviceError::Failed(why.to_string()))?;
        let build = |program: &Program| core::build_program(program, Some(&[device]), &options, None, None);
        if let Some(binary) = file.as_ref().and_then(|file| read_cached(file, &key))
            && let Ok(program) = core::create_program_with_binary(context, &[device], &[&binary])
            && build(&program).is_ok()
        {
            return Ok(program);
        }
        let sources = CString::new(sources).map_err(|why| DeviceError::Failed(why.to_string()))?;
        let program = core::create_program_with_source(context, &[sources])?;
        build(&program).map_err(|why| {
            let log = core::get_program_build_info(&program, device, ProgramBuildInfo::BuildLog);
            let log = log.map_or_else(|_| why.to_string(), |log| log.to_string());
            DeviceError::Failed(format!(
                "the driver's compiler: {}",
                log.split_whitespace().collect::<Vec<_>>().join(" ")
            ))
        })?;
        if let (Some(file), Ok(ProgramInfoResult::Binaries(binaries))) =
            (file, core::get_program_info(&program, ProgramInfo::Binaries))
            && let [binary] = &binaries[..]
        {
            // A cache that can't be written costs the next run some seconds, and nothing else.
            let _ = write_cached(&file, &key, binary);
        }
        Ok(program)
    }
}

/// A cached binary. It stands behind the key that it was made by, and a checksum of both.
fn read_cached(file: &Path, key: &str) -> Option<Vec<u8>> {
    let content = fs::read(file).ok()?;
    verified_body(&content)?.strip_prefix(key.as_bytes())?.strip_prefix(b"\0").map(<[u8]>::to_vec)
}

/// What follows the checksum of a cached binary, where it is as it was written.
fn verified_body(content: &[u8]) -> Option<&[u8]> {
    let (checksum, content) = content.split_first_chunk()?;
    (u64::from_le_bytes(*checksum) == xxh3_64(content)).then_some(content)
}

/// Many processes may do so at once, each with the same content: the file is whole whenever it is there.
fn write_cached(file: &Path, key: &str, binary: &[u8]) -> std::io::Result<()> {
    let body = [key.as_bytes(), b"\0", binary].concat();
    let content = [&xxh3_64(&body).to_le_bytes()[..], &body].concat();
    ownership::create_directories(file.parent().unwrap_or(Path::new("")))?;
    let is_own = |file: &Path| Ok(ownership::is_in_azpipe_dir(file) || verified_body(&fs::read(file)?).is_some());
    atomic::write(file, content, &OwnedFiles::new("a compiled kernel", is_own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_binary_is_found_by_its_key_alone_and_only_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("deep/er.bin");
        assert_eq!(read_cached(&file, "key"), None);
        write_cached(&file, "key", b"binary").expect("written");
        assert_eq!(read_cached(&file, "key").as_deref(), Some(&b"binary"[..]));
        assert_eq!(read_cached(&file, "ke"), None);
        assert_eq!(read_cached(&file, "another"), None);
        let mut content = fs::read(&file).expect("there");
        *content.last_mut().expect("not empty") ^= 1;
        fs::write(&file, content).expect("writable");
        assert_eq!(read_cached(&file, "key"), None, "damaged");
        assert_eq!(fs::read_dir(dir.path().join("deep")).expect("there").count(), 1, "no leftovers");
    }
}
