//! Profiles of `slurm-emit --profile`.

use std::fs;
use std::path::Path;

use super::scripts::{emit, read_stderr};
use super::task;

#[test]
fn flags_win_over_the_profile_and_the_profile_over_the_integrators_file() {
    let top = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = top.path().join(name);
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let ini = file(
        "integrator.ini",
        "[computations distribution]\npartition = any\nn_workers = 2\nai_engines_per_worker = 6\ncores_per_worker = 3\n\
         time = 00:30:00\nmemory_per_worker = 100GB\n",
    );
    let profile = file(
        "site.toml",
        "partition-aliases = { any = 'gpu,p9gpu' }\ncores-per-worker = 2\ntime = \"00:20:00\"\naccount = \"id31\"\nmem-per-cpu = \"4G\"\n",
    );
    let dir = top.path().join("jobs");
    let flags = ["--integrator-ini", &ini, "--profile", &profile, "--time", "00:10:00"];
    let output = emit(&dir, &flags, &task::line(1));
    assert!(
        read_stderr(&output)
            .contains("2 jobs x 6 engines x 2 threads = 12 engines, 24 CPUs, 2 GPUs"),
        "{}",
        read_stderr(&output)
    );
    let script = fs::read_to_string(dir.join("job.sbatch")).unwrap();
    for directive in [
        "--partition=gpu,p9gpu",
        "--time=00:10:00",
        "--account=id31",
        "--mem-per-cpu=4G",
        "--gres=gpu:1",
    ] {
        assert!(script.contains(&format!("#SBATCH {directive}\n")), "{directive}\n{script}");
    }
    assert!(!script.contains("--mem="), "one kind of memory, the later one");

    let local = file("local.ini", "[computations distribution]\npartition = local\n");
    let dir = top.path().join("local");
    assert!(emit(&dir, &["--integrator-ini", &local], &task::line(1)).status.success());
    assert!(dir.join("worker").exists() && !dir.join("job.sbatch").exists());

    let wrong = file("wrong.toml", "n-workers = \"many\"\n");
    let output = emit(&top.path().join("wrong"), &["--profile", &wrong], &task::line(1));
    let said = read_stderr(&output);
    assert!(
        output.status.code() == Some(2)
            && said.contains("invalid value 'many' for '--n-workers <W>'"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn example_profiles_are_valid_and_that_of_esrf_knows_the_partitions_of_its_integrator() {
    let top = tempfile::tempdir().unwrap();
    let profiles = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/profiles");
    for profile in fs::read_dir(&profiles).unwrap() {
        let profile = profile.unwrap().path();
        let flags = ["--explain", "--profile", profile.to_str().unwrap()];
        let output = emit(&top.path().join("jobs"), &flags, &task::line(1));
        assert!(output.status.success(), "{}", read_stderr(&output));
    }
    let ini = top.path().join("integrator.ini");
    fs::write(&ini, "[computations distribution]\npartition = any\n").unwrap();
    let esrf = profiles.join("esrf.toml");
    let flags = [
        "--explain",
        "--integrator-ini",
        ini.to_str().unwrap(),
        "--profile",
        esrf.to_str().unwrap(),
    ];
    let output = emit(&top.path().join("jobs"), &flags, &task::line(1));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(
        table.contains("#SBATCH --partition=gpu,p9gpu") && table.contains("#SBATCH --gres=gpu:1"),
        "{table}"
    );
}
