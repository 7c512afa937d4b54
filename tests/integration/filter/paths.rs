//! scan-find's input is a list of paths: of any bytes, good and bad.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::filters::{SCAN_FIND, directory_with_poni};
use crate::support::{json, lines};

const NAMES: [&[u8]; 6] = [
    b"plain.edf",
    b"two words.edf",
    b"it's \"$HOME\".edf",
    b"50%:*?[a].edf",
    b"-x.edf",
    b"\xff\xfe.edf",
];

/// Returns an EDF image of one pixel.
fn one_pixel_edf() -> Vec<u8> {
    let header =
        "{ Dim_1 = 1 ; Dim_2 = 1 ; DataType = UnsignedByte ; ByteOrder = LowByteFirst ; Size = 1 ;";
    format!("{header:<510}}}\n\x07").into_bytes()
}

/// Returns the names of the files in scan records, in base64 if they are not UTF-8.
fn read_scan_names(stdout: &[u8]) -> Vec<String> {
    let name = |line: &str| {
        let record = json(line);
        assert_eq!(record["type"], "scan", "{record}");
        let file =
            record["file"].as_str().map(|file| file.rsplit('/').next().expect("a name").to_owned());
        file.unwrap_or_else(|| record["file_b64"].as_str().expect("a file").to_owned())
    };
    lines(stdout).into_iter().map(name).collect()
}

#[test]
fn a_list_holds_names_of_any_bytes() {
    for (flag, separator, breaks) in [(&[][..], b'\n', false), (&["-0"], 0, true)] {
        let place = directory_with_poni();
        let mut names: Vec<&[u8]> = NAMES.to_vec();
        if breaks {
            names.push(b"line\nbreak.edf");
        }
        for name in &names {
            std::fs::write(place.path().join(OsStr::from_bytes(name)), one_pixel_edf())
                .expect("a file");
        }
        let done = SCAN_FIND.run(place.path(), flag, names.join(&separator));
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        let told = read_scan_names(&done.stdout);
        assert_eq!(told.len(), names.len());
        for name in names.iter().filter_map(|name| std::str::from_utf8(name).ok()) {
            assert!(told.iter().any(|told| told == name), "{name}: {told:?}");
        }
    }
}

#[test]
fn a_path_that_is_none_is_one_failure_and_the_rest_goes_on() {
    let place = directory_with_poni();
    for name in ["a.edf", "b.edf"] {
        std::fs::write(place.path().join(name), one_pixel_edf()).expect("a file");
    }
    let done = SCAN_FIND.run(place.path(), &[], "a.edf\nno/such\nb.edf\n");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let records: Vec<_> = lines(&done.stdout).into_iter().map(json).collect();
    let of_kind = |kind: &str| records.iter().filter(|record| record["type"] == kind).count();
    assert_eq!([of_kind("scan"), of_kind("fail"), records.len()], [2, 1, 3], "{records:?}");
    let [complaint] = lines(&done.stderr)[..] else { panic!("{done:?}") };
    assert!(complaint.starts_with("scan-find: ") && complaint.contains("no/such"), "{complaint}");
}
