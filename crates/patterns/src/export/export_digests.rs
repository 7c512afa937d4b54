//! Digests of the exports that azpipe wrote, by which it recognizes them: most text formats have no
//! place for a mark.
//!
//! `OUT/.azpipe/exports/<final>.json` lists each file with the digests of the last two contents
//! that were written to it. It is updated before the exports are written, so that a killed run
//! leaves no export that is not listed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use records::RawPath;
use system::ownership::{AZPIPE_DIR, OwnershipRule, ReplacePolicy, create_directories, has_mark};
use system::{atomic, untrusted_file};
use xxhash_rust::xxh3::xxh3_128;

use super::ExportError;
use crate::output::OutputFile;

/// Number of digests that are kept per file: of the content that is being written, and of the
/// previous one.
const DIGESTS_KEPT: usize = 2;

/// Digests of one final file's exports.
pub(super) struct ExportDigests {
    /// Path of the JSON file; `None` if the final file was moved, so that its output root is
    /// unknown.
    path: Option<PathBuf>,
    files: Arc<BTreeMap<OsString, Vec<String>>>,
}

impl ExportDigests {
    /// Reads the digests of a final file's exports; empty if there is no JSON file, or if it is
    /// damaged.
    pub fn read(output: &OutputFile) -> Result<Self, ExportError> {
        let root = output.path.ancestors().nth(output.task.final_file.components().count());
        let is_in_place = output.path.ends_with(output.task.final_file.as_path());
        let Some(root) = root.filter(|_| is_in_place) else {
            return Ok(Self { path: None, files: Arc::default() });
        };
        let mut path = root
            .join(AZPIPE_DIR)
            .join("exports")
            .join(output.task.final_file.as_path())
            .into_os_string();
        path.push(".json");
        let path = PathBuf::from(path);
        // Where the exports are as they were, nothing is written to that directory, which would
        // remove them.
        atomic::remove_stale_files_once(path.parent().unwrap_or(Path::new("")));
        let files: Vec<(RawPath, Vec<String>)> =
            match untrusted_file::read(&path, untrusted_file::MAX_TEXT_BYTES) {
                Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
                Err(why) if why.kind() == ErrorKind::NotFound => Vec::new(),
                Err(why) => return Err(ExportError::Io { path, why }),
            };
        let files = files
            .into_iter()
            .map(|(name, digests)| (name.as_os_str().to_owned(), digests))
            .collect();
        Ok(Self { path: Some(path), files: Arc::new(files) })
    }

    /// Claims the exports that were not changed since azpipe wrote them.
    pub fn owned_exports(&self, policy: &ReplacePolicy) -> OwnershipRule {
        let files = Arc::clone(&self.files);
        let is_own = move |path: &Path| {
            if has_mark(path, b"# == ", b", azpipe ")? {
                return Ok(true);
            }
            match path.file_name().and_then(|name| files.get(name)) {
                Some(digests) => digest_file(path).map(|digest| digests.contains(&digest)),
                None => Ok(false),
            }
        };
        OwnershipRule::new("an export, or it was changed since", is_own).with_policy(policy)
    }

    /// Adds the digests of contents that are about to be written, and writes the JSON file.
    pub fn add<'a>(
        &mut self,
        contents: impl Iterator<Item = (&'a OsStr, &'a str)>,
    ) -> Result<(), ExportError> {
        let files = Arc::make_mut(&mut self.files);
        for (name, content) in contents {
            let digests = files.entry(name.to_owned()).or_default();
            let new = digest(content.as_bytes());
            digests.retain(|digest| *digest != new);
            digests.insert(0, new);
            digests.truncate(DIGESTS_KEPT);
        }
        let Some(path) = &self.path else { return Ok(()) };
        let files: Vec<(RawPath, &Vec<String>)> = files
            .iter()
            .map(|(name, digests)| (RawPath::from(PathBuf::from(name)), digests))
            .collect();
        let write = || {
            create_directories(path.parent().unwrap_or(Path::new("")))?;
            atomic::write(path, serde_json::to_vec(&files)?, &OwnershipRule::in_azpipe_dir())
        };
        write().map_err(|why: io::Error| ExportError::Io { path: path.clone(), why })
    }
}

fn digest_file(path: &Path) -> io::Result<String> {
    Ok(digest(&untrusted_file::read(path, untrusted_file::MAX_TEXT_BYTES)?))
}

fn digest(content: &[u8]) -> String {
    format!("{:032x}", xxh3_128(content))
}
