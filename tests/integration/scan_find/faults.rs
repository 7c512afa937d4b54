//! Every look at a file fails once: what scan-find says is then what it says of the files as they
//! are, or it says what failed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sample::Defect;

use crate::support::fault_shim;
use crate::support::{
    Outcome, RawData, capture, create_hdf5, new_seed, nexus_group, program, write_text,
};

/// The calls by which scan-find looks at files.
const CALLS: [&str; 6] = ["open", "read", "pread", "stat", "readdir", "lseek"];

/// A sample is one place of so many.
const SPARED: usize = 7;

/// Writes everything that scan-find reads: Bliss masters over Lima files, whole, running and
/// aborted; Lima 2 by links; a Dectris master; images; a link to a directory; and the collection of
/// some.
fn write_everything() -> RawData {
    let directory = RawData::new();
    directory.write_dataset("", &[]);
    directory.write_dataset("killed", &[Defect::Running, Defect::Aborted, Defect::MissingFile]);
    let receiver = create_hdf5(directory.path("lima2/scan0001/p4_0.h5"));
    let data =
        receiver.new_dataset::<u16>().shape((3, 4, 5)).chunk((1, 4, 5)).create("raw").unwrap();
    data.write_raw(&[1_u16; 60]).unwrap();
    drop((data, receiver));
    let frames = create_hdf5(directory.path("lima2/scan0001/p4_master.h5"));
    frames.link_external("p4_0.h5", "/raw", "frames").unwrap();
    drop(frames);
    let master = create_hdf5(directory.path("lima2/a_lima2.h5"));
    let entry = nexus_group(&master, "1.1", "NXentry");
    write_text(&entry, "title", "ascan");
    write_text(&entry, "start_time", "2026-03-04T10:20:30+01:00");
    write_text(&entry, "end_time", "2026-03-04T10:30:30+01:00");
    let detector =
        nexus_group(&nexus_group(&entry, "instrument", "NXinstrument"), "p4", "NXdetector");
    write_text(&detector, "type", "lima2");
    detector.link_external("scan0001/p4_master.h5", "/frames", "frame").unwrap();
    detector.link_soft("frame", "data").unwrap();
    drop((detector, entry, master));
    for number in 1..=2 {
        let file = create_hdf5(directory.path(&format!("dectris/b_data_{number:06}.h5")));
        let group = nexus_group(&nexus_group(&file, "entry", "NXentry"), "data", "NXdata");
        let data = group.new_dataset::<u16>().shape((2, 3, 4)).no_chunk().create("data").unwrap();
        data.write_raw(&[0_u16; 24]).unwrap();
    }
    let master = create_hdf5(directory.path("dectris/b_master.h5"));
    let group = nexus_group(&nexus_group(&master, "entry", "NXentry"), "data", "NXdata");
    for number in 1..=2 {
        let name = format!("b_data_{number:06}.h5");
        group.link_external(&name, "/entry/data/data", &format!("data_{number:06}")).unwrap();
    }
    drop((group, master));
    for number in 1..=3 {
        directory.write_edf(&format!("images/fe_{number:04}.edf"));
    }
    std::os::unix::fs::symlink(directory.path("images"), directory.path("linked")).unwrap();
    let collection = create_hdf5(directory.path("collection.h5"));
    collection.link_external("lima2/a_lima2.h5", "/1.1", "lima2_1.1").unwrap();
    directory
}

fn find_under(directory: &RawData, variables: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(program("scan-find"));
    let raw = directory.path("raw");
    let raw = raw.parent().unwrap();
    fault_shim::preload(command.arg(raw), raw).envs(variables.iter().copied());
    capture(command, "").into()
}

/// Returns how often each call is made.
fn count_calls(directory: &RawData, log: &Path) -> Vec<usize> {
    let quiet =
        find_under(directory, &[("FAULTS_LOG", log.to_str().unwrap()), ("FAULTS_COUNT", "1")]);
    assert_eq!(quiet.status, 0, "{}", quiet.stderr);
    let calls = std::fs::read_to_string(log).unwrap();
    CALLS
        .map(|call| calls.lines().filter(|line| line.split(' ').next() == Some(call)).count())
        .to_vec()
}

/// Returns how a run in which a call failed is wrong; `None` if it is right.
fn find_error(ran: &Outcome, quiet: &BTreeSet<&str>, fired: bool) -> Option<&'static str> {
    let lines: BTreeSet<&str> =
        ran.stdout.lines().filter(|line| !line.contains(r#""type":"fail""#)).collect();
    let fails = ran.records("fail");
    let absent = |line: &&&str| line.contains(r#""kind":"unreadable""#);
    // A scan may be told with what could not be read of it, and nothing else may be told of it. And
    // what lies in a directory that can't be had by its own name is told by that of a link to it.
    let linked = |line: &&&str| line.contains(r#""below":"linked/"#);
    let odd = lines.difference(quiet).filter(|line| !absent(line) && !linked(line)).count();
    match ran.status {
        0 if !fails.is_empty() => Some("a fail record and status 0"),
        0 if !fired || (lines == *quiet) => None,
        0 => Some("status 0 and other records"),
        1 if fails.is_empty() => Some("status 1 without a fail record"),
        1 if odd > 0 => Some("records that are not of the quiet run"),
        1 if fails.iter().any(|fail| fail["retryable"] != true) => {
            Some("a failure that is not to be tried again")
        }
        1 => None,
        _ => Some("another status"),
    }
}

#[test]
fn what_could_not_be_looked_at_is_a_failure_and_never_a_fact() {
    let directory = write_everything();
    let logs = tempfile::tempdir().unwrap();
    let quiet = find_under(&directory, &[]);
    let told: BTreeSet<&str> = quiet.stdout.lines().collect();
    assert_eq!(
        quiet.scan_fields(&["below"]).len(),
        10,
        "{:?}",
        quiet.scan_fields(&["below", "entry", "frames"])
    );
    let faults = ["EIO", "ESTALE", "EACCES", "EMFILE", "EIO+"];
    let counts = count_calls(&directory, &logs.path().join("quiet"));
    let mut all = Vec::new();
    // `AZPIPE_FAULTS=all` is each place and each errno; a number, or any number without it, a
    // sample of both.
    let asked = std::env::var("AZPIPE_FAULTS").unwrap_or_default();
    let seed = asked
        .split(' ')
        .next()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| new_seed() as usize % 1_000_000);
    for (call, count) in CALLS.iter().zip(&counts) {
        for k in
            (1..=*count).filter(|k| asked.starts_with("all") || (k + seed).is_multiple_of(SPARED))
        {
            let some = (k / SPARED + seed) % faults.len();
            let faults = if asked.starts_with("all") { &faults[..] } else { &faults[some..=some] };
            all.extend(faults.iter().map(|fault| match fault.strip_suffix('+') {
                Some(fault) => format!("{call} {k}-999999 {fault}"),
                None => format!("{call} {k} {fault}"),
            }));
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut wrong = Vec::new();
        while let Some(at) = all.get(next.fetch_add(1, Relaxed)) {
            let log = logs.path().join(at);
            let ran =
                find_under(&directory, &[("FAULTS_AT", at), ("FAULTS_LOG", log.to_str().unwrap())]);
            let fired = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(why) = find_error(&ran, &told, !fired.is_empty()) {
                let place = fired.lines().next().unwrap_or_default().to_owned();
                wrong.push(format!("{at}: {why}: {place}\n{}", ran.stderr));
            }
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let said =
        format!("AZPIPE_FAULTS={seed}: {} calls failed, places {counts:?} of {CALLS:?}", all.len());
    writeln!(std::io::stderr(), "{said}").unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}
