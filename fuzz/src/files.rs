//! Files: images in every format, and the first lines of parts.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use frames::image;
use patterns::part;
use tempfile::TempDir;

/// Where inputs are written for those that read files. `scripts/fuzz` sets TMPDIR to a place in
/// memory, and removes it.
static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| {
    tempfile::Builder::new().prefix("azpipe-fuzz").tempdir().expect("a directory for inputs")
});

/// Returns the directory for inputs, and for what is made of them.
pub fn directory() -> &'static Path {
    DIRECTORY.path()
}

/// Calls `with` with a file of this content.
pub fn with_file(name: &str, data: &[u8], with: impl FnOnce(&Path)) {
    let path: PathBuf = directory().join(name);
    std::fs::write(&path, data).expect("inputs can be written");
    with(&path);
}

/// An image: what its header says, and its pixels, of which there are as many as the header says.
pub fn image(data: &[u8]) {
    with_file("image", data, |path| {
        let Ok(header) = image::probe(path) else { return };
        let pixels = header.shape[0].saturating_mul(header.shape[1]);
        if pixels > 1 << 20 {
            return;
        }
        for frame in 0..header.frames.min(2) {
            if let Ok(read) = image::read_frame(path, frame) {
                assert_eq!(read.shape, header.shape);
            }
        }
    });
}

/// The first line of a part, and the part where its checksum is right, which it hardly is.
pub fn part(data: &[u8]) {
    with_file("part.h5", data, |path| {
        if part::read_user_block(path).is_ok() {
            let _ = part::read_part(path);
        }
    });
}
