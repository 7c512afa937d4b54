//! Maps datasets to the files that hold their frames, through links and virtual datasets. Each
//! dataset is opened only once, however many mappings refer to it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use records::{AbsentKind, Spans};

use super::error::DiscoverError;
use super::file_content_cache;
use super::frame_map::FrameMap;
use super::frame_selection::selected_frames;
use super::linked_file::find_linked_file;
use super::links::ResolvedObject;
use super::open_files::OpenFiles;
use super::stored_dataset;
use super::unusable::UnusableError;
use crate::chunk::NOT_WRITTEN;
use crate::coding::PixelCoding;
use crate::ffi::{LibraryError, ObjectType, StorageLayout, VirtualMapping};

/// Maximum nesting of virtual datasets. A Bliss master over a Lima 2 master over the receivers'
/// files has a depth of two.
const MAX_VIRTUAL_DEPTH: usize = 64;

/// The frame map of a dataset, or the reason why it has none.
pub(super) type SharedFrameMap = Rc<Result<FrameMap, DiscoverError>>;

/// The files and datasets that the values of a dataset are read from.
#[derive(Default)]
pub(crate) struct DatasetReferences {
    /// The dataset's own file, those passed on the way to it, and those of external storage.
    pub files: Vec<PathBuf>,
    /// The sources of a virtual dataset, each with its file, as far as the files exist.
    pub datasets: Vec<(PathBuf, String)>,
}

/// Cache of the datasets that were mapped so far.
#[derive(Default)]
pub(crate) struct DatasetCache {
    frame_maps: HashMap<(PathBuf, String), SharedFrameMap>,
    /// Datasets that are being mapped, from the requested one down to the current one: a cycle is
    /// an error.
    in_progress: Vec<(PathBuf, String)>,
    pub(super) files: OpenFiles,
}

impl DatasetCache {
    /// Returns the frame map of a dataset, or the reason why it can't be read as frames.
    pub(crate) fn frame_map(&mut self, file: &Path, dataset: &str) -> SharedFrameMap {
        let key = (file.to_owned(), dataset.to_owned());
        if let Some(frame_map) = self.frame_maps.get(&key) {
            return Rc::clone(frame_map);
        }
        if self.in_progress.contains(&key) || self.in_progress.len() > MAX_VIRTUAL_DEPTH {
            return Rc::new(Err(UnusableError::Cycle(MAX_VIRTUAL_DEPTH).into()));
        }
        self.in_progress.push(key);
        let frame_map = Rc::new(self.build_frame_map(file, dataset));
        if let Some(key) = self.in_progress.pop() {
            self.frame_maps.insert(key, Rc::clone(&frame_map));
        }
        frame_map
    }

    /// Returns the frame map of a source file like [`DatasetCache::frame_map`], but without opening
    /// a file that has not changed since the last search.
    pub(super) fn trace_source(&mut self, file: &Path, dataset: &str) -> SharedFrameMap {
        if let Some(known) = file_content_cache::dataset(file, dataset) {
            return known;
        }
        let is_open = self.files.is_open(file);
        let is_traced = self.frame_maps.contains_key(&(file.to_owned(), dataset.to_owned()));
        let before = file.metadata();
        let frame_map = self.frame_map(file, dataset);
        // The file may have changed between the stat and the read.
        if let (Ok(before), false) = (before, is_open || is_traced) {
            file_content_cache::put_dataset(file, &before, dataset, &frame_map);
        }
        frame_map
    }

    /// Returns the files that a dataset refers to, and those passed on the way to it, without
    /// mapping its frames.
    ///
    /// # Errors
    /// The dataset can't be read. A dataset that doesn't exist refers to no files.
    pub(crate) fn referenced_files(
        &mut self,
        file: &Path,
        dataset: &str,
    ) -> Result<Vec<PathBuf>, DiscoverError> {
        match self.references(file, dataset) {
            Ok(DatasetReferences { mut files, datasets }) => {
                files.extend(datasets.into_iter().map(|(file, _)| file));
                Ok(files)
            }
            Err(DiscoverError::NoObject(..)) => Ok(Vec::new()),
            Err(why) => Err(why),
        }
    }

