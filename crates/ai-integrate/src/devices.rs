//! The OpenCL devices that the environment leaves visible.

use integrator::opencl::{self, Description, DeviceKind, Unavailable};

/// A device, by its number in the order in which OpenCL lists them.
pub type Numbered = (usize, Description);

/// Variables that limit a job to some GPUs, and whose.
const VISIBLE: [(&str, &str); 3] =
    [("CUDA_VISIBLE_DEVICES", "nvidia"), ("ROCR_VISIBLE_DEVICES", "amd"), ("GPU_DEVICE_ORDINAL", "amd")];

/// Why there is no device to use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// OpenCL has none.
    #[error("{0}")]
    Unavailable(#[from] Unavailable),
}

/// The environment, as far as it matters here.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The visible devices of this machine.
///
/// # Errors
/// No OpenCL, or none that is visible.
pub fn visible(environment: Environment<'_>) -> Result<Vec<Numbered>, Error> {
    let mut all = opencl::devices()?;
    all.retain(|device| device.kind != DeviceKind::Gpu || !is_hidden(device, environment));
    Ok(all.into_iter().enumerate().collect())
}

/// Whether the environment hides a vendor's GPUs. Their drivers do so by themselves where it lists some, and number those
/// from 0; that an empty list means none, not all, is not left to them.
fn is_hidden(device: &Description, environment: Environment<'_>) -> bool {
    let vendor = if device.platform.to_lowercase().contains("nvidia") { "nvidia" } else { "amd" };
    VISIBLE.iter().any(|(name, whose)| *whose == vendor && environment(name).is_some_and(|list| lists_none(&list)))
}

/// As CUDA reads it: a list ends before the first entry that is no device.
fn lists_none(list: &str) -> bool {
    let first = list.split(',').next().unwrap_or("").trim();
    first.is_empty() || first == "NoDevFiles" || first.starts_with('-')
}

/// The devices as a table.
pub fn table(visible: &[Numbered]) -> Vec<String> {
    let gigabytes = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    let rows = visible.iter().map(|(number, device)| {
        let pci = device.pci.map_or_else(|| "-".to_owned(), |pci| pci.to_string());
        let reals = if device.has_doubles { "doubles" } else { "pairs of floats" };
        let driver = format!("{}, {}, driver {}", device.platform, device.version, device.driver);
        let usable = device.unusable.map_or(driver.clone(), |why| format!("not usable: {why}; {driver}"));
        [
            number.to_string(),
            device.name.clone(),
            device.kind.to_string(),
            gigabytes(device.memory),
            reals.to_owned(),
            pci,
            usable,
        ]
    });
    let heads = ["device", "name", "kind", "memory", "sums in", "PCI", "driver"].map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
