//! Cakes and their compression: h5py reads each with hdf5plugin, gather copies what ai-integrate
//! compressed, and later runs read, verify and rewrite it.

use std::fs;
use std::path::Path;

use sample::{Defect, Options};
use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Workspace, open_hdf5_to_write, run, run_python, small_options};

/// Prints the filters of the cakes, after it compared all of their bytes with those of a copy.
const COMPARE: &str = r#"
import json, sys
import h5py, hdf5plugin
found, expected = (h5py.File(name)["1.1/pilatus_integrate"] for name in sys.argv[1:3])
filters = set()
for name in ("integrated/intensity", "integrated/intensity_errors", "averaged/intensity"):
    assert found[name].shape == expected[name].shape, name
    assert found[name][()].tobytes() == expected[name][()].tobytes(), name
    creation = found[name].id.get_create_plist()
    filters.add(str([creation.get_filter(index)[0] for index in range(creation.get_nfilters())]))
print(json.dumps(sorted(filters)))
"#;

/// Averages of some frames, so that their dataset has several cakes.
const AVERAGE: [&str; 2] = ["--average", "mean,5"];

fn compare(one: &str, other: &str) -> Option<Value> {
    Some(serde_json::from_slice(&run_python(COMPARE, [one, other])?).unwrap())
}

