//! Writes a part: rows as they come, then the checksum. The file appears complete or not at all.

use std::ffi::OsStr;
use std::iter::repeat_n;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use records::{RawPath, Record};
use system::atomic::AtomicFile;
use system::ownership::{self, OwnershipRule, has_mark, is_in_azpipe_dir};

use super::encoded_row::{PartRow, RowEncoder, RowFormat, RowPattern};
use super::{PartError, PartMetadata, PartStorage, PartUserBlock, name, row_dataset, user_block};
use crate::h5::{self, Group, NewHdf5File};
use crate::rounding::{NAN64, canonical_nan};
use crate::row_writer::RowWriter;
use crate::source_fingerprint::SourceFingerprints;
use crate::sparse_pixels::SparseWriter;
use crate::weight_overrides::WeightOverridesWriter;
use crate::{FrameRow, Normalizer, PatternAxis, SharedBins, Status};

/// Text in the first line of each part.
const PART_MARK: &[u8] = b"\"azpipe\":\"part\"";

/// A part that is being written. If it is dropped before [`finish`](Self::finish), no file is left.
pub struct PartWriter {
    target: PathBuf,
    file: NewHdf5File,
    temporary: AtomicFile,
    scan: String,
    recipe: String,
    /// Frames of the task, in ascending order.
    range: Vec<u64>,
    stamps: SourceFingerprints,
    encoder: RowEncoder,
    format: RowFormat,
    rows: RowTables,
    per_frame: FrameLists,
    weight_overrides: WeightOverridesWriter,
    sparse: Option<SparseWriter>,
}

/// Datasets with one row per frame.
struct RowTables {
    signal: Option<RowWriter<f64>>,
    variance: Option<RowWriter<f64>>,
    intensity: Option<RowWriter<f32>>,
    errors: Option<RowWriter<f32>>,
}

/// Datasets with one value per frame.
#[derive(Default)]
struct FrameLists {
    frames: Vec<u64>,
    status: Vec<u8>,
    stored_digest: Vec<u64>,
    monitor: Vec<f64>,
    /// Digests of cakes; `None` if the part holds none.
    row_digest: Option<Vec<u64>>,
}

impl PartWriter {
    /// Starts a part at `path` below `out_root`. Missing directories are created.
    ///
    /// # Errors
    /// Fails if the path leads out of `out_root` or to a file that is not a part, if the weights in
    /// `shared` don't fit the axes, or if a directory or file can't be written.
    pub fn create(
        out_root: &Path,
        path: &RawPath,
        metadata: &PartMetadata,
        shared: &SharedBins,
        storage: PartStorage,
    ) -> Result<Self, PartError> {
        if !path.is_contained() {
            return Err(PartError::Outside { path: path.to_path_buf() });
        }
        let target = out_root.join(path.as_path());
        let (bins, weights) = (shared.axes.bins(), &shared.weights);
        let lengths = [weights.norm.len(), weights.norm_sq.len(), weights.count.len()];
        if bins == 0 || lengths != [bins; 3] {
            let [norm, norm_sq, count] = lengths;
            let why = format!(
                "{norm} values of norm, {norm_sq} of norm_sq and {count} of count; expected {bins} of each, one per bin"
            );
            return Err(PartError::content(&target, why));
        }
        let io = PartError::io(&target);
        ownership::create_directories(target.parent().unwrap_or(out_root)).map_err(&io)?;
        let claim = OwnershipRule::new("a part", |path| {
            Ok(is_in_azpipe_dir(path) || has_mark(path, b"{", PART_MARK)?)
        });
        let temporary = AtomicFile::create(&target, &claim).map_err(&io)?;
        // Cakes of frames with weights of their own are of no use for averages without the sums.
        let storage = PartStorage {
            keep_sums: storage.keep_sums || metadata.recipe.has_moving_geometry(),
            ..storage
        };
        let format = RowFormat {
            normalizer: Normalizer::new(&metadata.recipe),
            shared: Arc::new(shared.clone()),
            storage,
        };
        let hdf5 = PartError::hdf5(&target);
        let file =
            NewHdf5File::create(&temporary, user_block::USER_BLOCK_BYTES as u64).map_err(&hdf5)?;
        write_metadata(&file, metadata, shared).map_err(&hdf5)?;
        let range: Vec<u64> = metadata.task.range.to_sorted().iter().collect();
        let rows = RowTables::create(&file, &format, range.len()).map_err(&hdf5)?;
        let weight_overrides = WeightOverridesWriter::create(&file).map_err(&hdf5)?;
        let sparse = storage
            .sparse
            .then(|| SparseWriter::create(&file, &metadata.task.acquisition, &metadata.recipe))
            .transpose()
            .map_err(&hdf5)?;
        let row_digest = format.encodes_cakes().then(Vec::new);
        Ok(Self {
            target,
            file,
            temporary,
            scan: metadata.task.scan.clone(),
            recipe: metadata.task.recipe_digest.clone(),
            range,
            stamps: SourceFingerprints::new(&metadata.task.acquisition),
            encoder: RowEncoder::new(format.clone()),
            format,
            rows,
            per_frame: FrameLists { row_digest, ..FrameLists::default() },
            weight_overrides,
            sparse,
        })
    }

