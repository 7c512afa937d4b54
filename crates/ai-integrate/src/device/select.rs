//! The OpenCL devices that the environment leaves visible, and those that `--device` names.

use integrator::opencl::{self, DeviceDescription, DeviceKind, OpenClUnavailable};

/// A device, with its number in the order in which OpenCL lists the devices.
pub type NumberedDevice = (usize, DeviceDescription);

/// Environment variables that restrict a job to some GPUs, each with the vendor whose driver reads
/// it.
const VISIBILITY_VARIABLES: [(&str, &str); 3] = [
    ("CUDA_VISIBLE_DEVICES", "nvidia"),
    ("ROCR_VISIBLE_DEVICES", "amd"),
    ("GPU_DEVICE_ORDINAL", "amd"),
];

/// Environment variables that number the jobs which share a machine, each with its first number:
/// variables of GNU parallel, `xargs --process-slot-var=SLOT` and srun.
const JOB_SLOT_VARIABLES: [(&str, usize); 3] =
    [("PARALLEL_JOBSLOT", 1), ("SLOT", 0), ("SLURM_LOCALID", 0)];

/// The reasons why no device can be selected.
#[derive(Debug, thiserror::Error)]
pub enum DeviceSelectionError {
    /// OpenCL is missing or lists no device.
    #[error("{0}")]
    Unavailable(#[from] OpenClUnavailable),
    /// An environment variable hides all GPUs.
    #[error("{0} hides all GPUs: request a GPU for the job, or pass --engine cpu")]
    Hidden(&'static str),
    /// There are devices, but none of them can be used.
    #[error("no device is usable: --list-devices says why, --engine cpu needs none")]
    NoneUsable,
    /// A word of `--device` matches no device.
    #[error(
        "--device {word}: {why}: expected an index, a part of a name, a PCI address or `slot`; the devices are {known}"
    )]
    Unknown {
        /// The word that was given.
        word: String,
        /// The reason why the word was refused.
        why: DeviceWordError,
        /// The devices that could be chosen.
        known: String,
    },
}

/// Explains why a word of `--device` selects no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceWordError {
    /// No device has this index, name or address.
    #[error("no such device")]
    Unknown,
    /// A device that the word names can't be used.
    #[error("not usable")]
    Unusable,
    /// `slot` was given, and no device is usable.
    #[error("no device is usable")]
    NoneUsable,
    /// `slot` was given, and no environment variable numbers this job.
    #[error("none of PARALLEL_JOBSLOT, SLOT and SLURM_LOCALID is set to the number of this job")]
    NoSlot,
}

/// Looks up an environment variable; tests pass a table in place of the process environment.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Lists the visible devices of this machine.
///
/// # Errors
/// Fails without OpenCL, and if no device is visible.
pub fn visible_devices(
    environment: EnvLookup<'_>,
) -> Result<Vec<NumberedDevice>, DeviceSelectionError> {
    let mut all = opencl::all_devices()?;
    all.retain(|device| {
        device.kind != DeviceKind::Gpu || !is_hidden_by_environment(device, environment)
    });
    Ok(all.into_iter().enumerate().collect())
}

/// Selects the devices that `words` name, each once. Without words it selects all GPUs and
/// accelerators, or, where there are none, all processors that have an OpenCL driver; processors
/// are good for tests, and slower than `--engine cpu`.
///
/// # Errors
/// Fails if a word matches no device, and if no device is usable.
pub fn select_devices(
    visible: &[NumberedDevice],
    words: &[String],
    environment: EnvLookup<'_>,
) -> Result<Vec<NumberedDevice>, DeviceSelectionError> {
    let usable: Vec<&NumberedDevice> =
        visible.iter().filter(|(_, device)| device.unusable.is_none()).collect();
    let accelerators: Vec<&NumberedDevice> =
        usable.iter().filter(|(_, device)| device.kind != DeviceKind::Cpu).copied().collect();
    if words.is_empty() {
        if let ([], Some(variable)) = (&accelerators[..], variable_hiding_all(environment)) {
            return Err(DeviceSelectionError::Hidden(variable));
        }
        let found = if accelerators.is_empty() { usable } else { accelerators };
        return if found.is_empty() {
            Err(DeviceSelectionError::NoneUsable)
        } else {
            Ok(found.into_iter().cloned().collect())
        };
    }
    let going_round = if accelerators.is_empty() { &usable } else { &accelerators };
    let mut chosen: Vec<NumberedDevice> = Vec::new();
    for word in words {
        let named = match word.as_str() {
            "slot" => job_slot(environment).and_then(|slot| match going_round.len() {
                0 => Err(DeviceWordError::NoneUsable),
                count => Ok(vec![going_round[slot % count]]),
            }),
            word => devices_named(visible, word),
        };
        let known = || visible.iter().map(|(number, device)| format!("{number} {}", device.name));
        let named = named.map_err(|why| DeviceSelectionError::Unknown {
            word: word.clone(),
            why,
            known: known().collect::<Vec<_>>().join(", "),
        })?;
        chosen.extend(named.into_iter().cloned());
    }
    chosen.sort_by_key(|(number, _)| *number);
    chosen.dedup_by_key(|(number, _)| *number);
    Ok(chosen)
}

