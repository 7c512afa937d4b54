//! Compiles the kernels for a device, and caches the binaries in files.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use ocl::core::{
    self, Context, DeviceId, Program, ProgramBuildInfo, ProgramInfo, ProgramInfoResult,
};
use system::atomic;
use system::ownership::{self, OwnershipRule};
use xxhash_rust::xxh3::xxh3_64;

use super::error::DeviceError;
use crate::PixelType;
use crate::photon_sums::PhotonQuantities;

/// Prepended to the sources, because the type of a pixel may be double.
const SOURCE_PROLOGUE: &str =
    "#if DOUBLES\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n";

/// Number of lanes that sum one bin of one frame together in `csr.cl`.
pub(super) const LANES_PER_BIN: usize = 16;

/// Number of sums of a bin in `csr.cl`: signal, variance, norm, norm², count.
pub(super) const SUMS_PER_BIN: usize = 5;

/// The computation that a pair of kernels does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KernelKind {
    /// Sums of these quantities over all valid pixels of a bin.
    Sums(PhotonQuantities),
    /// Statistics that need all pixels of a bin.
    Csr,
}

/// The constants that a pair of kernels is compiled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KernelVariant {
    pub(super) dtype: PixelType,
    /// Bytes of a decoded block.
    pub(super) block_bytes: usize,
    pub(super) kind: KernelKind,
    /// Lanes per work-group.
    pub(super) group: usize,
    /// True if sums are doubles, false if they are pairs of floats. Both take 8 bytes.
    pub(super) doubles: bool,
}

impl KernelVariant {
    /// Returns the number of pixels in a block.
    pub(super) fn elements(&self) -> usize {
        self.block_bytes / self.dtype.size()
    }

    /// Returns the number of sums per bin.
    pub(super) fn sums_per_bin(&self) -> usize {
        match self.kind {
            KernelKind::Sums(quantities) => quantities.count(),
            KernelKind::Csr => SUMS_PER_BIN,
        }
    }

    /// Returns the names of the two kernels, in the order in which they run.
    pub(super) fn kernels(&self) -> [&'static str; 2] {
        match self.kind {
            KernelKind::Sums(_) => ["integrate", "reduce"],
            KernelKind::Csr => ["decode", "choose"],
        }
    }

    /// Returns the number of frames of which a work-group of `choose` sums a bin at the same time.
    pub(super) fn bins_per_group(&self) -> usize {
        (self.group / LANES_PER_BIN).max(1)
    }

    /// Returns the source text of the kernels.
    fn sources(&self) -> String {
        let own = match self.kind {
            KernelKind::Sums(_) => [include_str!("sums.cl"), include_str!("integrate.cl")].concat(),
            KernelKind::Csr => include_str!("csr.cl").to_owned(),
        };
        [SOURCE_PROLOGUE, include_str!("lz4.cl"), include_str!("frame.cl"), &own].concat()
    }

    /// Decodes a sum that the kernels have written: a double, or a pair of floats.
    pub(super) fn decode_sum(&self, bytes: [u8; 8]) -> f64 {
        if self.doubles {
            return f64::from_le_bytes(bytes);
        }
        let [high, low] =
            [[bytes[0], bytes[1], bytes[2], bytes[3]], [bytes[4], bytes[5], bytes[6], bytes[7]]];
        f64::from(f32::from_le_bytes(high)) + f64::from(f32::from_le_bytes(low))
    }

    /// Returns the options for the device's compiler.
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
        let is_float = u8::from(matches!(self.dtype, PixelType::F32 | PixelType::F64));
        format!(
            "-cl-std=CL1.2 -DPIXEL={pixel} -DAS_PIXEL=as_{pixel} -DREAL_PIXEL={is_float} -DSIZE={} -DBLOCK_BYTES={} \
             -DQUANTITIES={} -DGROUP={} -DBINS_PER_GROUP={} -DDOUBLES={}",
            self.dtype.size(),
            self.block_bytes,
            self.sums_per_bin(),
            self.group,
            self.bins_per_group(),
            u8::from(self.doubles)
        )
    }

    /// Returns the program from the cache directory if it is there, or compiles it and stores it
    /// there.
    ///
    /// `driver` identifies the device and its driver: a binary for one is no good for another, so
    /// it is part of the key.
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
        let build =
            |program: &Program| core::build_program(program, Some(&[device]), &options, None, None);
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
                "the driver's compiler failed: {}",
                log.split_whitespace().collect::<Vec<_>>().join(" ")
            ))
        })?;
        if let (Some(file), Ok(ProgramInfoResult::Binaries(binaries))) =
            (file, core::get_program_info(&program, ProgramInfo::Binaries))
            && let [binary] = &binaries[..]
        {
            // If the cache can't be written, the next run compiles again. That costs some seconds,
            // and nothing else.
            let _ = write_cached(&file, &key, binary);
        }
        Ok(program)
    }
}

/// Returns a cached binary, or `None` if the file is missing, damaged, or stored under another key.
///
/// The file holds a checksum of all that follows, the key, a zero byte and the binary.
fn read_cached(file: &Path, key: &str) -> Option<Vec<u8>> {
    let content = fs::read(file).ok()?;
    verified_body(&content)?.strip_prefix(key.as_bytes())?.strip_prefix(b"\0").map(<[u8]>::to_vec)
}

/// Returns the part of a cached file after its checksum, or `None` if the checksum does not match.
fn verified_body(content: &[u8]) -> Option<&[u8]> {
    let (checksum, content) = content.split_first_chunk()?;
    (u64::from_le_bytes(*checksum) == xxh3_64(content)).then_some(content)
}

/// Writes a binary to the cache. Several processes may write the same file at once: it is replaced
/// atomically, so readers always see a complete file.
fn write_cached(file: &Path, key: &str, binary: &[u8]) -> std::io::Result<()> {
    let body = [key.as_bytes(), b"\0", binary].concat();
    let content = [&xxh3_64(&body).to_le_bytes()[..], &body].concat();
    ownership::create_directories(file.parent().unwrap_or(Path::new("")))?;
    let is_own = |file: &Path| {
        Ok(ownership::is_in_azpipe_dir(file) || verified_body(&fs::read(file)?).is_some())
    };
    atomic::write(file, content, &OwnershipRule::new("a compiled kernel", is_own))
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
        assert_eq!(
            fs::read_dir(dir.path().join("deep")).expect("there").count(),
            1,
            "no leftovers"
        );
    }
}
