//! Masks as other programs write them, masks that mask nothing, and values by frame that are not one for
//! each frame.

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, create_hdf5, npy, run, small_options};

const SHAPE: [usize; 2] = [195, 487];

fn plan_with(workspace: &Workspace, out: &str, flag: &str, value: &str) -> Outcome {
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path(out));
    let flags = ["--poni", poni, "--npt", "50", "--out", out.to_str().unwrap(), flag, value];
    run("plan-split", &flags, &workspace.scans)
}

#[test]
fn a_mask_of_booleans_masks_as_one_of_bytes() {
    let workspace = Workspace::new(&small_options());
    let is_masked = |pixel: usize| pixel % SHAPE[1] < 200;
    let masked: Vec<bool> = (0..SHAPE[0] * SHAPE[1]).map(is_masked).collect();
    let file = create_hdf5(workspace.path("m.h5"));
    let bools = file.new_dataset::<bool>().shape((SHAPE[0], SHAPE[1])).create("bools").unwrap();
    bools.write_raw(&masked).unwrap();
    let wide: Vec<i64> = masked.iter().map(|&masked| masked.into()).collect();
    let longs = file.new_dataset::<i64>().shape((SHAPE[0], SHAPE[1])).create("longs").unwrap();
    longs.write_raw(&wide).unwrap();
    // Chunks that were never written are 0.
    let shape = (SHAPE[0], SHAPE[1]);
    let sparse =
        file.new_dataset::<u8>().shape(shape).chunk((SHAPE[0], 200)).create("sparse").unwrap();
    drop((bools, longs, sparse, file));
    let bytes: Vec<u8> = masked.iter().map(|&masked| masked.into()).collect();
    std::fs::write(workspace.path("m.npy"), npy("|u1", SHAPE, &bytes)).unwrap();
    let longs: Vec<u8> = wide.iter().flat_map(|masked| masked.to_le_bytes()).collect();
    std::fs::write(workspace.path("longs.npy"), npy("<i8", SHAPE, &longs)).unwrap();
    std::fs::write(workspace.path("none.npy"), npy("|u1", SHAPE, &vec![0; bytes.len()])).unwrap();
    let patterns = |out: &str, mask: &str| {
        let mask = workspace.path(mask);
        let planned = plan_with(&workspace, out, "--mask", mask.to_str().unwrap()).assert_success();
        let results = run("ai-integrate", NO_ARGUMENTS, &planned.stdout).assert_success();
        let gathered = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
        let path = gathered.records("summary")[0]["final"].as_str().unwrap().to_owned();
        let file = hdf5::File::open(path).unwrap();
        let intensity = file.dataset("1.1/pilatus_integrate/integrated/intensity").unwrap();
        intensity.read_raw::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let (expected, unmasked) = (patterns("bytes", "m.npy"), patterns("none", "none.npy"));
    assert_ne!(expected, unmasked);
    for (name, expected) in [("bools", &expected), ("longs", &expected), ("sparse", &unmasked)] {
        assert_eq!(patterns(name, &format!("m.h5::/{name}")), *expected, "{name}");
    }
    assert_eq!(patterns("npy", "longs.npy"), expected);
}

#[test]
fn a_virtual_mask_needs_its_files() {
    let workspace = Workspace::new(&small_options());
    let (plain, whole) = (workspace.path("plain.h5"), (SHAPE[0], SHAPE[1]));
    let file = create_hdf5(&plain);
    let zeros = file.new_dataset::<u8>().shape(whole).create("mask").unwrap();
    zeros.write_raw(&vec![0_u8; SHAPE[0] * SHAPE[1]]).unwrap();
    drop((zeros, file));
    let file = create_hdf5(workspace.path("m.h5"));
    let builder = file.new_dataset::<u8>().shape(whole);
    builder.virtual_map("plain.h5", "mask", whole, .., whole, ..).create("mask").unwrap();
    drop(file);
    let mask = workspace.path("m.h5::/mask");
    plan_with(&workspace, "out", "--mask", mask.to_str().unwrap()).assert_success();
    std::fs::remove_file(plain).unwrap();
    let refused = plan_with(&workspace, "out", "--mask", mask.to_str().unwrap());
    assert!(refused.status != 0 && refused.records("task").is_empty(), "{}", refused.stderr);
    assert!(refused.stderr.contains("the HDF5 library: "), "{}", refused.stderr);
    assert!(refused.stderr.contains("plain.h5"), "{}", refused.stderr);
}

#[test]
fn a_mask_of_several_images_is_refused() {
    let workspace = Workspace::new(&small_options());
    let file = create_hdf5(workspace.path("m.h5"));
    let stack = file.new_dataset::<u8>().shape((2, SHAPE[0], SHAPE[1])).create("stack").unwrap();
    stack.write_raw(&vec![0_u8; 2 * SHAPE[0] * SHAPE[1]]).unwrap();
    drop((stack, file));
    let mask = workspace.path("m.h5::/stack");
    let refused = plan_with(&workspace, "out", "--mask", mask.to_str().unwrap());
    assert_eq!((refused.status, refused.records("task").len()), (1, 0), "{}", refused.stderr);
    assert!(refused.stderr.contains("2 images: expected one"), "{}", refused.stderr);
}

#[test]
fn a_mask_that_masks_nothing_is_reported() {
    let workspace = Workspace::new(&small_options());
    let mask = |name: &str, value: u8| {
        let path = workspace.path(name);
        std::fs::write(&path, npy("|u1", SHAPE, &vec![value; SHAPE[0] * SHAPE[1]])).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (flag, value, expected) in
        [("--mask", 0, "other values than 0"), ("--mask-inverted", 1, "0")]
    {
        let path = mask("m.npy", value);
        let planned = plan_with(&workspace, "out", flag, &path).assert_success();
        let why = format!(
            "{} {path}: masks no pixel; expected {expected} where pixels are masked",
            &flag[2..]
        );
        assert!(planned.stderr.contains(&why), "{}", planned.stderr);
    }
}

#[test]
fn a_region_without_a_pixel_is_told_of() {
    let workspace = Workspace::new(&small_options());
    for region in ["circle:243,97,20", "rectangle:300,0,400,100"] {
        let planned = plan_with(&workspace, "out", "--mask-region", region).assert_success();
        let why = format!("mask-region {region}: masks none of the 195 x 487 pixels");
        assert!(planned.stderr.contains(&why), "{}", planned.stderr);
    }
    let planned = plan_with(&workspace, "other", "--mask-region", "circle:97,243,20");
    assert!(!planned.assert_success().stderr.contains("masks none"));
}

#[test]
fn monitor_values_for_other_frames_are_told_of() {
    let mut workspace = Workspace::new(&small_options());
    let file = create_hdf5(workspace.path("monitor.h5"));
    for count in [20_usize, 24, 26] {
        let values: Vec<f64> = (0..count).map(|frame| frame as f64 + 1.0).collect();
        file.new_dataset_builder().with_data(&values).create(count.to_string().as_str()).unwrap();
    }
    drop(file);
    workspace.find_scans();
    for (count, is_planned, told) in [
        (20, false, "20 values: expected one, or one for each of 24 frames"),
        (24, true, "24 tasks"),
        (26, true, "26 values for 24 frames: the first 24 are taken"),
    ] {
        let monitor = format!("{}::/{count}", workspace.path("monitor.h5").display());
        let planned = plan_with(&workspace, &format!("out{count}"), "--monitor", &monitor);
        assert_eq!(!planned.records("task").is_empty(), is_planned, "{}", planned.stderr);
        assert_eq!(planned.stderr.contains(told), count != 24, "{}", planned.stderr);
    }
}