/// Finds the devices that a word names by index, by PCI address, or by a part of their names.
fn devices_named<'a>(
    visible: &'a [NumberedDevice],
    word: &str,
) -> Result<Vec<&'a NumberedDevice>, DeviceWordError> {
    let is_meant: Box<dyn Fn(&NumberedDevice) -> bool> = if let Ok(index) = word.parse::<usize>() {
        Box::new(move |(number, _)| *number == index)
    } else if let Ok(place) = word.parse() {
        Box::new(move |(_, device)| device.pci == Some(place))
    } else {
        let word = word.to_lowercase();
        Box::new(move |(_, device)| device.name.to_lowercase().contains(&word))
    };
    let found: Vec<&NumberedDevice> = visible.iter().filter(|device| is_meant(device)).collect();
    match found[..] {
        [] => Err(DeviceWordError::Unknown),
        _ if found.iter().any(|(_, device)| device.unusable.is_some()) => {
            Err(DeviceWordError::Unusable)
        }
        _ => Ok(found),
    }
}

/// Returns this job's number among the jobs on the machine, counted from 0.
fn job_slot(environment: EnvLookup<'_>) -> Result<usize, DeviceWordError> {
    let number = |&(name, first): &(&str, usize)| {
        environment(name)?.trim().parse::<usize>().ok()?.checked_sub(first)
    };
    JOB_SLOT_VARIABLES.iter().find_map(number).ok_or(DeviceWordError::NoSlot)
}

/// Returns whether the environment hides all GPUs of the device's vendor. A driver that is given a
/// list of GPUs hides the others itself and numbers the listed ones from 0. Whether an empty list
/// hides all is not left to the driver, but decided here.
fn is_hidden_by_environment(device: &DeviceDescription, environment: EnvLookup<'_>) -> bool {
    let vendor = if device.platform.to_lowercase().contains("nvidia") { "nvidia" } else { "amd" };
    VISIBILITY_VARIABLES.iter().any(|(name, whose)| {
        *whose == vendor && environment(name).is_some_and(|list| is_empty_device_list(&list))
    })
}

