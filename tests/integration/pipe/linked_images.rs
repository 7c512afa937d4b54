//! Masks, darks, flats and variances whose values are in other files than the named one, by links or
//! as virtual datasets: read where they are, refused where some were never written, and known by the
//! content of all these files.

use std::fs;
use std::path::Path;

use hdf5::File;
use sample::{Defect, Options};
use serde_json::Value;

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, create_hdf5, run, small_options};

const SHAPE: [usize; 2] = [195, 487];

/// Writes an image of this dataset name and value into an open file.
fn write_image(file: &File, name: &str, value: impl Fn(usize) -> f32) {
    let pixels: Vec<f32> = (0..SHAPE[0] * SHAPE[1]).map(value).collect();
    let data = file.new_dataset::<f32>().shape(SHAPE).create(name).unwrap();
    data.write_raw(&pixels).unwrap();
}

/// Writes a file with an image, and one that links to it, whose own bytes are other numbers.
fn write_linked(workspace: &Workspace) {
    let stored = create_hdf5(workspace.path("stored.h5"));
    write_image(&stored, "image", |pixel| if pixel % SHAPE[1] < 240 { 1.0 } else { 2.0 });
    write_image(&stored, "mask", |pixel| if pixel % SHAPE[1] < 240 { 1.0 } else { 0.0 });
    let links = create_hdf5(workspace.path("links.h5"));
    write_image(&links, "other", |_| 50.0);
    for name in ["image", "mask"] {
        links.link_external("stored.h5", &format!("/{name}"), name).unwrap();
        links.link_soft(&format!("/{name}"), &format!("soft {name}")).unwrap();
    }
    let far = create_hdf5(workspace.path("far.h5"));
    write_image(&far, "other", |_| 70.0);
    for name in ["image", "mask"] {
        far.link_external("links.h5", &format!("/soft {name}"), name).unwrap();
    }
}

fn plan(workspace: &Workspace, out: &str, key: &str, image: &str) -> Outcome {
    let out = workspace.path(out);
    let poni = workspace.data.poni.to_str().unwrap();
    let image = workspace.path(image);
    let mut flags = vec!["--poni", poni, "--npt", "60", "--out", out.to_str().unwrap()];
    flags.extend([key, image.to_str().unwrap()]);
    if key == "--variance" {
        flags.extend(["--error-model", "variance"]);
    }
    run("plan-split", &flags, &workspace.scans)
}

/// Returns the digest of the data of the first final.
fn integrate(tasks: &str) -> Value {
    let results = run("ai-integrate", NO_ARGUMENTS, tasks).assert_success().stdout;
    let gathered = run("gather", NO_ARGUMENTS, &results).assert_success();
    gathered.records("summary")[0]["data_digest"].clone()
}

#[test]
fn an_image_behind_links_is_read_where_it_is() {
    let workspace = Workspace::new(&Options { frames: 3, ..small_options() });
    write_linked(&workspace);
    let cases =
        [("--mask", "mask"), ("--dark", "image"), ("--flat", "image"), ("--variance", "image")];
    for (key, name) in cases {
        let result = |file: &str| {
            let out = format!("{key} {file}");
            let tasks =
                plan(&workspace, &out, key, &format!("{file}.h5::/{name}")).assert_success();
            integrate(&tasks.stdout)
        };
        let stored = result("stored");
        for file in ["links", "far"] {
            assert_eq!(result(file), stored, "{key} by {file}.h5");
        }
    }
}

#[test]
fn a_changed_file_behind_a_link_or_virtual_dataset_is_refused_and_other_settings() {
    let workspace = Workspace::new(&Options { frames: 3, scans: 2, ..small_options() });
    write_linked(&workspace);
    let master =
        workspace.data.master.strip_prefix(workspace.path("")).unwrap().display().to_string();
    let cases = [
        ("far.h5::/image".to_owned(), workspace.path("stored.h5")),
        ("far.h5::/image".to_owned(), workspace.path("links.h5")),
        (format!("{master}::/2.1/instrument/pilatus/data"), workspace.data.lima[1][0].clone()),
    ];
    for (number, (image, changed)) in cases.iter().enumerate() {
        let out = format!("changed {number}");
        let tasks = plan(&workspace, &out, "--dark", image).assert_success().stdout;
        integrate(&tasks);
        append_byte(changed);
        let refused = run("ai-integrate", &["--force"], &tasks);
        assert_eq!(refused.status, 1, "{image}: {}", refused.stderr);
        let name = changed.file_name().unwrap().to_str().unwrap();
        assert!(refused.stderr.contains(name), "{image}: {}", refused.stderr);
        let again = plan(&workspace, &out, "--dark", image);
        assert!(
            again.status == 1 && again.stderr.contains("other settings"),
            "{image}: {}",
            again.stderr
        );
    }
}

