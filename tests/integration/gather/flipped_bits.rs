//! One flipped bit in any dataset of a final: the next run makes good what it spoiled, or nothing
//! was made from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hdf5::{Dataset, File, Group};

use crate::support::{Workspace, new_seed, run, small_options};

/// Bytes of the datasets of a file, without those of the files that it links to.
fn stored_bytes(path: &Path) -> BTreeMap<String, Vec<(u64, u64)>> {
    let file = File::open(path).unwrap();
    let mut datasets = BTreeMap::new();
    add_datasets(&file, &file.filename(), &mut datasets);
    datasets.into_iter().map(|(name, dataset)| (name, extents(&dataset))).collect()
}

fn add_datasets(group: &Group, file: &str, datasets: &mut BTreeMap<String, Dataset>) {
    for name in group.member_names().unwrap() {
        if let Ok(dataset) = group.dataset(&name) {
            if dataset.filename() == file {
                datasets.insert(dataset.name(), dataset);
            }
        } else if let Ok(inner) = group.group(&name)
            && inner.filename() == file
        {
            add_datasets(&inner, file, datasets);
        }
    }
}

/// Returns where the bytes of a dataset are: the offset and size of each piece.
fn extents(dataset: &Dataset) -> Vec<(u64, u64)> {
    match dataset.offset() {
        Some(offset) => vec![(offset, dataset.storage_size())],
        None => {
            let chunks = (0..dataset.num_chunks().unwrap_or_default())
                .filter_map(|index| dataset.chunk_info(index));
            chunks.map(|chunk| (chunk.addr, chunk.size)).collect()
        }
    }
}

/// Returns the numbers of all datasets of a file.
fn numbers(path: &Path) -> BTreeMap<String, Vec<u64>> {
    let file = File::open(path).unwrap();
    let mut datasets = BTreeMap::new();
    add_datasets(&file, &file.filename(), &mut datasets);
    let values = |dataset: &Dataset| {
        dataset
            .read_raw::<f64>()
            .map_or_else(|_| Vec::new(), |all| all.into_iter().map(f64::to_bits).collect())
    };
    datasets.into_iter().map(|(name, dataset)| (name, values(&dataset))).collect()
}

/// Returns whether all datasets have the same numbers. Averages that were made anew from patterns,
/// because the file has no sums, have them to the rounding of f32.
fn have_same_numbers(
    found: &BTreeMap<String, Vec<u64>>,
    expected: &BTreeMap<String, Vec<u64>>,
) -> bool {
    let are_near = |(one, other): (&u64, &u64)| {
        let (one, other) = (f64::from_bits(*one), f64::from_bits(*other));
        one == other || (one.is_nan() && other.is_nan()) || (one / other - 1.0).abs() < 1e-6
    };
    let has_sums = expected.keys().any(|name| name.ends_with("/signal"));
    found.len() == expected.len()
        && found.iter().zip(expected).all(|((name, found), (expected_name, expected))| {
            let is_average = !has_sums && name.contains("averaged");
            let is_same = found == expected
                || (is_average && name.ends_with("averaged_digest"))
                || (is_average
                    && found.len() == expected.len()
                    && found.iter().zip(expected).all(are_near));
            name == expected_name && is_same
        })
}

/// Flips a bit of each dataset of a final: at the parts `places` of it, where 1 is its last byte.
fn check_every_dataset(workspace: &Workspace, plan: &[&str], flags: &[&str], places: &[f64]) {
    check_every_dataset_of(workspace, plan, &["--keep-sums"], flags, places);
}

/// Does the same with these flags of ai-integrate.
fn check_every_dataset_of(
    workspace: &Workspace,
    plan: &[&str],
    integrate: &[&str],
    flags: &[&str],
    places: &[f64],
) {
    let tasks = workspace.plan_without_bins("out", plan);
    let results = run("ai-integrate", integrate, &tasks).assert_success().stdout;
    let gathered = run("gather", flags, &results).assert_success();
    let summary = &gathered.records("summary")[0];
    let path = Path::new(summary["final"].as_str().unwrap());
    let (good, expected) = (fs::read(path).unwrap(), numbers(path));
    let mut wrong = Vec::new();
    let mut flips = 0;
    // Every second one, beginning with another as the sources change.
    let seed = new_seed() as usize % 2;
    for (name, pieces) in stored_bytes(path).into_iter().skip(seed).step_by(2) {
        let Some(&(offset, size)) = pieces.get(pieces.len() / 2) else { continue };
        for place in places {
            let at = offset + ((size - 1) as f64 * place) as u64;
            let mut damaged = good.clone();
            damaged[at as usize] ^= 4;
            fs::write(path, damaged).unwrap();
            flips += 1;
            let again = run("ai-integrate", integrate, &tasks);
            let gathered = run("gather", flags, &again.stdout);
            let is_as_before = have_same_numbers(&numbers(path), &expected);
            if (again.status, gathered.status, is_as_before) != (0, 0, true) {
                wrong.push(format!(
                    "{name} {at}: {} {} {is_as_before} {}{}",
                    again.status, gathered.status, again.stderr, gathered.stderr
                ));
            }
        }
    }
    assert!(flips > 15, "{flips}");
    assert!(
        wrong.is_empty(),
        "AZPIPE_SEED={seed}: {} of {flips} for {flags:?}: {}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_flipped_bit_in_a_final_with_sums_and_an_average_is_made_good() {
    let workspace = Workspace::new(&small_options());
    check_every_dataset(
        &workspace,
        &["--npt", "700"],
        &["--keep-sums", "--average", "mean"],
        &[0.4, 1.0],
    );
}

#[test]
fn a_flipped_bit_in_sparse_pixels_is_made_good() {
    let workspace = Workspace::new(&small_options());
    let plan = ["--npt", "700", "--sigma-clip", "2.5", "--error-model", "azimuthal"];
    check_every_dataset_of(&workspace, &plan, &["--sparse"], &[], &[0.2, 0.9]);
    let cakes = ["--npt", "40", "--npt-azim", "12", "--sigma-clip", "2.5"];
    let _ = fs::remove_dir_all(workspace.path("out"));
    check_every_dataset_of(&workspace, &cakes, &["--sparse"], &["--keep-parts"], &[0.7]);
}

#[test]
fn a_flipped_bit_in_a_final_of_any_other_kind_is_made_good() {
    let workspace = Workspace::new(&small_options());
    let mean = ["--monitor", "monitor", "--monitor-reference", "mean"];
    let cakes = ["--npt", "40", "--npt-azim", "12"];
    for (plan, flags) in [
        (&["--npt", "700"][..], &[][..]),
        (&[&["--npt", "700"], &mean[..]].concat(), &["--keep-parts", "--average", "median"]),
        (&[&cakes[..], &["--error-model", "no"]].concat(), &["--keep-sums"]),
        (&["--npt", "700"], &["--keep-parts", "--layout", "virtual"]),
        (&["--npt", "700"], &["--layout", "integrator"]),
        (&["--npt", "700"], &["--average", "mean,7"]),
    ] {
        let _ = fs::remove_dir_all(workspace.path("out"));
        check_every_dataset(&workspace, plan, flags, &[0.7]);
    }
}
