//! Tests that reading a file leaves no trace, and that it works while other processes have the file
//! open.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use frames::source::{FrameChunks, SourceReader};
use hdf5::file::LibraryVersion;

use crate::support::{TestDir, acquisition, assert_whole, plain, source};

fn dataset(dir: &TestDir) -> std::path::PathBuf {
    let mut name = dir.path("x.h5").into_os_string();
    name.push("::/d");
    name.into()
}

#[test]
fn a_file_that_its_writer_has_locked_can_be_read() {
    let dir = TestDir::new();
    plain(&dir.create("x.h5"), "d", [3, 6, 7]);
    let writer = File::options().read(true).write(true).open(dir.path("x.h5")).unwrap();
    writer.lock().unwrap();
    if std::env::var_os("HDF5_USE_FILE_LOCKING").is_none() {
        assert!(hdf5::File::open(dir.path("x.h5")).is_err(), "the library would wait for no lock");
    }
    assert_whole(&acquisition(&dataset(&dir)));
}

#[test]
fn a_reader_locks_nobody_out() {
    let dir = TestDir::new();
    plain(&dir.create("x.h5"), "d", [3, 6, 7]);
    let reader = SourceReader::open(&source(&dir.path("x.h5"), "/d"), [6, 7]).unwrap();
    let writer = File::options().read(true).write(true).open(dir.path("x.h5")).unwrap();
    writer.try_lock().expect("no lock is held while a reader is open");
    assert!(matches!(reader.frame_chunks(0), FrameChunks::Whole(_)));
}

#[test]
fn nothing_is_written_and_nothing_needs_to_be_writable() {
    let dir = TestDir::new();
    plain(&dir.create("x.h5"), "d", [3, 6, 7]);
    let path = dir.path("x.h5");
    let state = || {
        let metadata = fs::metadata(&path).unwrap();
        (fs::read(&path).unwrap(), metadata.mtime_nsec(), metadata.ctime_nsec(), metadata.ino())
    };
    fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o555)).unwrap();
    let before = state();
    assert_whole(&acquisition(&dataset(&dir)));
    assert!(state() == before, "bytes or times changed");
    fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no file was made beside it"
    );
}

/// Offset of the status flags in a version 3 superblock, which say that a writer has the file open.
const STATUS_FLAGS: usize = 11;

#[test]
fn a_file_whose_writer_died_or_is_at_work_can_be_read() {
    let dir = TestDir::new();
    let options = hdf5::File::with_options()
        .with_fapl(|fapl| fapl.libver_bounds(LibraryVersion::V110, LibraryVersion::V110))
        .clone();
    plain(&options.create(dir.path("x.h5")).unwrap(), "d", [3, 6, 7]);
    let whole = fs::read(dir.path("x.h5")).unwrap();
    assert_eq!(whole[8], 3, "the superblock's version");
    // 1: open for writing; 5: open for SWMR writing.
    for flags in [1, 5] {
        let mut marked = whole.clone();
        marked[STATUS_FLAGS] = flags;
        let end = 12 + 4 * 8;
        let sum = checksum(&marked[..end]);
        marked[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        fs::write(dir.path("x.h5"), &marked).unwrap();
        assert!(hdf5::File::open(dir.path("x.h5")).is_err(), "the library refuses such a file");
        assert_whole(&acquisition(&dataset(&dir)));
        assert!(
            fs::read(dir.path("x.h5")).unwrap() == marked,
            "the mark is the writer's to take away"
        );
    }
}

/// Returns Jenkins' lookup3 checksum (`hashlittle`, initial value 0), with which HDF5 protects its
/// metadata.
fn checksum(bytes: &[u8]) -> u32 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 4];
        word[..bytes.len().min(4)].copy_from_slice(&bytes[..bytes.len().min(4)]);
        u32::from_le_bytes(word)
    };
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let [mut a, mut b, mut c] = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(rest));
        b = b.wrapping_add(word(&rest[4..]));
        c = c.wrapping_add(word(&rest[8..]));
        for (turn, (x, y, z)) in [4, 6, 8, 16, 19, 4]
            .into_iter()
            .zip([(0, 2, 1), (1, 0, 2), (2, 1, 0)].into_iter().cycle())
        {
            let mut all = [a, b, c];
            all[x] = all[x].wrapping_sub(all[y]) ^ all[y].rotate_left(turn);
            all[y] = all[y].wrapping_add(all[z]);
            [a, b, c] = all;
        }
        rest = &rest[12..];
    }
    a = a.wrapping_add(word(rest));
    b = b.wrapping_add(word(rest.get(4..).unwrap_or_default()));
    c = c.wrapping_add(word(rest.get(8..).unwrap_or_default()));
    let turns = [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)];
    let mut all = [a, b, c];
    for (x, y, turn) in turns {
        all[x] = (all[x] ^ all[y]).wrapping_sub(all[y].rotate_left(turn));
    }
    all[2]
}