    /// Returns the files and datasets that the values of a dataset are read from, without mapping its
    /// frames.
    ///
    /// # Errors
    /// The dataset doesn't exist or can't be read.
    pub(crate) fn references(
        &mut self,
        file: &Path,
        dataset: &str,
    ) -> Result<DatasetReferences, DiscoverError> {
        let root = self.files.root(file)?;
        let ResolvedObject { file, object, files_passed: mut files, .. } =
            self.files.resolve(&root, dataset)?;
        files.push(file.clone());
        let mut datasets = BTreeSet::new();
        if object.object_type() != ObjectType::Dataset {
            return Ok(DatasetReferences::default());
        }
        let find = |name: &Path| match find_linked_file(&file, name) {
            Ok(found) => Ok(Some(found)),
            Err(why) if why.is_missing() => Ok(None),
            Err(why) => Err(why),
        };
        let layout =
            object.storage_layout().map_err(|err| DiscoverError::from_library(&file, &err))?;
        match layout {
            StorageLayout::Virtual(mappings) => {
                let distinct: BTreeSet<_> =
                    mappings.into_iter().map(|mapping| (mapping.file, mapping.dataset)).collect();
                for (name, dataset) in distinct {
                    let found = find(&name)?;
                    datasets.extend(found.map(|file| (file, absolute_dataset_path(&dataset))));
                }
            }
            StorageLayout::External(segments) => {
                let names: BTreeSet<_> = segments.into_iter().map(|segment| segment.file).collect();
                for name in names {
                    files.extend(find(&name)?);
                }
            }
            _ => (),
        }
        Ok(DatasetReferences { files, datasets: datasets.into_iter().collect() })
    }

    /// Returns whether all elements of a dataset were written, as far as its own index shows: for a
    /// virtual one, whether its sources show all of them.
    ///
    /// # Errors
    /// The dataset doesn't exist or can't be read.
    pub(crate) fn is_written(&mut self, file: &Path, dataset: &str) -> Result<bool, DiscoverError> {
        let root = self.files.root(file)?;
        let ResolvedObject { file, object, .. } = self.files.resolve(&root, dataset)?;
        let to_error = |err: LibraryError| DiscoverError::from_library(&file, &err);
        let extents = object.shape().map_err(to_error)?;
        let product = |lengths: &mut dyn Iterator<Item = u64>| {
            lengths.fold(1, |all: u64, length| all.saturating_mul(length))
        };
        let elements = product(&mut extents.iter().copied());
        Ok(match object.storage_layout().map_err(to_error)? {
            StorageLayout::Contiguous(None) => elements == 0,
            StorageLayout::Chunked(chunk, _) => {
                let pairs = extents.iter().zip(&chunk);
                let expected =
                    product(&mut pairs.map(|(extent, chunk)| extent.div_ceil((*chunk).max(1))));
                object.chunk_index(extents.len()).map_err(to_error)?.len() as u64 >= expected
            }
            StorageLayout::Virtual(mappings) => {
                let shown =
                    mappings.iter().map(|mapping| mapping.virtual_selection.count(elements));
                shown.fold(0, u64::saturating_add) >= elements
            }
            StorageLayout::Compact
            | StorageLayout::Contiguous(Some(_))
            | StorageLayout::External(_) => true,
        })
    }

    fn build_frame_map(&mut self, file: &Path, dataset: &str) -> Result<FrameMap, DiscoverError> {
        let metadata = file.metadata().map_err(|why| DiscoverError::from_io(file, &why))?;
        let root = self.files.root(file)?;
        let found = self.files.resolve(&root, dataset)?;
        drop(root);
        let path = found.path();
        if found.file != file || path != dataset {
            // The path led through a link.
            let ResolvedObject { file, files_passed: via, .. } = found;
            let mut frame_map = (*self.frame_map(&file, &path)).clone()?;
            frame_map.files.extend(via);
            return Ok(frame_map);
        }
        let object = &found.object;
        self.check_is_dataset(&found)?;
        let to_error = |err: LibraryError| DiscoverError::from_library(file, &err);
        let coding = PixelCoding::new(object.element_type().map_err(to_error)?, Vec::new())?;
        let mut frame_map = FrameMap::new(file, object.shape().map_err(to_error)?, coding)?;
        let number = object.read_number_attribute("image_nr_low").map_err(to_error)?;
        frame_map.first_image_number =
            number.filter(|number| *number >= 0.0).map(|number| number as u64);
        match object.storage_layout().map_err(to_error)? {
            StorageLayout::Virtual(mappings) => {
                self.add_mapped_frames(&mut frame_map, file, mappings)?
            }
            StorageLayout::External(segments) => {
                stored_dataset::add_external_segments(&mut frame_map, file, &segments)?
            }
            layout => {
                self.files.remember_first();
                stored_dataset::add_dataset(&mut frame_map, object, layout, dataset, &metadata)?;
            }
        }
        Ok(frame_map.complete())
    }