/// Returns the name of a variable that leaves no GPU visible.
fn variable_hiding_all(environment: EnvLookup<'_>) -> Option<&'static str> {
    VISIBILITY_VARIABLES
        .iter()
        .map(|(name, _)| *name)
        .find(|name| environment(name).is_some_and(|list| is_empty_device_list(&list)))
}

/// Returns whether a list names no device. As in CUDA, the list ends before the first entry that is
/// not a device.
fn is_empty_device_list(list: &str) -> bool {
    let first = list.split(',').next().unwrap_or("").trim();
    first.is_empty() || first == "NoDevFiles" || first.starts_with('-')
}

/// Formats the devices as the lines of a table.
pub fn device_table(visible: &[NumberedDevice]) -> Vec<String> {
    let unknown = || "-".to_owned();
    let gigabytes = |bytes: u64| match bytes {
        0 => unknown(),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    };
    let rows = visible.iter().map(|(number, device)| {
        let pci = device.pci.map_or_else(unknown, |pci| pci.to_string());
        // A platform that failed to list its devices gave no properties.
        let reals = match device.has_doubles {
            true => "doubles".to_owned(),
            false if device.memory == 0 => unknown(),
            false => "pairs of floats".to_owned(),
        };
        let driver = match (device.version.as_str(), device.driver.as_str()) {
            ("", "") => device.platform.clone(),
            (version, driver) => format!("{}, {version}, driver {driver}", device.platform),
        };
        let usable = match &device.unusable {
            None => driver,
            Some(why) => format!("not usable: {why}; {driver}"),
        };
        [
            number.to_string(),
            device.name.clone(),
            device.kind.to_string(),
            gigabytes(device.memory),
            reals,
            pci,
            usable,
        ]
    });
    let heads = ["device", "name", "kind", "memory", "sums in", "PCI", "driver"].map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(heads).chain(rows).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns devices as a driver lists them: two GPUs that differ in PCI address and name, and
    /// the processor.
    fn listed() -> Vec<NumberedDevice> {
        let device = |name: &str, kind, pci: Option<&str>| {
            let pci = pci.map(|place| place.parse().expect("a place"));
            let mut device = DeviceDescription::default();
            (device.name, device.kind, device.pci) = (name.to_owned(), kind, pci);
            device
        };
        let all = [
            device("NVIDIA A100", DeviceKind::Gpu, Some("3b:00.0")),
            device("NVIDIA H100", DeviceKind::Gpu, Some("5e:00.0")),
            device("pthread-EPYC", DeviceKind::Cpu, None),
        ];
        all.into_iter().enumerate().collect()
    }

    fn numbers(
        visible: &[NumberedDevice],
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Vec<usize>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let chosen = select_devices(visible, &words, &value).map_err(|why| why.to_string())?;
        Ok(chosen.into_iter().map(|(number, _)| number).collect())
    }

    #[test]
    fn devices_go_by_index_name_place_and_slot() {
        let all = listed();
        assert_eq!(
            numbers(&all, &[], &[]),
            Ok(vec![0, 1]),
            "a processor is not chosen beside a GPU"
        );
        assert_eq!(numbers(&all, &["1", "0", "1"], &[]), Ok(vec![0, 1]));
        assert_eq!(numbers(&all, &["nvidia"], &[]), Ok(vec![0, 1]));
        assert_eq!(numbers(&all, &["h100"], &[]), Ok(vec![1]));
        assert_eq!(numbers(&all, &["0000:3b:00.0", "epyc"], &[]), Ok(vec![0, 2]));
        assert_eq!(numbers(&all, &["slot"], &[("PARALLEL_JOBSLOT", "4")]), Ok(vec![1]));
        assert_eq!(numbers(&all, &["slot"], &[("SLOT", "4")]), Ok(vec![0]));
        assert_eq!(numbers(&all[2..], &[], &[]), Ok(vec![2]));
    }

    #[test]
    fn words_that_name_nothing_are_refused_with_what_there_is() {
        let all = listed();
        let why = numbers(&all, &["7"], &[]).expect_err("there is no eighth");
        assert!(
            why.contains("--device 7: no such device")
                && why.contains("0 NVIDIA A100, 1 NVIDIA H100"),
            "{why}"
        );
        assert!(numbers(&all, &["slot"], &[]).expect_err("no slot").contains("PARALLEL_JOBSLOT"));
    }

    #[test]
    fn a_list_hides_the_gpus_of_its_vendor_alone() {
        let hidden = |platform: &str, variable: &'static str, list: &'static str| {
            let mut device = DeviceDescription::default();
            platform.clone_into(&mut device.platform);
            is_hidden_by_environment(&device, &|name: &str| {
                (name == variable).then(|| list.to_owned())
            })
        };
        let [nvidia, amd] = ["NVIDIA CUDA", "AMD Accelerated Parallel Processing"];
        assert!(
            hidden(nvidia, "CUDA_VISIBLE_DEVICES", "") && !hidden(amd, "CUDA_VISIBLE_DEVICES", "")
        );
        for variable in ["ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"] {
            assert!(hidden(amd, variable, "NoDevFiles") && !hidden(nvidia, variable, "NoDevFiles"));
        }
        assert!(
            !hidden(nvidia, "CUDA_VISIBLE_DEVICES", "2"),
            "its driver knows which, and calls it 0"
        );
    }

    #[test]
    fn an_empty_list_of_gpus_means_none() {
        let processor = &listed()[2..];
        for list in ["", "NoDevFiles", "-1"] {
            let why = numbers(processor, &[], &[("CUDA_VISIBLE_DEVICES", list)])
                .expect_err("not the processor instead");
            assert!(why.contains("CUDA_VISIBLE_DEVICES"), "{why}");
        }
        assert_eq!(
            numbers(processor, &["0"], &[("CUDA_VISIBLE_DEVICES", "")]).map_err(drop),
            Err(()),
            "numbered 2 here"
        );
        assert_eq!(
            numbers(processor, &["2"], &[("CUDA_VISIBLE_DEVICES", "")]),
            Ok(vec![2]),
            "asked for by name"
        );
        assert!(
            !is_empty_device_list("0,1")
                && is_empty_device_list("-1,0")
                && !is_empty_device_list("GPU-8932f937")
        );
    }
}
