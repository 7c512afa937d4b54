//! The mark of azpipe in pictures and reports, which lie wherever a user wants them: by it, a later
//! run knows which of them it may replace.
//!
//! The mark is the name and version of azpipe where a format has them, such as
//! `<!-- azpipe 0.1.0, content 0f3a... -->` in an SVG file. The digest is that of the whole file
//! with zeros in place of the digest itself, so that a file that somebody changed is not replaced.
//! Files of versions before there was a digest have none, and are replaced by their mark alone.
//!
//! Exports, whose formats are given, have no such mark. Crate `patterns` keeps their digests.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::Path;

use system::atomic::AtomicFile;
use system::ownership::{OwnershipRule, ReplacePolicy, read_head};
use system::untrusted_file;
use xxhash_rust::xxh3::Xxh3;

/// Version of azpipe, in the mark.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Largest length of a version.
const MAX_VERSION_LENGTH: usize = 40;
/// Text between version and digest.
const DIGEST_LABEL: &str = ", content ";
/// Length of a digest in hexadecimal digits.
const DIGEST_LENGTH: usize = 32;
/// How many bytes of a file are searched for the mark.
const SEARCHED_BYTES: usize = 4096;
/// Length of the checksum of a PNG chunk, which follows the chunk's content.
const CRC_LENGTH: usize = 4;

/// A format of files, and where its files have the mark.
#[derive(Clone, Copy, Debug)]
pub struct MarkedFormat {
    /// First bytes of each file of the format.
    pub start: &'static [u8],
    /// Bytes before the version of azpipe, in the first 4096 bytes of each file of azpipe.
    pub mark: &'static [u8],
    /// True if the mark is in a PNG chunk, whose content it ends and whose type `mark` begins with.
    pub is_png: bool,
}

/// PNG files with azpipe as their `Software`, the text of [`unsealed_mark`].
pub const PNG: MarkedFormat =
    MarkedFormat { start: b"\x89PNG", mark: b"tEXtSoftware\0azpipe ", is_png: true };

/// Returns the mark of a file that is being written. [`MarkedFormat::seal`] fills in its digest
/// once the file is complete.
pub fn unsealed_mark() -> String {
    format!("azpipe {VERSION}{DIGEST_LABEL}{}", "0".repeat(DIGEST_LENGTH))
}

impl MarkedFormat {
    /// Fills in the digest of a complete file with the mark of [`unsealed_mark`]. Equal files get
    /// equal digests. A file without the mark stays as it is.
    pub fn seal(self, file: &mut [u8]) {
        let Some(place) = self.find_digest(file.get(..SEARCHED_BYTES).unwrap_or(file)) else {
            return;
        };
        fill_with_zeros(file, 0, &self.unhashed(&place));
        let digest = digest(file);
        file[place.clone()].copy_from_slice(digest.as_bytes());
        if self.is_png {
            let chunk = find(file, self.mark).unwrap_or(place.start);
            let (content, crc) = file[chunk..].split_at_mut(place.end.saturating_sub(chunk));
            crc[..CRC_LENGTH].copy_from_slice(&crc32fast::hash(content).to_be_bytes());
        }
    }

    /// Returns the rule by which files of this format may be replaced: those that azpipe wrote and
    /// nobody changed, and as `policy` allows. `kind` names such a file in messages, as in
    /// `a picture`.
    pub fn ownership(self, kind: &'static str, policy: &ReplacePolicy) -> OwnershipRule {
        OwnershipRule::new(kind, move |path| self.is_own(path)).with_policy(policy)
    }

    /// Returns whether azpipe wrote a file and nobody changed it. A file whose mark has no digest
    /// is taken to be unchanged.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn is_own(self, path: &Path) -> io::Result<bool> {
        let head = read_head(path, SEARCHED_BYTES)?;
        if !head.starts_with(self.start) || find(&head, self.mark).is_none() {
            return Ok(false);
        }
        let Some(place) = self.find_digest(&head) else { return Ok(true) };
        let digest = hash_file(path, &self.unhashed(&place))?;
        Ok(head.get(place).is_some_and(|there| there == digest.as_bytes()))
    }

    /// Returns where the digest is in the first bytes of a file; `None` if the mark has none.
    fn find_digest(self, head: &[u8]) -> Option<Range<usize>> {
        let version = find(head, self.mark)?.saturating_add(self.mark.len());
        let end_of_search = version.saturating_add(MAX_VERSION_LENGTH + DIGEST_LABEL.len());
        let searched = head.get(version..end_of_search.min(head.len()))?;
        let label = find(searched, DIGEST_LABEL.as_bytes())?;
        let start = version.saturating_add(label).saturating_add(DIGEST_LABEL.len());
        Some(start..start.saturating_add(DIGEST_LENGTH))
    }

    /// Returns the bytes that the digest leaves out: the digest and, in a PNG file, the checksum of
    /// the chunk that it ends.
    fn unhashed(self, digest: &Range<usize>) -> Range<usize> {
        let crc = if self.is_png { CRC_LENGTH } else { 0 };
        digest.start..digest.end.saturating_add(crc)
    }
}

