//! The file with the statistics of some frames.
//!
//! ```text
//! {"azpipe":"pixel-statistics","v":2,"generation":0,"invalid":[[4294967294,4294967295]]}
//! {"type":"task", …}                     the task, whose range is the frames that were added
//! 0123456789abcdef0123456789abcdef       XXH3-128 of the two lines above
//! blocks of 65536 pixels
//! ```
//!
//! A block is two numbers of 64 bits, the length of what follows and its XXH3-64 with the lines'
//! digest and the block's number as seed, and then deflated bytes: the arrays `invalid`, `nonzero`,
//! `sum`, `squares` and `max` of its pixels, little-endian and shuffled as by HDF5's filter. The
//! largest values of tasks are small, so that most bytes are zero.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use records::{Record, Spans, Task};
use serde::{Deserialize, Serialize};
use system::atomic::AtomicFile;
use system::ownership::{self, OwnershipRule};
use system::untrusted_file::{self, MAX_TEXT_BYTES};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

use super::{InvalidRanges, StoredPixelSums};
use crate::compression::DEFLATE_LEVEL;

/// Pixels of a block.
const BLOCK_PIXELS: usize = 1 << 16;

/// Bytes of each array of a pixel: `invalid`, `nonzero`, `sum`, `squares`, `max`.
const WIDTHS: [usize; 5] = [4, 4, 8, 16, 8];

/// Bytes of a pixel.
const PIXEL_BYTES: usize = 40;

/// The frames that statistics are of, and the values that they leave out.
#[derive(Clone, Debug, PartialEq)]
pub struct StatisticsMetadata {
    /// Task whose range is the frames that were added.
    pub task: Task,
    /// Values that mean "no measurement" and are not counted.
    pub invalid: InvalidRanges,
    /// One more than that of any file with some of the frames, of which this one takes the place; 0
    /// if there was none.
    pub generation: u64,
}

/// First line of a file.
#[derive(Serialize, Deserialize)]
struct FirstLine {
    azpipe: String,
    v: u64,
    generation: u64,
    invalid: InvalidRanges,
}

const KIND: &str = "pixel-statistics";
const VERSION: u64 = 2;

/// Reason why statistics can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsError {
    /// A system call failed.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// The file was changed, or is none of statistics.
    #[error("{}: damaged: {why}; remove the file and run ai-integrate --pixel-stats again", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Reason, without the path.
        why: String,
    },
    /// The file was written by another azpipe.
    #[error("{}: statistics of version {version}, and this azpipe reads version {VERSION}; remove the file and run ai-integrate \
        --pixel-stats again, or use the azpipe that wrote it", path.display())]
    UnsupportedVersion {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        version: u64,
    },
    /// Another run wrote the file anew after its head was read.
    #[error("{}: was replaced while it was read; run gather again", path.display())]
    Replaced {
        /// Path of the file.
        path: PathBuf,
    },
    /// The name leads out of the output root.
    #[error("{scan}: the name of the scan leads out of the output directory")]
    Outside {
        /// Id of the scan.
        scan: String,
    },
}