#[test]
fn finals_of_each_compression_hold_the_same_bytes() {
    let workspace = Workspace::new(&small_options());
    // Chunks that end in a block of bitshuffle that is not whole, and in elements that fill no byte.
    let tasks = workspace.plan_without_bins("out", &["--npt-azim", "37", "--npt", "301"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let gather = |flags: &[&str]| {
        let flags = [&AVERAGE[..], flags].concat();
        run("gather", &flags, &results).assert_success().records("summary").remove(0)
    };
    let first = gather(&[]);
    let path = first["final"].as_str().unwrap();
    let copy = workspace.path("copy.h5");
    fs::copy(path, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    assert!(workspace.parts("out").is_empty());
    let mut sizes = Vec::new();
    for (compression, filters) in
        [("none", "[]"), ("lz4", "[32008]"), ("zstd", "[32008]"), ("gzip", "[2, 1]")]
    {
        // From the final of another compression, whose rows are verified.
        let summary = gather(&["--compression", compression]);
        assert_eq!(summary["data_digest"], first["data_digest"], "{compression}");
        if let Some(found) = compare(path, copy) {
            assert_eq!(found, json!([filters]), "{compression}");
        }
        let bytes = fs::read(path).unwrap();
        sizes.push(bytes.len());
        // It is up to date for whoever asks for no other.
        gather(&[]);
        gather(&["--compression", compression]);
        assert!(fs::read(path).unwrap() == bytes, "{compression}: written again");
    }
    let [none, lz4, zstd, gzip] = sizes[..] else { panic!("four sizes") };
    assert!(none > lz4 && lz4 > zstd && none > gzip, "{sizes:?}");
}

#[test]
fn a_growing_final_keeps_its_compression() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--npt-azim", "12", "--by", "file"]);
    let (first, rest) = tasks.split_once('\n').unwrap();
    let results = run("ai-integrate", NO_ARGUMENTS, &format!("{first}\n")).assert_success();
    let flags = ["--compression", "lz4"];
    assert_eq!(run("gather", &flags, &results.stdout).status, 1, "frames are missing");
    let results = run("ai-integrate", NO_ARGUMENTS, rest).assert_success();
    let grown = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    let grown = grown.records("summary").remove(0);
    let whole = workspace.plan("whole", &["--npt-azim", "12"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &whole).assert_success();
    let whole = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    assert_eq!(grown["data_digest"], whole.records("summary")[0]["data_digest"]);
    let script = "import h5py, sys; print(h5py.File(sys.argv[1])['1.1/pilatus_integrate/integrated/intensity'].id.get_create_plist().get_filter(0)[0])";
    if let Some(filter) = run_python(script, [grown["final"].as_str().unwrap()]) {
        assert_eq!(filter, b"32008\n");
    }
}

#[test]
fn a_flipped_bit_in_a_bitshuffled_cake_is_noticed() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--npt-azim", "12"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let lz4 = ["--compression", "lz4"];
    let whole = run("gather", &lz4, &results).assert_success().records("summary").remove(0);
    let path = whole["final"].as_str().unwrap();
    let (offset, size) = {
        let data = hdf5::File::open(path).unwrap();
        let data = data.dataset("1.1/pilatus_integrate/integrated/intensity").unwrap();
        let chunk = data.chunk_info(2).unwrap();
        (chunk.addr as usize, chunk.size as usize)
    };
    let intact = fs::read(path).unwrap();
    for at in [0, 9, 14, size / 2, size - 1] {
        let mut damaged = intact.clone();
        damaged[offset + at] ^= 0x10;
        fs::write(path, damaged).unwrap();
        let missing = run("gather", &["--plan", "-", "--missing"], &tasks);
        let missing = missing.assert_success().records("task").remove(0);
        assert_eq!(missing["range"], json!([[2, 3]]), "byte {at} of the chunk");
    }
}

/// Returns the stored bytes of all chunks of a dataset, in the order of their places in it.
fn stored_chunks(path: &str, dataset: &str) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let file = hdf5::File::open(path).unwrap();
    let dataset = file.dataset(dataset).unwrap();
    let mut chunks: Vec<_> = (0..dataset.num_chunks().unwrap())
        .map(|index| dataset.chunk_info(index).unwrap())
        .map(|chunk| (chunk.offset, chunk.addr as usize, chunk.size as usize))
        .collect();
    chunks.sort();
    let stored = |(_, from, size): (_, usize, usize)| bytes[from..][..size].to_vec();
    chunks.into_iter().map(stored).collect()
}

#[test]
fn parts_of_cakes_are_no_larger_than_the_final_and_copied_as_they_are() {
    let workspace = Workspace::new(&small_options());
    let mut digests = Vec::new();
    for (out, flags) in [
        ("default", vec![]),
        ("lz4", vec!["--compression", "lz4"]),
        ("zstd", vec!["--compression", "zstd", "--threads", "2"]),
        ("none", vec!["--compression", "none"]),
        ("sums", vec!["--compression", "lz4", "--keep-sums"]),
    ] {
        let tasks = workspace.plan(out, &["--npt-azim", "37"]);
        let results = run("ai-integrate", &flags, &tasks).assert_success().stdout;
        let gathered = run("gather", &["--keep-parts"], &results).assert_success();
        let summary = gathered.records("summary").remove(0);
        let path = summary["final"].as_str().unwrap();
        let [part] = &workspace.parts(out)[..] else { panic!("one part") };
        let [of_part, of_final] =
            [part, Path::new(path)].map(|path| path.metadata().unwrap().len());
        assert_eq!(of_part < of_final, out != "sums", "{out}: {of_part} of {of_final} bytes");
        for name in ["intensity", "intensity_errors"] {
            let copied = stored_chunks(path, &format!("1.1/pilatus_integrate/integrated/{name}"));
            assert_eq!(copied.len(), 24);
            assert!(copied == stored_chunks(part.to_str().unwrap(), name), "{out}: {name}");
        }
        digests.push(summary["data_digest"].clone());
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

/// Returns the content of a part of cakes but for the sums: bits of numbers, by dataset.
fn rows_of_part(path: &Path) -> Vec<(&'static str, Vec<u64>)> {
    let part = hdf5::File::open(path).unwrap();
    let integers = ["frames", "status", "stored_digest", "row_digest"];
    let exceptions = ["exceptions/frames", "exceptions/starts", "exceptions/bins"];
    let reals =
        ["monitor", "exceptions/norm", "exceptions/norm_sq", "exceptions/count"].map(|name| {
            let values = part.dataset(name).unwrap().read_raw::<f64>().unwrap();
            (name, values.into_iter().map(f64::to_bits).collect())
        });
    let integers = integers.into_iter().chain(exceptions);
    let integers =
        integers.map(|name| (name, part.dataset(name).unwrap().read_raw::<u64>().unwrap()));
    integers.chain(reals).collect()
}

/// Cakes whose sums nobody wants are made while sums are in the processor's cache, once a first frame
/// was checked.
#[test]
fn cakes_are_the_same_with_and_without_their_sums() {
    let options = Options {
        frames: 72,
        frames_per_file: 24,
        defects: vec![Defect::TruncatedChunk],
        scans: 0,
        ..small_options()
    };
    let workspace = Workspace::new(&options);
    let counters = open_hdf5_to_write(&workspace.data.master);
    let monitor = counters.dataset("1.1/measurement/monitor").unwrap();
    let mut readings = monitor.read_1d::<f64>().unwrap();
    (readings[5], readings[60]) = (0.0, f64::NAN);
    monitor.write(&readings).unwrap();
    drop((monitor, counters));
    let flux = ["--monitor", "monitor", "--monitor-reference", "1e6"];
    let flags: [&[&str]; 7] = [
        &["--error-model", "poisson"],
        &["--error-model", "azimuthal", "--error", "std"],
        &["--error-model", "no"],
        // Invalid pixels, and so weights, of each frame's own.
        &["--dummy", "3", "--error-model", "poisson"],
        &["--dummy", "3", "--error-model", "azimuthal", "--keep-bits", "8"],
        &["--error-model", "poisson", "--error-floor", "bin"],
        &flux,
    ];
    for (index, flags) in flags.into_iter().enumerate() {
        let flags = [flags, &["--npt-azim", "37"]].concat();
        let part = |out: &str, integrate: &[&str], has_blocks: bool| {
            let out = format!("{out}-{index}");
            let tasks = workspace.plan(&out, &flags);
            // More batches than may wait for the first one to be written, which is checked then.
            let integrate = [integrate, &["-v", "--batch-frames", "4"]].concat();
            let results = run("ai-integrate", &integrate, &tasks);
            let has_said = results.stderr.contains("cakes divided block by block");
            assert_eq!(has_said, has_blocks, "{flags:?}: {}", results.stderr);
            let [part] = &workspace.parts(&out)[..] else { panic!("one part") };
            rows_of_part(part)
        };
        let adjusts_variances = flags.contains(&"bin");
        let without = part("without", &["--threads", "1"], !adjusts_variances);
        let threads = part("threads", &["--threads", "2"], !adjusts_variances);
        let with = part("with", &["--threads", "1", "--keep-sums"], false);
        for (((name, expected), one), other) in with.iter().zip(&without).zip(&threads) {
            assert!(*name == "frames" || !expected.is_empty() || name.contains('/'));
            assert!(expected == &one.1, "{flags:?}: {name}");
            assert!(expected == &other.1, "{flags:?}: {name}, two threads");
        }
        let has_own_weights =
            with.iter().any(|(name, all)| name.ends_with("norm") && !all.is_empty());
        assert_eq!(has_own_weights, flags.contains(&"--dummy"), "{flags:?}");
    }
}

#[test]
fn sums_of_cakes_are_there_on_request_and_where_patterns_do_not_do() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--npt-azim", "12"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let refused = run("gather", &["--keep-sums"], &results);
    assert_eq!(refused.status, 1);
    let expected = "--keep-sums needs the sums of 24 frames, which parts of cakes hold only on request; run ai-integrate --keep-sums --force";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    let again = run("ai-integrate", &["--keep-sums", "--force"], &tasks).assert_success();
    run("gather", &["--keep-sums"], &again.stdout).assert_success();
    // Patterns that depend on the mean of the monitor, and zeros that may be empty bins.
    for (out, flags) in [
        ("mean", ["--monitor", "monitor", "--monitor-reference", "mean"]),
        ("zero", ["--empty", "0", "--error-model", "poisson"]),
    ] {
        let flags = [&["--npt-azim", "12"], &flags[..]].concat();
        let tasks = workspace.plan(out, &flags);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        run("gather", &["--keep-sums", "--average", "mean"], &results).assert_success();
    }
}

#[test]
fn parts_of_one_frame_with_and_without_sums_agree() {
    let workspace = Workspace::new(&small_options());
    let cake = ["--npt-azim", "12"];
    let whole = workspace.plan("out", &cake);
    let without = run("ai-integrate", &["--compression", "lz4"], &whole).assert_success();
    let pieces = workspace.plan("out", &["--npt-azim", "12", "--by", "frames=10"]);
    let with = ["--force", "--keep-sums", "--compression", "zstd"];
    run("ai-integrate", &with, &pieces).assert_success();
    assert_eq!(workspace.parts("out").len(), 4);
    let gathered = run("gather", &["--keep-sums"], &without.stdout).assert_success();
    let tasks = workspace.plan("alone", &cake);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
    let alone = run("gather", NO_ARGUMENTS, &results.stdout).assert_success();
    let digest = |outcome: &crate::support::Outcome| {
        outcome.records("summary").remove(0)["data_digest"].clone()
    };
    assert_eq!(digest(&gathered), digest(&alone));
}

#[test]
fn virtual_finals_show_the_cakes_of_parts_without_sums() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--npt-azim", "12", "--by", "file"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let flags = ["--layout", "virtual", "--average", "mean"];
    let shown = run("gather", &flags, &results).assert_success().records("summary").remove(0);
    let data = hdf5::File::open(shown["final"].as_str().unwrap()).unwrap();
    let data = data.group("1.1/pilatus_integrate/integrated").unwrap();
    assert!(!data.link_exists("signal") && data.dataset("intensity").unwrap().offset().is_none());
    let virtual_values: Vec<f32> = data.dataset("intensity").unwrap().read_raw().unwrap();
    drop(data);
    let copied = run("gather", NO_ARGUMENTS, &results).assert_success();
    let copied = copied.records("summary").remove(0);
    assert_eq!(copied["data_digest"], shown["data_digest"]);
    let data = hdf5::File::open(copied["final"].as_str().unwrap()).unwrap();
    let data = data.dataset("1.1/pilatus_integrate/integrated/intensity").unwrap();
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert!(bits(data.read_raw().unwrap()) == bits(virtual_values));
}

/// Returns the values of datasets of a final file's default process, each with its name.
fn read_values(path: &str, names: &[&str]) -> Vec<(String, Vec<f64>)> {
    let file = hdf5::File::open(path).unwrap();
    let text = |group: &hdf5::Group| {
        let default = group.attr("default").unwrap();
        default.read_scalar::<hdf5::types::VarLenUnicode>().unwrap().to_string()
    };
    let entry = file.group(&text(&file)).unwrap();
    let process = text(&entry);
    let process = entry.group(process.split('/').next().unwrap()).unwrap();
    let read =
        |name: &&str| (name.to_string(), process.dataset(name).unwrap().read_raw::<f64>().unwrap());
    names.iter().map(read).collect()
}

/// Returns the largest difference between two lists, relative to their values. Both must be NaN in
/// the same places.
fn largest_difference(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    assert!(one.iter().any(|value| *value > 0.0));
    let difference = |(one, other): (&f64, &f64)| {
        assert_eq!(one.is_nan(), other.is_nan());
        if one == other || one.is_nan() { 0.0 } else { (one / other - 1.0).abs() }
    };
    one.iter().zip(other).map(difference).fold(0.0, f64::max)
}

#[test]
fn averages_and_merges_are_the_same_with_and_without_kept_sums() {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    let recipes: [(&str, &[&str]); 4] = [
        ("capped", &["--valid-max", "4"]),
        ("bin", &["--error-floor", "bin"]),
        ("none", &["--error-floor", "none"]),
        ("full", &["--split", "full"]),
    ];
    let gathers: [(&[&str], [&str; 2]); 3] = [
        (&["--average", "mean"], ["averaged/intensity", "averaged/intensity_errors"]),
        (&["--average", "median"], ["averaged/intensity", "averaged/intensity_errors"]),
        (&["--merge-all", "both"], ["integrated/intensity", "integrated/intensity_errors"]),
    ];
    let (mut wrong, cake) = (Vec::new(), ["--npt-azim", "36", "--error-model", "poisson"]);
    for (name, flags) in recipes {
        let flags = [&cake, flags].concat();
        let results = [("", NO_ARGUMENTS), ("-sums", &["--keep-sums"])].map(|(suffix, keep)| {
            let tasks = workspace.plan(&format!("{name}{suffix}"), &flags);
            run("ai-integrate", keep, &tasks).assert_success().stdout
        });
        for (what, names) in gathers {
            let [found, expected] = [&results[0], &results[1]].map(|results| {
                let gathered = run("gather", &[&["--keep-parts"], what].concat(), results);
                let last = gathered.assert_success().records("summary").pop().unwrap();
                read_values(last["final"].as_str().unwrap(), &names)
            });
            for ((dataset, found), (_, expected)) in found.iter().zip(&expected) {
                let largest = largest_difference(found, expected);
                if largest > 1e-6 {
                    wrong.push(format!("{name}, {what:?}: {dataset} differs by {largest:e}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_final_of_another_compression_keeps_its_sums_and_averages() {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    let tasks = workspace.plan("out", &["--npt-azim", "12"]);
    let results = run("ai-integrate", &["--keep-sums"], &tasks).assert_success().stdout;
    let keep = ["--keep-sums", "--average", "mean,5", "--merge-all", "both"];
    let finals = |flags: &[&str]| -> Vec<String> {
        let summaries = run("gather", flags, &results).assert_success().records("summary");
        summaries.iter().map(|final_| final_["final"].as_str().unwrap().to_owned()).collect()
    };
    let paths = finals(&keep);
    assert!(workspace.parts("out").is_empty() && paths.len() == 3, "{paths:?}");
    let names = ["signal", "variance"].map(|name| format!("integrated/{name}"));
    let averaged = ["intensity", "intensity_errors"].map(|name| format!("averaged/{name}"));
    let names: Vec<&str> = names.iter().chain(&averaged).map(String::as_str).collect();
    let bits = |path: &String| -> Vec<Vec<u64>> {
        let bits = |(_, values): (_, Vec<f64>)| values.into_iter().map(f64::to_bits).collect();
        read_values(path, &names).into_iter().map(bits).collect()
    };
    let before: Vec<_> = paths.iter().map(bits).collect();
    let sizes =
        || -> Vec<u64> { paths.iter().map(|path| fs::metadata(path).unwrap().len()).collect() };
    let gzip = sizes();
    assert_eq!(finals(&["--compression", "none", "--merge-all", "both"]), paths);
    assert!(gzip.iter().zip(sizes()).all(|(gzip, none)| *gzip < none), "{gzip:?}");
    assert!(paths.iter().map(bits).collect::<Vec<_>>() == before);
    // With another average, too; and the parts are there again.
    let tasks = workspace.plan("out", &["--npt-azim", "12"]);
    run("ai-integrate", &["--keep-sums", "--force"], &tasks).assert_success();
    finals(&["--keep-parts", "--keep-sums", "--average", "mean,5"]);
    finals(&["--keep-parts", "--compression", "gzip"]);
    assert!(paths[..2].iter().map(bits).collect::<Vec<_>>() == before[..2]);
}

#[test]
fn sums_of_cakes_that_were_not_kept_are_asked_for_by_name() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--npt-azim", "12"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    run("gather", NO_ARGUMENTS, &results).assert_success();
    let refused = run("gather", &["--keep-sums"], &results);
    assert_eq!(refused.status, 1);
    let expected = "run ai-integrate --keep-sums --force to compute them again";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
}

#[test]
fn cakes_of_fewer_bits_differ_by_half_a_step_and_are_smaller() {
    let workspace = Workspace::new(&sample::Options { scans: 2, ..small_options() });
    let names = ["intensity", "intensity_errors"];
    let of = |group: &str| names.map(|name| format!("{group}/{name}"));
    let read = |path: &str, group: &str| -> Vec<Vec<f64>> {
        let names = of(group);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        read_values(path, &names).into_iter().map(|(_, values)| values).collect()
    };
    let mut all = Vec::new();
    for (out, flags) in [("whole", &[][..]), ("rounded", &["--keep-bits", "9"])] {
        let tasks = workspace.plan(out, &[&["--npt-azim", "36"], flags].concat());
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        let gathered = run("gather", &["--average", "mean,5", "--merge-all", "both"], &results);
        let summaries = gathered.assert_success().records("summary");
        let paths = [0, 2].map(|index| summaries[index]["final"].as_str().unwrap().to_owned());
        let size = fs::metadata(&paths[0]).unwrap().len();
        all.push((read(&paths[0], "integrated"), read(&paths[0], "averaged"), size, paths));
    }
    let [(whole, averages, size, _), (rounded, rounded_averages, rounded_size, rounded_paths)] =
        &all[..]
    else {
        panic!("two runs")
    };
    for (whole, rounded) in whole.iter().zip(rounded) {
        let largest = largest_difference(rounded, whole);
        assert!((0.0009..=1.0 / 1024.0).contains(&largest), "{largest}");
        let is_kept = |value: &f64| value.is_nan() || value.to_bits() << (64 - 52 + 9) == 0;
        assert!(rounded.iter().all(is_kept));
    }
    // Of the variances of few counts, the minimum of each pixel is subtracted.
    for ((whole, rounded), limit) in averages.iter().zip(rounded_averages).zip([0.001, 0.006]) {
        let largest = largest_difference(rounded, whole);
        assert!(largest < limit, "{largest}");
    }
    assert!(4 * rounded_size < 3 * size, "{rounded_size} bytes of {size}");
    // Merged cakes are rounded, too, and up to date when they are asked for again.
    let merged = read(&rounded_paths[1], "integrated");
    assert!(merged[0].iter().all(|value| value.is_nan() || value.to_bits() << 21 == 0));
    let other = workspace.plan("rounded", &["--npt-azim", "36", "--recipe-name", "whole"]);
    let rounded = workspace.plan("rounded", &["--npt-azim", "36", "--keep-bits", "9"]);
    let both = run("ai-integrate", NO_ARGUMENTS, &(other + &rounded)).assert_success().stdout;
    let refused = run("gather", &["--merge", "mixed"], &both);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("with the same --keep-bits"), "{}", refused.stderr);
}

#[test]
fn a_compression_that_changes_nothing_is_warned_of() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan_without_bins("out", &["--npt-azim", "9", "--npt", "20"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let gathered =
        run("gather", &["--layout", "virtual", "--compression", "lz4"], &results).assert_success();
    assert!(gathered.stderr.contains("--compression: no effect on virtual files"));
}
