//! Titles and units of intensities and errors: counts, or what monitors make of them.

use recipe::{ErrorMeasure, Monitor, MonitorReference, Quantity};

use super::content::OutputContent;
use super::schema::{name, set_interpretation};
use crate::h5::{Group, Result};

/// Describes the patterns of an NXdata group, after their datasets were created.
pub(super) fn describe_patterns(group: &Group, content: &OutputContent) -> Result<()> {
    let (printed, units) = intensity_units(content.monitors);
    let error = match content.recipe.error {
        ErrorMeasure::Sem => "Standard error of the mean",
        ErrorMeasure::Std => "Standard deviation of a pixel",
    };
    for (name, long_name, units) in [
        (name::INTENSITY, format!("Intensity ({printed})"), units.as_str()),
        (name::ERRORS, format!("{error} ({printed})"), &units),
        (name::SIGNAL, "Sum of counts".to_owned(), "counts"),
        (name::VARIANCE, "Variance of the sum of counts".to_owned(), "counts^2"),
    ] {
        let Some(dataset) = group.dataset_if_there(name)? else { continue };
        dataset.set_text("long_name", &long_name)?;
        dataset.set_text("units", units)?;
        if [name::INTENSITY, name::ERRORS].contains(&name) {
            set_interpretation(&dataset, content.shared)?;
        }
    }
    Ok(())
}

/// Returns the unit of intensities, as it is printed and as the attribute `units`. A monitor over
/// its mean, or over a number, leaves counts as they are at that value. Any other monitor divides
/// them; only the exposure time has a unit that is known.
fn intensity_units(monitors: &[Monitor]) -> (String, String) {
    let (mut divisors, mut values) = (Vec::new(), Vec::new());
    for monitor in monitors {
        match (&monitor.quantity, &monitor.reference) {
            (_, MonitorReference::Mean) => values.push(format!("mean {}", monitor.name())),
            (Quantity::Number(number), MonitorReference::Quantity(Quantity::Number(reference))) => {
                divisors.push((number / reference).to_string());
            }
            (Quantity::ExposureTime, MonitorReference::Quantity(Quantity::Number(1.0))) => {
                divisors.push("s".into())
            }
            (_, MonitorReference::Quantity(Quantity::Number(1.0))) => divisors.push(monitor.name()),
            (_, MonitorReference::Quantity(Quantity::Number(number))) => {
                values.push(format!("{} = {number}", monitor.name()));
            }
            (_, MonitorReference::Quantity(_)) => divisors.push(format!("({})", monitor.name())),
        }
    }
    let mut printed = "counts".to_owned();
    divisors.iter().for_each(|divisor| printed += &format!(" / {divisor}"));
    if !values.is_empty() {
        printed += &format!(" at {}", values.join(", "));
    }
    let units = match &divisors[..] {
        [] => "counts",
        [only] if only == "s" => "counts/s",
        _ => "a.u.",
    };
    (printed, units.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors_make_of_counts_what_they_divide_by() {
        let counter = || Quantity::Counter("mon".into());
        let number = |number| MonitorReference::Quantity(Quantity::Number(number));
        let to = |quantity, reference| Monitor { quantity, reference };
        let units = |monitors: &[Monitor]| {
            let (printed, units) = intensity_units(monitors);
            format!("{printed}; {units}")
        };
        assert_eq!(units(&[]), "counts; counts");
        assert_eq!(units(&[to(counter(), MonitorReference::Mean)]), "counts at mean mon; counts");
        assert_eq!(units(&[to(counter(), number(1e6))]), "counts at mon = 1000000; counts");
        assert_eq!(units(&[to(counter(), number(1.0))]), "counts / mon; a.u.");
        assert_eq!(units(&[to(Quantity::ExposureTime, number(1.0))]), "counts / s; counts/s");
        assert_eq!(units(&[to(Quantity::Number(5.0), number(2.0))]), "counts / 2.5; a.u.");
        let by_another = to(counter(), MonitorReference::Quantity(Quantity::ExposureTime));
        assert_eq!(units(&[by_another]), "counts / (mon / exposure-time); a.u.");
        let both = [to(Quantity::ExposureTime, number(1.0)), to(counter(), number(7.0))];
        assert_eq!(units(&both), "counts / s at mon = 7; counts/s");
    }
}