/// Checks that a file can be written to a path, before the work for it is done: its directory exists
/// and can be written to, and `rule` allows replacing a file that is there.
///
/// # Errors
/// Returns what is wrong. The message does not repeat the path.
pub fn check_target(path: &Path, rule: &OwnershipRule) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let with = |text: &str, why: io::Error| io::Error::new(why.kind(), format!("{text}: {why}"));
    match directory.metadata() {
        Ok(found) if found.is_dir() => (),
        Err(why) if !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Err(with("its directory can't be examined", why));
        }
        _ => {
            let why = "its directory does not exist: create it first";
            return Err(io::Error::new(ErrorKind::NotFound, why));
        }
    }
    rule.check(path)?;
    // Whether this user may write there, the system itself knows best.
    let reserved = AtomicFile::create(path, rule);
    reserved.map(drop).map_err(|why| with("its directory can't be written to", why))
}

/// Returns the digest of a file.
///
/// # Errors
/// Fails if the file can't be read.
pub fn digest_file(path: &Path) -> io::Result<String> {
    hash_file(path, &(0..0))
}

/// Returns the digest of a file's content.
pub fn digest(content: &[u8]) -> String {
    let mut hasher = Xxh3::new();
    hasher.update(content);
    format_digest(&hasher)
}

/// Returns the digest of a file with zeros in place of some bytes.
fn hash_file(path: &Path, unhashed: &Range<usize>) -> io::Result<String> {
    let mut file = untrusted_file::open(path)?;
    let mut hasher = Xxh3::new();
    let mut block = vec![0; 1 << 16];
    let mut position = 0_usize;
    loop {
        let read = match file.read(&mut block) {
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(format_digest(&hasher));
        }
        fill_with_zeros(&mut block[..read], position, unhashed);
        hasher.update(&block[..read]);
        position = position.saturating_add(read);
    }
}

/// Overwrites those of the bytes that lie in a range of the file, in which they begin at
/// `position`.
fn fill_with_zeros(bytes: &mut [u8], position: usize, range: &Range<usize>) {
    let [start, end] =
        [range.start, range.end].map(|place| place.saturating_sub(position).min(bytes.len()));
    bytes[start..end].fill(b'0');
}

fn format_digest(hasher: &Xxh3) -> String {
    format!("{:032x}", hasher.digest128())
}

/// Returns where a text begins in bytes.
fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|there| there == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: MarkedFormat =
        MarkedFormat { start: b"<page>", mark: b"<!-- azpipe ", is_png: false };

    /// Returns a file of more than one block with a digest.
    fn page(content: &str) -> Vec<u8> {
        let body = content.repeat(20_000);
        let mut bytes = format!("<page>\n<!-- {} -->\n{body}", unsealed_mark()).into_bytes();
        PAGE.seal(&mut bytes);
        bytes
    }

    #[test]
    fn a_file_is_own_until_any_byte_of_it_changes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("page");
        let is_own = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            PAGE.is_own(&path).expect("a readable file")
        };
        let whole = page("text ");
        assert!(is_own(&whole));
        assert_eq!(whole, page("text "), "equal files have equal digests");
        assert_ne!(whole[..60], page("test ")[..60]);
        for place in [0, 3, 10, 20, 34, 50, 65, 65_535, 65_536, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[place] ^= 1;
            assert!(!is_own(&changed), "byte {place}");
        }
        assert!(!is_own(&whole[..whole.len() - 1]) && !is_own(&[&whole[..], b"\n"].concat()));
        assert!(is_own(b"<page>\n<!-- azpipe 0.1.0 -->\n"), "of a version without digests");
        assert!(!is_own(b"<page>\n<!-- somebody -->\n"));
    }

    #[test]
    fn a_file_needs_a_directory_that_can_be_written_to() {
        let directory = tempfile::tempdir().expect("a directory");
        let rule = PAGE.ownership("a page", &ReplacePolicy::default());
        let check = |name: &str| {
            check_target(&directory.path().join(name), &rule).map_err(|why| why.to_string())
        };
        assert_eq!(check("page"), Ok(()));
        std::fs::write(directory.path().join("file"), "").expect("a file");
        for name in ["no/page", "file/page"] {
            let why = check(name).expect_err("no directory");
            assert_eq!(why, "its directory does not exist: create it first");
        }
        assert!(check("file").expect_err("no page").starts_with("exists, and azpipe did not"));
        let long = check(&"x".repeat(300)).expect_err("no file name is as long");
        assert!(long.contains("File name too long"), "{long}");
        assert_eq!(directory.path().read_dir().expect("a directory").count(), 1);
    }

    #[test]
    fn a_missing_file_is_nobodys() {
        assert!(!PAGE.is_own(Path::new("no/such/page")).expect("nothing there"));
    }
}