    /// Returns what makes the rows of this part, for each thread its own.
    pub fn row_encoder(&self) -> RowEncoder {
        self.encoder.clone()
    }

    /// Encodes and adds a frame.
    ///
    /// # Errors
    /// Fails as [`push`](Self::push) does, and if there is no memory.
    pub fn push_row(&mut self, row: &FrameRow) -> Result<(), PartError> {
        let row = self.encoder.encode(row.clone()).map_err(PartError::io(&self.target))?;
        self.push(&row)
    }

    /// Adds a frame that [`row_encoder`](Self::row_encoder) encoded. Frames are added in ascending
    /// order; frames that are never added are not in the part.
    ///
    /// # Errors
    /// Fails if the frame is out of order or outside of the task's range, if the sums don't fit the
    /// bins and the recipe's error model, or if the file can't be written.
    pub fn push(&mut self, part_row: &PartRow) -> Result<(), PartError> {
        let PartRow { row, pattern, .. } = part_row;
        self.check(part_row).map_err(|why| {
            PartError::content(&self.target, format!("frame {}: {why}", row.frame))
        })?;
        let hdf5 = PartError::hdf5(&self.target);
        let weights = &self.format.shared.weights;
        self.rows.push(row, pattern, weights.norm.len()).map_err(&hdf5)?;
        if let Some(own) = &row.weight_override {
            self.weight_overrides.push(row.frame, own, weights).map_err(&hdf5)?;
        }
        self.sparse.as_mut().map_or(Ok(()), |all| all.push(row.sparse.as_ref())).map_err(&hdf5)?;
        if let (Some(digests), RowPattern::Encoded(encoded)) =
            (&mut self.per_frame.row_digest, pattern)
        {
            digests.push(encoded.digest);
        }
        self.per_frame.frames.push(row.frame);
        self.per_frame.status.push(row.status as u8);
        self.per_frame.stored_digest.push(row.stored_digest);
        self.per_frame.monitor.push(canonical_nan(row.monitor));
        Ok(())
    }

    /// Returns the path that the part will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Changes the name of the part within its directory, because the part holds other frames than
    /// planned.
    ///
    /// # Errors
    /// Fails with the system's error. The part keeps its old name then.
    pub fn rename(&mut self, name: &OsStr) -> Result<(), PartError> {
        let target = self.target.with_file_name(name);
        self.temporary.rename_target(name).map_err(PartError::io(&target))?;
        self.target = target;
        Ok(())
    }

    /// Returns whether a part at this one's path is of other raw data or other monitors. One that can't be
    /// looked at may be; a damaged one shows nothing that could be lost.
    pub(crate) fn may_replace_other_data(&self) -> bool {
        let has_monitor = self.format.normalizer.has_monitor();
        let sources =
            || match super::read_user_block(&self.target)?.sources_of_patterns(has_monitor) {
                Some(sources) => Ok(sources),
                // The block of a part that lacks some patterns does not tell.
                None => super::read_part(&self.target).map(|there| there.sources(has_monitor)),
            };
        sources()
            .map_or_else(|why: PartError| why.is_io_failure(), |sources| sources != self.sources())
    }