impl StatisticsError {
    pub(super) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), why: why.into() }
    }

    /// Returns whether the file is not there.
    pub fn was_removed(&self) -> bool {
        matches!(self, Self::Io { why, .. } if why.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the system could not open or read the file, which may be sound.
    pub(super) fn is_io_failure(&self) -> bool {
        let is_of_system = |why: &io::Error| why.raw_os_error().is_some();
        matches!(self, Self::Io { why, .. } if is_of_system(why)) && !self.was_removed()
    }
}

/// Writes a file of the statistics of `metadata.task.range`, whole and durable or not at all.
/// `for_each` passes the sums of each pixel, in the order of the pixels.
///
/// # Errors
/// Fails if the file can't be written.
pub(super) fn write_file(
    path: &Path,
    metadata: &StatisticsMetadata,
    for_each: impl FnOnce(&mut dyn FnMut(StoredPixelSums)),
) -> Result<(), StatisticsError> {
    let io = |why| StatisticsError::Io { path: path.to_owned(), why };
    let directory = path.parent().unwrap_or(Path::new(""));
    ownership::create_directories(directory).map_err(io)?;
    let temporary = AtomicFile::create(path, &OwnershipRule::in_azpipe_dir()).map_err(io)?;
    let file = temporary.create_temporary().map_err(io)?;
    let mut writer = StatisticsWriter { out: BufWriter::new(file), seed: 0, pixels: Vec::new() };
    writer.write_head(metadata).map_err(io)?;
    let mut written = Ok(());
    for_each(&mut |pixel| {
        if written.is_ok() {
            written = writer.push(pixel);
        }
    });
    let finish = || {
        written?;
        writer.flush_block()?;
        let file = writer.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Some systems report a failed write only once, to the handle that wrote.
        file.sync_all()?;
        temporary.commit()
    };
    finish().map_err(io)
}

struct StatisticsWriter {
    out: BufWriter<std::fs::File>,
    /// Seed of the digest of the next block.
    seed: u64,
    pixels: Vec<StoredPixelSums>,
}

impl StatisticsWriter {
    fn write_head(&mut self, metadata: &StatisticsMetadata) -> io::Result<()> {
        let first = FirstLine {
            azpipe: KIND.to_owned(),
            v: VERSION,
            generation: metadata.generation,
            invalid: metadata.invalid.clone(),
        };
        let first = serde_json::to_string(&first).expect("text and numbers always serialize");
        let task = Record::from(metadata.task.clone()).to_line();
        let digest = head_digest(&first, &task);
        self.seed = digest as u64;
        writeln!(self.out, "{first}\n{task}\n{digest:032x}")
    }

    fn push(&mut self, pixel: StoredPixelSums) -> io::Result<()> {
        self.pixels.push(pixel);
        if self.pixels.len() == BLOCK_PIXELS { self.flush_block() } else { Ok(()) }
    }

    fn flush_block(&mut self) -> io::Result<()> {
        if self.pixels.is_empty() {
            return Ok(());
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(DEFLATE_LEVEL.into()));
        encoder.write_all(&shuffle(&self.pixels))?;
        let block = encoder.finish()?;
        self.out.write_all(&(block.len() as u64).to_le_bytes())?;
        self.out.write_all(&xxh3_64_with_seed(&block, self.seed).to_le_bytes())?;
        self.out.write_all(&block)?;
        self.seed = self.seed.wrapping_add(1);
        self.pixels.clear();
        Ok(())
    }
}

fn head_digest(first: &str, task: &str) -> u128 {
    xxh3_128(format!("{first}\n{task}\n").as_bytes())
}

/// Returns the bytes of a block's arrays: of each array first the lowest bytes of all pixels.
fn shuffle(pixels: &[StoredPixelSums]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pixels.len().saturating_mul(PIXEL_BYTES));
    push_array(&mut bytes, pixels, |pixel| pixel.invalid.to_le_bytes());
    push_array(&mut bytes, pixels, |pixel| pixel.nonzero.to_le_bytes());
    push_array(&mut bytes, pixels, |pixel| pixel.sum.to_le_bytes());
    push_array(&mut bytes, pixels, |pixel| pixel.squares.to_le_bytes());
    push_array(&mut bytes, pixels, |pixel| pixel.max.to_le_bytes());
    bytes
}

fn push_array<const N: usize>(
    bytes: &mut Vec<u8>,
    pixels: &[StoredPixelSums],
    value: impl Fn(&StoredPixelSums) -> [u8; N],
) {
    for index in 0..N {
        bytes.extend(pixels.iter().map(|pixel| value(pixel)[index]));
    }
}

/// Returns the pixels of a block of `count` pixels, whose bytes are complete.
fn unshuffle(bytes: &[u8], count: usize) -> Vec<StoredPixelSums> {
    let mut planes = bytes.chunks(count.max(1));
    let mut arrays: [Vec<u128>; 5] = std::array::from_fn(|_| vec![0; count]);
    for (array, width) in arrays.iter_mut().zip(WIDTHS) {
        for (byte, plane) in (0..width).zip(&mut planes) {
            let shift = byte.saturating_mul(8);
            for (value, byte) in array.iter_mut().zip(plane) {
                *value |= u128::from(*byte) << shift;
            }
        }
    }
    let [invalid, nonzero, sum, squares, max] = arrays;
    let counts = invalid.into_iter().zip(nonzero);
    let sums = sum.into_iter().zip(squares).zip(max);
    counts
        .zip(sums)
        .map(|((invalid, nonzero), ((sum, squares), max))| StoredPixelSums {
            invalid: invalid as u32,
            nonzero: nonzero as u32,
            sum: sum as u64 as i64,
            squares,
            max: max as u64 as i64,
        })
        .collect()
}

/// A file that is open for reading. Its head is verified, and each block when it is read.
#[derive(Debug)]
pub struct StatisticsFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The frames and the values that are left out.
    pub metadata: StatisticsMetadata,
    blocks: Option<BufReader<std::fs::File>>,
    seed: u64,
    /// Pixels that are not yet read.
    left: usize,
}

impl StatisticsFile {
    /// Reads and verifies the head of a file.
    ///
    /// # Errors
    /// Fails if the file can't be read, is damaged, or is of another version.
    pub fn open(path: &Path) -> Result<Self, StatisticsError> {
        Self::open_with_blocks(path).map(|(file, _)| file)
    }

