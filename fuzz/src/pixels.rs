//! Files of pixel statistics: changed ones, and ones whose digests are right though they hold what
//! azpipe would not write.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use patterns::pixel_statistics::{
    self, SourceStates, StatisticsFile, StatisticsTotal, StoredPixelSums, SuggestedMask,
};
use records::{Spans, Task};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

use crate::files::directory;
use crate::input::Input;
use crate::sealed::{BASE, FRAMES, task};

/// The statistics of the first three frames of a scan.
struct Base {
    task: Task,
    path: PathBuf,
    bytes: Vec<u8>,
    sums: Vec<StoredPixelSums>,
}

static STATISTICS: LazyLock<Base> = LazyLock::new(|| {
    let base = &*BASE;
    let task = task(&base.scan, &base.recipe, &Spans::first_n(3));
    let [rows, columns] = task.acquisition.shape;
    let sums: Vec<StoredPixelSums> = (0..rows * columns)
        .map(|pixel| StoredPixelSums {
            invalid: u32::from(pixel == 3),
            nonzero: u32::from(pixel > 0) * 2,
            sum: 20 * pixel as i64,
            squares: 201 * u128::from(pixel * pixel),
            max: if pixel == 0 { i64::MIN } else { 11 * pixel as i64 },
        })
        .collect();
    let (out, invalid) = (directory().join("pixels"), vec![[-2, -1]]);
    let path = pixel_statistics::write_statistics(&out, task.clone(), invalid, |take| {
        sums.iter().for_each(|pixel| take(*pixel));
    })
    .expect("it is written");
    let bytes = fs::read(&path).expect("it was written");
    Base { task, path, bytes, sums }
});

/// Bytes that are changed, inserted and left out: the file is refused, or holds what it held. With
/// digests that are right: it is refused, or read and added up.
pub fn pixels(data: &[u8]) {
    let base = &*STATISTICS;
    let mut input = Input::new(data);
    let is_sealed = input.byte() & 1 != 0;
    let bytes = if is_sealed { seal(base, &mut input) } else { edit(&base.bytes, &mut input) };
    fs::write(&base.path, &bytes).expect("inputs can be written");
    let read = StatisticsFile::open(&base.path).and_then(|mut file| {
        let (metadata, mut sums) = (file.metadata.clone(), Vec::new());
        while let Some(block) = file.next_block()? {
            sums.extend(block);
        }
        Ok((metadata, sums))
    });
    if !is_sealed && let Ok((metadata, sums)) = read {
        assert_eq!((&metadata.task, &sums), (&base.task, &base.sums));
        assert_eq!(metadata.invalid, [[-2, -1]]);
    }
    let all = task(&BASE.scan, &BASE.recipe, &Spans::first_n(FRAMES));
    for invalid in [&[][..], &[[-2, -1]]] {
        let out = directory().join("pixels");
        let known = pixel_statistics::find_for_task(&out, &all, invalid, &SourceStates::default());
        assert!(known.frames().difference(&Spans::first_n(FRAMES)).is_empty());
        let found = pixel_statistics::find_for_final(&out, &all, invalid);
        assert!(found.frames().difference(&known.frames()).is_empty());
        let Ok(total) = StatisticsTotal::read(found.files) else { continue };
        let mask = SuggestedMask::new(&total, all.acquisition.shape[1] as usize, 1e6);
        let _ = (total.means(), total.variances(), total.maxima(), mask.count(u8::MAX));
    }
}

/// Changes, inserts and removes bytes.
fn edit(bytes: &[u8], input: &mut Input) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while !input.is_empty() {
        let (kind, at) = (input.byte(), input.below(bytes.len()));
        match kind % 4 {
            0 | 1 if at < bytes.len() => bytes[at] ^= input.byte(),
            2 => drop(bytes.splice(at..at, input.bytes(16).iter().copied())),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Puts the digests of a file under lines and a block that an input changed: under text of its
/// own in place of some of a line, and a block of its own or that of the file, shortened.
fn seal(base: &Base, input: &mut Input) -> Vec<u8> {
    let lines = base.bytes.split(|byte| *byte == b'\n');
    let mut lines: Vec<Vec<u8>> = lines.take(2).map(<[u8]>::to_vec).collect();
    let head = lines.iter().map(|line| line.len() + 1).sum::<usize>() + 33;
    for _ in 0..input.below(4) {
        let line = &mut lines[usize::from(input.byte() & 1)];
        let at = input.below(line.len() + 1);
        let end = (at + input.below(16)).min(line.len());
        line.splice(at..end, input.bytes(32).iter().copied());
    }
    let mut block = base.bytes[head + 16..].to_vec();
    for _ in 0..input.below(4) {
        let at = input.below(block.len() + 1);
        block.splice(at.., input.bytes(64).iter().copied());
    }
    let length = if input.byte() < 230 { block.len() as u64 } else { input.odd_number() };
    let mut bytes = lines.join(&b'\n');
    bytes.push(b'\n');
    let digest = xxh3_128(&bytes);
    bytes.extend(format!("{digest:032x}\n").bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(xxh3_64_with_seed(&block, digest as u64).to_le_bytes());
    bytes.extend(block);
    bytes
}