    /// Changes the name of the part to one that no part of other raw data or other monitors has.
    ///
    /// # Errors
    /// Fails with the system's error. The part keeps its old name then.
    pub(crate) fn rename_by_sources(&mut self) -> Result<(), PartError> {
        let first = self.per_frame.frames.first().copied().unwrap_or_default();
        self.rename(OsStr::new(&format!("{first:08}-{:016x}.h5", self.sources())))
    }

    /// Returns the digest of the frames, their source fingerprints and, if there is one, their monitors.
    fn sources(&self) -> u64 {
        let monitors = self.format.normalizer.has_monitor().then_some(&self.per_frame.monitor[..]);
        self.stamps.digest(&self.per_frame.frames, monitors)
    }

    /// Completes the part, syncs it to disk and renames it to its path. Returns its checksum:
    /// XXH3-128 of all bytes after the first 512, in 32 hexadecimal digits.
    ///
    /// # Errors
    /// Fails if the file can't be written, synced or renamed. The path then has no part, or the
    /// earlier one.
    pub fn finish(mut self) -> Result<String, PartError> {
        let hdf5 = PartError::hdf5(&self.target);
        let sources = self.per_frame.all_have_patterns().then(|| self.sources());
        self.rows.finish().map_err(&hdf5)?;
        self.per_frame.write(&self.file).map_err(&hdf5)?;
        self.weight_overrides.flush().map_err(&hdf5)?;
        // Every dataset is closed before the file, so that the file's bytes are complete.
        let Self {
            target,
            file,
            temporary,
            scan,
            recipe,
            rows,
            per_frame,
            weight_overrides,
            sparse,
            format,
            ..
        } = self;
        sparse.map_or(Ok(()), SparseWriter::finish).map_err(&hdf5)?;
        drop((rows, weight_overrides));
        let sealed = file.finish().map_err(&hdf5)?;
        let digest = sealed.digest.clone();
        let head = PartUserBlock::new(
            &scan,
            &recipe,
            &per_frame.frames,
            digest.clone(),
            sources,
            format.normalizer.has_monitor(),
        );
        let block = head.to_block().ok_or_else(|| {
            PartError::content(
                &target,
                "the ids of scan and recipe are too long for the first line of a part",
            )
        })?;
        sealed.write_user_block(&block).and_then(|()| sealed.sync()).map_err(&hdf5)?;
        temporary.commit().map_err(PartError::io(&target))?;
        Ok(digest)
    }

    /// Checks that a row can be added; the error doesn't name the frame.
    fn check(&self, part_row: &PartRow) -> Result<(), String> {
        let row = &part_row.row;
        let bins = self.format.shared.weights.norm.len();
        if self.per_frame.frames.last().is_some_and(|last| *last >= row.frame) {
            let last = self.per_frame.frames.last().copied().unwrap_or_default();
            return Err(format!("added after frame {last}; expected ascending order"));
        }
        if self.range.binary_search(&row.frame).is_err() {
            return Err("not in the task's range".to_owned());
        }
        let expect = |what: &str, found: usize, expected: usize| {
            if found == expected {
                Ok(())
            } else {
                Err(format!("{found} values of {what}; expected {expected}, one per bin"))
            }
        };
        if row.status != Status::Ok && !part_row.has_sums {
            return Ok(());
        }
        if self.sparse.is_some() != row.sparse.is_some() {
            return Err("sparse pixels are missing, or were not asked for".to_owned());
        }
        // Sums that are taken had a pattern made of them, so that they fit.
        if part_row.are_sums_taken() {
            return Ok(());
        }
        expect("signal", row.signal.len(), bins)?;
        let variance = if self.format.normalizer.has_errors() { bins } else { 0 };
        expect("variance", row.variance.as_ref().map_or(0, Vec::len), variance)?;
        row.weight_override.as_ref().map_or(Ok(()), |own| {
            expect("norm", own.norm.len(), bins)?;
            expect("norm_sq", own.norm_sq.len(), bins)?;
            expect("count", own.count.len(), bins)
        })
    }
}