    /// Adds the frames that the mappings of a virtual dataset in `holder` refer to.
    fn add_mapped_frames(
        &mut self,
        frame_map: &mut FrameMap,
        holder: &Path,
        mappings: Vec<VirtualMapping>,
    ) -> Result<(), DiscoverError> {
        let groups = group_by_source(mappings);
        let beside = holder.parent().unwrap_or(Path::new("/"));
        self.files.prefetch(groups.iter().map(|group| beside.join(&group[0].file)));
        for group in groups {
            let here = |mapping: &VirtualMapping| {
                selected_frames(&mapping.virtual_selection, &frame_map.extents)
            };
            let here: Vec<Spans> = group.iter().map(here).collect::<Result<_, _>>()?;
            let VirtualMapping { file: name, dataset, has_block_number, .. } = &group[0];
            if *has_block_number {
                return Err(UnusableError::NumberedSources(name.clone()).into());
            }
            let found = find_linked_file(holder, name)
                .map(|file| (self.trace_source(&file, &absolute_dataset_path(dataset)), file));
            let (other, file) = match &found {
                Ok((frame_map, file)) => (frame_map.as_ref().as_ref(), file.as_path()),
                Err(why) => (Err(why), name.as_path()),
            };
            match other {
                Ok(other) => {
                    let there = |mapping: &VirtualMapping| {
                        selected_frames(&mapping.source_selection, &other.extents)
                    };
                    match group.iter().map(there).collect::<Result<Vec<Spans>, _>>() {
                        Ok(there) => {
                            let (here, there, short) = pair_selections(here, there);
                            frame_map.add_mapped_frames(&here, other, &there)?;
                            frame_map.add_absent(&short, AbsentKind::NotWritten, NOT_WRITTEN)?;
                        }
                        Err(why) => {
                            let why = frame_map.find_mismatch(other).unwrap_or_else(|| why.into());
                            frame_map.add_absent_for_error(
                                &concat_spans(here),
                                &why.into(),
                                file,
                                name,
                            )?;
                        }
                    }
                    frame_map.files.extend(other.files.iter().cloned());
                }
                // The HDF5 library derives the extent of such a dataset from the sources that it
                // can read.
                Err(why)
                    if why.is_unreadable()
                        && group.iter().any(|mapping| mapping.virtual_selection.is_unlimited()) =>
                {
                    return Err(why.clone());
                }
                Err(why) => frame_map.add_absent_for_error(&concat_spans(here), why, file, name)?,
            }
        }
        Ok(())
    }

    fn check_is_dataset(&mut self, found: &ResolvedObject) -> Result<(), DiscoverError> {
        match found.object.object_type() {
            ObjectType::Dataset => Ok(()),
            ObjectType::Group if self.files.try_resolve(found, "frame_ptr")?.is_some() => {
                Err(UnusableError::Sparse.into())
            }
            _ => Err(UnusableError::NotDataset.into()),
        }
    }
}

/// Returns the path of a dataset in a mapping with exactly one leading slash. Mappings may have
/// none, or two.
pub(crate) fn absolute_dataset_path(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

/// Groups mappings by source, with the sources in order of first use.
fn group_by_source(mappings: Vec<VirtualMapping>) -> Vec<Vec<VirtualMapping>> {
    let mut groups: Vec<Vec<VirtualMapping>> = Vec::new();
    let mut known: HashMap<(PathBuf, String), usize> = HashMap::new();
    for mapping in mappings {
        let next = groups.len();
        match *known.entry((mapping.file.clone(), mapping.dataset.clone())).or_insert(next) {
            group if group == next => groups.push(vec![mapping]),
            group => groups[group].push(mapping),
        }
    }
    groups
}

/// Pairs the selections of all mappings of a source frame by frame. The third result holds the
/// frames whose mapping selects more frames in the virtual dataset than in the source.
fn pair_selections(here: Vec<Spans>, there: Vec<Spans>) -> (Spans, Spans, Spans) {
    let counts: Vec<_> =
        here.iter().zip(&there).map(|(here, there)| (here.count(), there.count())).collect();
    if counts.iter().all(|(here, there)| here == there) {
        return (concat_spans(here), concat_spans(there), Spans::default());
    }
    let (mut ours, mut theirs, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for ((here, there), (mine, their)) in here.iter().zip(&there).zip(counts) {
        let both = mine.min(their);
        ours.push(here.slice(0, both));
        theirs.push(there.slice(0, both));
        short.push(here.slice(both, mine.abs_diff(both)));
    }
    (concat_spans(ours), concat_spans(theirs), concat_spans(short))
}

/// Concatenates lists of spans. Several lists are joined frame by frame, so that single frames
/// merge into ranges.
fn concat_spans(mut lists: Vec<Spans>) -> Spans {
    match lists.len() {
        1 => lists.swap_remove(0),
        _ => lists.iter().flat_map(Spans::iter).collect(),
    }
}