    /// Reads and verifies the head of a file, and returns what follows it, too.
    fn open_with_blocks(path: &Path) -> Result<(Self, BufReader<std::fs::File>), StatisticsError> {
        let io = |why| StatisticsError::Io { path: path.to_owned(), why };
        let damaged = |why: &str| StatisticsError::damaged(path, why);
        let mut reader = BufReader::new(untrusted_file::open(path).map_err(io)?);
        let mut line = || -> Result<String, StatisticsError> {
            let mut bytes = Vec::new();
            (&mut reader).take(MAX_TEXT_BYTES).read_until(b'\n', &mut bytes).map_err(io)?;
            let text = String::from_utf8(bytes).map_err(|_| damaged("its head is no text"))?;
            let ended = text.strip_suffix('\n').ok_or_else(|| damaged("its head ends early"))?;
            Ok(ended.to_owned())
        };
        let first = line()?;
        let parsed: FirstLine = serde_json::from_str(&first)
            .ok()
            .filter(|first: &FirstLine| first.azpipe == KIND)
            .ok_or_else(|| damaged("its first line is not that of pixel statistics"))?;
        if parsed.v != VERSION {
            let path = path.to_owned();
            return Err(StatisticsError::UnsupportedVersion { path, version: parsed.v });
        }
        let (task, digest) = (line()?, line()?);
        let expected = head_digest(&first, &task);
        if digest != format!("{expected:032x}") {
            return Err(damaged("its head was changed"));
        }
        let Ok(Record::Task(task)) = Record::parse(&task) else {
            return Err(damaged("its second line is no task"));
        };
        let FirstLine { generation, invalid, .. } = parsed;
        let metadata = StatisticsMetadata { task: *task, invalid, generation };
        let seed = expected as u64;
        let mut file = Self { path: path.to_owned(), metadata, blocks: None, seed, left: 0 };
        file.left = file.pixels()?;
        Ok((file, reader))
    }

    /// Returns the frames of the statistics.
    pub fn frames(&self) -> &Spans {
        &self.metadata.task.range
    }

    /// Returns the number of pixels.
    ///
    /// # Errors
    /// Fails if no frame has as many.
    pub fn pixels(&self) -> Result<usize, StatisticsError> {
        let [rows, columns] = self.metadata.task.acquisition.shape;
        rows.checked_mul(columns)
            .and_then(|pixels| usize::try_from(pixels).ok())
            .ok_or_else(|| StatisticsError::damaged(&self.path, "its frames are too large"))
    }

    /// Returns the sums of the next pixels; `None` after the last.
    ///
    /// # Errors
    /// Fails if the file can't be read or is damaged.
    pub fn next_block(&mut self) -> Result<Option<Vec<StoredPixelSums>>, StatisticsError> {
        let count = self.left.min(BLOCK_PIXELS);
        if count == 0 {
            self.blocks = None;
            return Ok(None);
        }
        let path = self.path.clone();
        let io = |why: io::Error| match why.kind() {
            io::ErrorKind::UnexpectedEof => StatisticsError::damaged(&path, "it ends early"),
            _ => StatisticsError::Io { path: path.clone(), why },
        };
        let changed = || StatisticsError::damaged(&path, "it was changed after writing");
        let blocks = match &mut self.blocks {
            Some(blocks) => blocks,
            // The file was closed since it was looked at: a scan may have more files than a process
            // may open.
            none => {
                let (again, blocks) = Self::open_with_blocks(&path)?;
                if again.seed != self.seed {
                    return Err(StatisticsError::Replaced { path });
                }
                none.insert(blocks)
            }
        };
        let mut number = || -> Result<u64, StatisticsError> {
            let mut bytes = [0; 8];
            blocks.read_exact(&mut bytes).map_err(io)?;
            Ok(u64::from_le_bytes(bytes))
        };
        let (length, digest) = (number()?, number()?);
        // Deflate makes no block much longer than its content.
        let most = count.saturating_mul(PIXEL_BYTES).saturating_mul(2).saturating_add(64);
        let length =
            usize::try_from(length).ok().filter(|length| *length <= most).ok_or_else(changed)?;
        let mut block = vec![0; length];
        blocks.read_exact(&mut block).map_err(io)?;
        if xxh3_64_with_seed(&block, self.seed) != digest {
            return Err(changed());
        }
        let bytes = count.saturating_mul(PIXEL_BYTES);
        let mut content = Vec::with_capacity(bytes);
        let mut decoder = ZlibDecoder::new(&block[..]).take(bytes as u64);
        decoder.read_to_end(&mut content).map_err(|_| changed())?;
        if content.len() != bytes {
            return Err(changed());
        }
        self.seed = self.seed.wrapping_add(1);
        self.left = self.left.saturating_sub(count);
        Ok(Some(unshuffle(&content, count)))
    }
}
