//! [`QAxis`]: the centres of the bins as q.

use std::fmt::Display;

use geometry::{Unit, quantity};

use super::ExportError;
use crate::output::OutputFile;

/// Values of q at the centres of the bins, in a unit of small-angle scattering.
pub(super) struct QAxis {
    /// Values, in the unit.
    pub values: Vec<f64>,
    /// The unit, `1/nm` or `1/angstrom`.
    pub units: &'static str,
    /// Number of units of the final file's axis in 1/nm.
    pub per_inverse_nm: f64,
}

impl QAxis {
    /// Returns the axis of a final file. `wanted_by` is what needs it, such as a flag.
    ///
    /// # Errors
    /// Fails if the axis is not q.
    pub fn new(output: &OutputFile, wanted_by: impl Display) -> Result<Self, ExportError> {
        let axis = &output.shared.axes.radial;
        let unit = Unit::parse(&format!("{}_{}", axis.name, axis.units)).ok();
        let unit = unit.filter(|unit| *unit.quantity() == quantity::Q).ok_or_else(|| {
            ExportError::Axis {
                path: output.path.clone(),
                axis: axis.label(),
                wanted_by: wanted_by.to_string(),
                expected: "q, such as q_nm^-1",
            }
        })?;
        let (centers, per_inverse_nm) = (&axis.centers, unit.scale());
        if unit.axis_units() == "A^-1" {
            return Ok(Self { values: centers.clone(), units: "1/angstrom", per_inverse_nm });
        }
        let values = centers.iter().map(|q| q / per_inverse_nm).collect();
        Ok(Self { values, units: "1/nm", per_inverse_nm })
    }
}