/// Changes a file, and no dataset in it.
fn append_byte(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes.push(0);
    fs::write(file, bytes).unwrap();
}

#[test]
fn an_image_of_a_virtual_dataset_that_was_never_written_is_refused() {
    for defect in [Defect::Aborted, Defect::UnwrittenChunk, Defect::MissingFile] {
        let workspace =
            Workspace::new(&Options { scans: 1, defects: vec![defect], ..small_options() });
        let master =
            workspace.data.master.strip_prefix(workspace.path("")).unwrap().display().to_string();
        for key in ["--dark", "--flat", "--variance"] {
            // Of a variance, one image is read.
            let planned =
                plan(&workspace, "out", key, &format!("{master}::/2.1/instrument/pilatus/data"));
            assert_eq!(planned.status, 2, "{defect:?} {key}: {}", planned.stderr);
            let expected = [": not written", "file missing", "images: expected one"];
            assert!(
                expected.iter().any(|word| planned.stderr.contains(word)),
                "{defect:?} {key}: {}",
                planned.stderr
            );
        }
        let whole = format!("{master}::/1.1/instrument/pilatus/data");
        let direct = workspace.data.lima[0].clone();
        let planned = plan(&workspace, "whole", "--dark", &whole).assert_success();
        assert!(planned.stderr.is_empty(), "{}", planned.stderr);
        assert!(direct.len() > 1, "the dark is in several files");
    }
}

/// Writes datasets that h5py makes: integers of 64 bits and booleans behind links, and an image put together
/// from two halves, whole and with a gap; and an image file with the same values.
const OTHER_TYPES: &str = r#"
import h5py, numpy, sys, os
top = sys.argv[1]
os.chdir(top)
image = numpy.where(numpy.arange(487) < 240, 1, 2) * numpy.ones((195, 1), "i8")
numpy.save("image.npy", image.astype("f4"))
numpy.save("mask.npy", (image == 1).astype("u1"))
with h5py.File("types.h5", "w") as file:
    file["i8"], file["bool"], file["f2"] = image, image == 1, image.astype("f2")
    file["upper"], file["lower"] = image[:100].astype("f4"), image[100:].astype("f4")
    file["larger"] = numpy.pad((image == 1).astype("u1"), 3)
with h5py.File("elsewhere.h5", "w") as file:
    file["padding"] = numpy.full((4, 195, 487), 50, "f4")
    for name in ("i8", "bool", "f2"):
        file[name] = h5py.ExternalLink("types.h5", "/" + name)
    for name, stop in (("modules", 195), ("gap", 190)):
        layout = h5py.VirtualLayout((195, 487), "f4")
        layout[:100] = h5py.VirtualSource("types.h5", "upper", (100, 487))
        layout[100:stop] = h5py.VirtualSource("types.h5", "lower", (95, 487))[: stop - 100]
        file.create_virtual_dataset(name, layout)
    layout = h5py.VirtualLayout((195, 487), "u1")
    layout[:] = h5py.VirtualSource("types.h5", "larger", (201, 493))[3:198, 3:490]
    file.create_virtual_dataset("crop", layout)
"#;

#[test]
fn whatever_the_library_reads_is_read_elsewhere_too_if_it_was_written() {
    let workspace = Workspace::new(&Options { frames: 3, ..small_options() });
    let top = workspace.path("");
    let Some(_) = crate::support::run_python(OTHER_TYPES, [top.as_os_str()]) else { return };
    let result = |key: &str, image: &str| {
        let tasks = plan(&workspace, &format!("{key} {image}"), key, image).assert_success();
        integrate(&tasks.stdout)
    };
    for key in ["--dark", "--flat"] {
        let expected = result(key, "image.npy");
        for name in ["i8", "f2", "modules"] {
            assert_eq!(result(key, &format!("elsewhere.h5::/{name}")), expected, "{key} {name}");
        }
        let refused = plan(&workspace, "gap", key, "elsewhere.h5::/gap");
        assert_eq!(refused.status, 2, "{key}: {}", refused.stderr);
    }
    let expected = result("--mask", "mask.npy");
    for name in ["bool", "crop"] {
        assert_eq!(result("--mask", &format!("elsewhere.h5::/{name}")), expected, "{name}");
    }
}
