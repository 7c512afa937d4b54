//! Frames at the end of any chain of links: what h5py opens is found, and nothing else is.

use std::process::Command;

use crate::support::{RawData, create_hdf5, find, nexus_group, python, source_file, write_text};
use hdf5::File;

/// How many directories of chains are tried.
const SEEDS: usize = 8;

/// The value of all pixels of what scan-find finds under a name; 0 where it finds not all frames,
/// or none.
fn read_pixel_value(operand: &str) -> u16 {
    let ran = find(&[operand]);
    let scans = ran.records("scan");
    let Some(scan) = scans.first().filter(|scan| scan["complete"] == true) else { return 0 };
    let pixels = scan["sources"].as_array().unwrap().iter().flat_map(|source| {
        let file = File::open(source["file"].as_str().unwrap()).unwrap();
        file.dataset(source["dataset"].as_str().unwrap()).unwrap().read_raw::<u16>().unwrap()
    });
    let pixels: Vec<u16> = pixels.collect();
    assert!(pixels.iter().all(|pixel| *pixel == pixels[0]), "{operand}: several datasets");
    pixels[0]
}

#[test]
fn what_h5py_opens_through_links_is_found_and_nothing_else() {
    let Some(python) = python() else { return };
    let script = source_file("scan_find/links.py");
    let (mut seeds, mut readable) = (0, 0);
    for seed in 0.. {
        if seeds == SEEDS {
            break;
        }
        let directory = RawData::new();
        let root = directory.path("raw");
        let made =
            Command::new(&python).arg(&script).arg(&root).arg(seed.to_string()).output().unwrap();
        if made.status.code().is_none() {
            // The library of h5py crashes over some: what it would read is not known.
            assert!(seed < 4 * SEEDS, "h5py: {made:?}");
            continue;
        }
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        seeds += 1;
        let nodes: Vec<(String, u16)> = serde_json::from_slice(&made.stdout).unwrap();
        for (operand, expected) in nodes {
            assert_eq!(read_pixel_value(&operand), expected, "seed {seed}: {operand}");
            readable += usize::from(expected > 0);
        }
    }
    assert!(readable > 5 * SEEDS, "{readable} of the datasets can be read");
}

#[test]
fn a_link_to_a_sibling_that_links_to_another_file_is_followed_as_lima_2_makes_it() {
    let directory = RawData::new();
    let receiver = create_hdf5(directory.path("raw/scan0001/p4_0.h5"));
    let data =
        receiver.new_dataset::<u16>().shape((3, 4, 5)).chunk((1, 4, 5)).create("raw").unwrap();
    data.write_raw(&[1_u16; 60]).unwrap();
    drop((data, receiver));
    let frames = create_hdf5(directory.path("raw/scan0001/p4_master.h5"));
    frames.link_external("p4_0.h5", "/raw", "frames").unwrap();
    drop(frames);
    let master = create_hdf5(directory.path("raw/m.h5"));
    let entry = nexus_group(&master, "1.1", "NXentry");
    write_text(&entry, "start_time", "2026-03-04T10:20:30+01:00");
    write_text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
    let detector =
        nexus_group(&nexus_group(&entry, "instrument", "NXinstrument"), "p4", "NXdetector");
    detector.link_external("scan0001/p4_master.h5", "/frames", "frame").unwrap();
    detector.link_soft("frame", "data").unwrap();
    drop((detector, entry, master));
    let ran = find(&[directory.path("raw")]).assert_success();
    assert_eq!(ran.scan_fields(&["below", "detector", "frames", "complete"]), ["m.h5 p4 3 true"]);
    let source = &ran.records("scan")[0]["sources"][0];
    assert!(source["file"].as_str().unwrap().ends_with("scan0001/p4_0.h5"), "{source}");
    assert_eq!(source["dataset"], "/raw");
}
