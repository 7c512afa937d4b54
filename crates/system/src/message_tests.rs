//! A test that lists all messages of the crate in one place, so that their wording can be compared.

use std::path::Path;

use crate::ownership::{OwnershipRule, ProtectedFiles, ReplacePolicy, rename_directory_into_place};
use crate::{atomic, memory, untrusted_file};

#[test]
fn why_a_file_is_not_read_or_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a");
    std::fs::write(&path, b"\xff").expect("a file");
    let foreign = OwnershipRule::new("an SVG picture", |_| Ok(false));
    let protected = ProtectedFiles::default();
    protected.add(&path);
    let policy = ReplacePolicy::default();
    let errors = [
        untrusted_file::open(Path::new("/dev/null")).map(drop),
        untrusted_file::read(&path, 0).map(drop),
        untrusted_file::read_text(&path).map(drop),
        memory::reserve(&mut Vec::<u8>::new(), usize::MAX),
        foreign.check(directory.path()),
        foreign.check(&path),
        foreign.clone().with_policy(&policy).check(&path),
        foreign.clone().with_protected(&protected).check(&path),
        foreign.clone().with_derived_names().check(directory.path()),
        foreign.clone().with_derived_names().check(&path),
        foreign.clone().with_derived_names().with_policy(&policy).check(&path),
        foreign.with_derived_names().with_protected(&protected).check(&path),
        rename_directory_into_place(directory.path(), &path),
        atomic::write("/", "", &OwnershipRule::in_azpipe_dir()),
    ];
    let messages = [
        "is a device: expected a regular file",
        "longer than 0 MiB: expected a smaller file",
        "not text: expected UTF-8",
        "not enough memory: 17592186044416 MiB are needed, but only FREE MiB are free",
        "exists and is not a regular file: choose another name",
        "exists, and azpipe did not write it as an SVG picture: move it away or choose another name",
        "exists, and azpipe did not write it as an SVG picture: move it away, choose another name, or pass --overwrite",
        "holds raw data or settings of this run, which are never overwritten: choose another name",
        "exists and is not a regular file: move it away",
        "exists, and azpipe did not write it as an SVG picture: move it away",
        "exists, and azpipe did not write it as an SVG picture: move it away, or pass --overwrite",
        "holds raw data or settings of this run, which are never overwritten: copy it to another directory and use the copy, or pass another --out to plan-split",
        "exists already: move it away",
        "not the path of a file",
    ];
    for (error, message) in errors.into_iter().zip(messages) {
        let error = error.expect_err(message).to_string();
        let (start, end) = message.split_once("FREE").unwrap_or((message, ""));
        assert!(error.starts_with(start) && error.ends_with(end), "{error}");
        assert!(error == message || message.contains("FREE"), "{error}");
    }
}
