//! How often scan-find opens files: on a parallel file system each opening waits for a server.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::{Outcome, RawData, create_hdf5, find, nexus_group, write_text};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use sample::{Defect, Detector, Options};

/// Counts how often each file of these directories is opened while scan-find looks at `raw`.
fn count_opened_files(raw: &Path, directories: &[&Path]) -> (Outcome, BTreeMap<String, usize>) {
    count_opened_files_with(&[raw.as_os_str()], directories)
}

/// As [`openings`], with these arguments.
fn count_opened_files_with(
    arguments: &[&OsStr],
    directories: &[&Path],
) -> (Outcome, BTreeMap<String, usize>) {
    let watch = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
    // Events that are alike and follow each other are told as one: others are asked for to keep
    // them apart.
    let asked = AddWatchFlags::IN_OPEN | AddWatchFlags::IN_ACCESS | AddWatchFlags::IN_CLOSE;
    for directory in directories {
        watch.add_watch(*directory, asked).unwrap();
    }
    let ran = find(arguments).assert_success();
    let mut opened = BTreeMap::new();
    while let Ok(events) = watch.read_events() {
        for event in events.into_iter().filter(|event| event.mask.contains(AddWatchFlags::IN_OPEN))
        {
            assert!(!event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW));
            if let Some(name) = event.name {
                *opened.entry(name.into_string().unwrap()).or_default() += 1;
            }
        }
    }
    (ran, opened)
}

fn write_scan_of_many_files(
    directory: &RawData,
    name: &str,
    defects: Vec<Defect>,
) -> sample::Dataset {
    let detector = Detector::named("pilatus-100k").unwrap();
    let (dtype, scans) = (detector.dtype, usize::from(defects.is_empty()));
    let options = Options {
        scans,
        defects,
        frames: 300,
        frames_per_file: 1,
        distinct: 1,
        detector,
        dtype,
        ..Options::default()
    };
    sample::write(&directory.path(name), &options).unwrap()
}

#[test]
fn each_data_file_of_a_scan_is_opened_once() {
    // More than are held open at a time; the second is traced by its files' names.
    for (defects, files) in [(vec![], 300), (vec![Defect::Running], 150)] {
        let directory = RawData::new();
        let whole = write_scan_of_many_files(&directory, "raw", defects);
        let master = whole.master.parent().unwrap();
        let below = std::fs::read_dir(master).unwrap().map(|entry| entry.unwrap().path());
        let below: Vec<_> = below.filter(|path| path.is_dir()).collect();
        let [data] = &below[..] else { panic!("{below:?}") };
        let (ran, opened) = count_opened_files(&whole.raw, &[master, data]);
        assert_eq!(ran.records("scan").len(), 1);
        let (masters, data): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|(name, _)| whole.master.ends_with(name.as_str()));
        assert!(data.len() >= files, "{} files", data.len());
        let again: Vec<_> =
            data.iter().filter(|(name, count)| name.ends_with(".h5") && *count > 1).collect();
        assert!(again.is_empty(), "{again:?}");
        assert_eq!(masters.iter().map(|(_, count)| count).sum::<usize>(), 1);
    }
}

#[test]
fn masters_and_images_are_opened_once() {
    let directory = RawData::new();
    for number in 0..200 {
        directory.write_edf(&format!("raw/fe_{number:04}.edf"));
        let file = create_hdf5(directory.path(&format!("raw/m_{number:04}.h5")));
        let entry = nexus_group(&file, "1.1", "NXentry");
        write_text(&entry, "start_time", &format!("2026-03-04T10:20:30.{number:03}+01:00"));
        let member =
            nexus_group(&nexus_group(&entry, "instrument", "NXinstrument"), "p3", "NXdetector");
        member
            .new_dataset::<u16>()
            .shape((2, 3, 4))
            .no_chunk()
            .create("data")
            .unwrap()
            .write_raw(&[0_u16; 24])
            .unwrap();
    }
    let raw = directory.path("raw");
    let (ran, opened) = count_opened_files(&raw, &[&raw]);
    assert_eq!(ran.records("scan").len(), 201);
    assert_eq!(opened.len(), 400);
    // The first image is what the series is known by.
    let again: Vec<_> =
        opened.iter().filter(|(name, count)| **count > 1 && *name != "fe_0000.edf").collect();
    assert!(again.is_empty(), "{again:?}");
}

/// Gives a file a time of last change in the past: what is changed at this moment may change again
/// without another time.
fn set_age(file: &Path, seconds: u64) {
    let changed = SystemTime::now() - Duration::from_secs(seconds);
    std::fs::File::options().append(true).open(file).unwrap().set_modified(changed).unwrap();
}

fn list_files(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn while_a_scan_goes_on_only_its_files_that_have_changed_are_opened_again() {
    let directory = RawData::new();
    let running = write_scan_of_many_files(&directory, "raw", vec![Defect::Running]);
    let [data] = &list_files(running.master.parent().unwrap())
        .into_iter()
        .filter(|path| path.is_dir())
        .collect::<Vec<_>>()[..]
    else {
        panic!("one directory of data files")
    };
    let images = directory.path("raw/images/fe_0000.edf").parent().unwrap().to_owned();
    for number in 0..40 {
        directory.write_edf(&format!("raw/images/fe_{number:04}.edf"));
    }
    let lima = || {
        list_files(data)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|ending| ending == "h5"))
    };
    lima()
        .chain(list_files(&images))
        .chain([running.master.clone()])
        .for_each(|file| set_age(&file, 3600));
    let [closed, .., image] = &lima().chain([images.join("fe_0020.edf")]).collect::<Vec<_>>()[..]
    else {
        panic!()
    };
    let files = lima().count();
    let (ran, opened) = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            [closed, image].into_iter().for_each(|file| set_age(file, 1800));
        });
        let arguments = [
            directory.path("raw").into_os_string(),
            "--follow=0.1".into(),
            "--until-idle=3s".into(),
        ];
        let arguments: Vec<&OsStr> =
            arguments.iter().map(|argument| argument.as_os_str()).collect();
        count_opened_files_with(&arguments, &[data, &images])
    });
    assert!(ran.records("scan").len() >= 2, "{}", ran.stderr);
    assert!(files >= 100 && opened.len() >= files + 40, "{files} {}", opened.len());
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    // Whoever sets the time opens the file, too; the first image is what its series is known by. At
    // each look, the first data file says what Lima did to its images, and the last one, which is
    // being written, whether it is closed.
    let most = |file: &str| match file {
        file if file == name(closed) || file == name(image) => 3,
        "fe_0000.edf" => 2,
        "pilatus_0000.h5" | "pilatus_0149.h5" => usize::MAX,
        _ => 1,
    };
    let again: Vec<_> = opened.iter().filter(|(file, count)| **count > most(file)).collect();
    assert!(again.is_empty(), "{again:?}");
}