impl RowTables {
    fn create(group: &Group, format: &RowFormat, expected: usize) -> h5::Result<Self> {
        let RowFormat { normalizer, shared, storage } = format;
        let (errors, patterns) = (normalizer.has_errors(), normalizer.needs_only_own_frame());
        let (sums, row) = (format.keeps_sums(), &shared.axes.shape());
        let f64s = |wanted: bool, name| {
            wanted.then(|| RowWriter::chunked(group, name, expected, row)).transpose()
        };
        let f32s = |wanted: bool, name| {
            let table = || match format.cake() {
                Some(cake) => RowWriter::encoded(group, name, expected, cake, storage.compression),
                None => RowWriter::chunked(group, name, expected, row),
            };
            wanted.then(table).transpose()
        };
        Ok(Self {
            signal: f64s(sums, row_dataset::SIGNAL)?,
            variance: f64s(sums && errors, row_dataset::VARIANCE)?,
            intensity: f32s(patterns, row_dataset::INTENSITY)?,
            errors: f32s(patterns && errors, row_dataset::ERRORS)?,
        })
    }

    fn push(&mut self, row: &FrameRow, pattern: &RowPattern, bins: usize) -> h5::Result<()> {
        let signal = Some(&row.signal).filter(|_| row.has_sums());
        let variance = row.variance.as_ref().filter(|_| row.has_sums());
        for (table, sums) in [(&mut self.signal, signal), (&mut self.variance, variance)] {
            match (table, sums) {
                (Some(table), Some(sums)) => table.push(sums.iter().copied().map(canonical_nan))?,
                (Some(table), None) => table.push(repeat_n(NAN64, bins))?,
                (None, _) => (),
            }
        }
        let (Some(intensity), errors) = (&mut self.intensity, &mut self.errors) else {
            return Ok(());
        };
        match pattern {
            RowPattern::None => Ok(()),
            RowPattern::Values((values, sigmas)) => {
                intensity.push(values.iter().copied())?;
                match (errors, sigmas) {
                    (Some(table), Some(sigmas)) => table.push(sigmas.iter().copied()),
                    _ => Ok(()),
                }
            }
            RowPattern::Encoded(encoded) => {
                intensity.push_encoded(&encoded.intensity)?;
                match (errors, &encoded.errors) {
                    (Some(table), Some(sigmas)) => table.push_encoded(sigmas),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Writes the rows that are still in memory, and removes those that were expected and did not
    /// come.
    fn finish(&mut self) -> h5::Result<()> {
        self.signal.iter_mut().chain(&mut self.variance).try_for_each(RowWriter::flush)?;
        for table in self.intensity.iter_mut().chain(&mut self.errors) {
            table.flush()?;
            table.truncate()?;
        }
        Ok(())
    }
}

impl FrameLists {
    /// Returns whether all frames have a pattern.
    fn all_have_patterns(&self) -> bool {
        self.status.iter().all(|status| *status == Status::Ok as u8)
    }

    fn write(&self, group: &Group) -> h5::Result<()> {
        group.write_list(name::FRAMES, &self.frames)?;
        group.write_list(name::STATUS, &self.status)?;
        group.write_list(name::STORED_DIGEST, &self.stored_digest)?;
        group.write_list(name::MONITOR, &self.monitor)?;
        if let Some(digests) = &self.row_digest {
            group.write_list(name::ROW_DIGEST, digests)?;
        }
        Ok(())
    }
}

fn write_metadata(group: &Group, metadata: &PartMetadata, shared: &SharedBins) -> h5::Result<()> {
    group.write_text(name::TASK, &Record::from(metadata.task.clone()).to_line())?;
    group.write_text(name::RECIPE, &metadata.recipe.to_toml())?;
    write_axis(group, name::RADIAL, &shared.axes.radial)?;
    if let Some(chi) = &shared.axes.chi {
        write_axis(group, name::CHI, chi)?;
    }
    group.write_list(name::NORM, &shared.weights.norm)?;
    group.write_list(name::NORM_SQ, &shared.weights.norm_sq)?;
    group.write_list(name::COUNT, &shared.weights.count)?;
    Ok(())
}

fn write_axis(group: &Group, name: &str, axis: &PatternAxis) -> h5::Result<()> {
    let dataset = group.write_list(name, &axis.centers)?;
    dataset.set_text("name", &axis.name)?;
    dataset.set_text("units", &axis.units)
}
