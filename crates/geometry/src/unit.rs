//! Radial units: the quantity and unit of a pattern's radial axis.

use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{
    Q, Q_IN_PLANE, Q_OUT_OF_PLANE, RADIUS, RECIPROCAL_SPACING_SQUARED, RadialQuantity, SPACING,
    TWO_THETA,
};

/// A radial unit, named as in pyFAI and the ESRF tools. In recipes, it is its name.
#[derive(Clone, Copy, Debug)]
pub struct Unit(&'static UnitRow);

/// A row of the table of units.
#[derive(Debug)]
struct UnitRow {
    /// Name: that of the quantity, an underscore, and the physical unit.
    name: &'static str,
    quantity: &'static RadialQuantity,
    /// Factor from the quantity's base unit, in which its formula gives positions, to this unit.
    scale: f64,
    /// Title of an axis in this unit: pyFAI's, without the marks of LaTeX.
    label: &'static str,
    /// Short title of an axis in this unit: symbol and unit as they are printed.
    axis_label: &'static str,
}

/// All radial units, in the order in which they are listed in help texts and messages. A row here
/// is all that a new unit of a known quantity needs. Each quantity has a unit of scale 1.
#[rustfmt::skip]
static UNITS: [UnitRow; 15] = [
    UnitRow { name: "r_mm", quantity: &RADIUS, scale: 1000.0, label: "Radius r (mm)", axis_label: "r (mm)" },
    UnitRow { name: "r_m", quantity: &RADIUS, scale: 1.0, label: "Radius r (m)", axis_label: "r (m)" },
    UnitRow { name: "2th_deg", quantity: &TWO_THETA, scale: 180.0 / PI, label: "Scattering angle 2θ (°)", axis_label: "2θ (°)" },
    UnitRow { name: "2th_rad", quantity: &TWO_THETA, scale: 1.0, label: "Scattering angle 2θ (rad)", axis_label: "2θ (rad)" },
    UnitRow { name: "q_nm^-1", quantity: &Q, scale: 1.0, label: "Scattering vector q (nm^-1)", axis_label: "q (nm⁻¹)" },
    UnitRow { name: "q_A^-1", quantity: &Q, scale: 0.1, label: "Scattering vector q (A^-1)", axis_label: "q (Å⁻¹)" },
    UnitRow { name: "d*2_nm^-2", quantity: &RECIPROCAL_SPACING_SQUARED, scale: 1.0, label: "Recip. spacing sq. d*2 (nm^-2)", axis_label: "d*² (nm⁻²)" },
    UnitRow { name: "d*2_A^-2", quantity: &RECIPROCAL_SPACING_SQUARED, scale: 0.01, label: "Recip. spacing sq. d*2 (A^-2)", axis_label: "d*² (Å⁻²)" },
    UnitRow { name: "d_m", quantity: &SPACING, scale: 1.0, label: "d-spacing d (m)", axis_label: "d (m)" },
    UnitRow { name: "d_nm", quantity: &SPACING, scale: 1e9, label: "d-spacing d (nm)", axis_label: "d (nm)" },
    UnitRow { name: "d_A", quantity: &SPACING, scale: 1e10, label: "d-spacing d (A)", axis_label: "d (Å)" },
    UnitRow { name: "qip_nm^-1", quantity: &Q_IN_PLANE, scale: 1.0, label: "Scattering vector q_IP (nm^-1)", axis_label: "q_IP (nm⁻¹)" },
    UnitRow { name: "qip_A^-1", quantity: &Q_IN_PLANE, scale: 0.1, label: "Scattering vector q_IP (A^-1)", axis_label: "q_IP (Å⁻¹)" },
    UnitRow { name: "qoop_nm^-1", quantity: &Q_OUT_OF_PLANE, scale: 1.0, label: "Scattering vector q_OOP (nm^-1)", axis_label: "q_OOP (nm⁻¹)" },
    UnitRow { name: "qoop_A^-1", quantity: &Q_OUT_OF_PLANE, scale: 0.1, label: "Scattering vector q_OOP (A^-1)", axis_label: "q_OOP (Å⁻¹)" },
];

/// Explains that a name is not a supported radial unit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}xpected one of {}", describe_unknown(.0), Unit::list())]
pub struct UnknownUnit(pub String);

/// Explains why a name is refused, up to the first letter of the word "expected". Some units of
/// pyFAI are not supported, each for a reason of its own.
fn describe_unknown(name: &str) -> String {
    let fiber = ["gi_", "qtot", "exit_angle", "scattering_angle", "chigi", "qxgi", "qygi", "qzgi"];
    let why = match name {
        "qx" | "qy" | "qx_nm^-1" | "qy_nm^-1" => {
            "is a component of q, which may be negative, not a radial unit"
        }
        _ if name.starts_with("log") || name.starts_with("arcsinh") => {
            "is a nonlinear scale of q and is not supported; integrate in q and rescale the axis"
        }
        _ if fiber.iter().any(|part| name.contains(part)) => {
            "is a unit of fiber and grazing-incidence geometry that is not supported; qip_nm^-1 and qoop_nm^-1 are"
        }
        _ => {
            return match nearest_name(name) {
                Some(nearest) => format!("unknown unit {name:?}; did you mean {nearest:?}? E"),
                None => format!("unknown unit {name:?}: e"),
            };
        }
    };
    format!("unit {name} {why}: e")
}

/// Returns the name most similar to an unknown one; `None` if none is similar.
fn nearest_name(unknown: &str) -> Option<&'static str> {
    let similarity =
        |name: &str| strsim::jaro_winkler(&unknown.to_lowercase(), &name.to_lowercase());
    // Of equally similar names, the first counts: `max_by` returns the last.
    let names = Unit::all().map(Unit::name).rev();
    names
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|name| similarity(name) > 0.7)
}

impl Unit {
    /// Returns all units, in the order in which they are listed in help texts and messages.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator {
        UNITS.iter().map(Self)
    }

    /// Returns the names of all units in one line, separated by commas.
    pub fn list() -> String {
        Self::all().map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// Parses the name of a unit, spelled exactly as by [`Unit::name`].
    pub fn parse(name: &str) -> Result<Self, UnknownUnit> {
        Self::all().find(|unit| unit.0.name == name).ok_or_else(|| UnknownUnit(name.to_owned()))
    }

    /// Returns the name: quantity and physical unit, such as `q_nm^-1`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the quantity, such as the scattering vector.
    pub fn quantity(self) -> &'static RadialQuantity {
        self.0.quantity
    }

    /// Returns the title of an axis in this unit, as pyFAI prints it, such as `Scattering vector q
    /// (nm^-1)`.
    pub fn label(self) -> &'static str {
        self.0.label
    }

    /// Returns a short title of an axis in this unit, with the signs of print, such as `q (Å⁻¹)` or
    /// `2θ (°)`.
    pub fn axis_label(self) -> &'static str {
        self.0.axis_label
    }

    /// Returns the unit of the same quantity in which positions are computed: `r_m`, `2th_rad`,
    /// `q_nm^-1` and so on.
    pub fn base(self) -> Self {
        let mut same_quantity = Self::all().filter(|unit| unit.0.quantity == self.0.quantity);
        same_quantity.find(|unit| unit.0.scale == 1.0).expect("each quantity has a unit of scale 1")
    }

    /// Returns the factor that converts a position from the base unit to this unit.
    pub fn scale(self) -> f64 {
        self.0.scale
    }

    /// Returns the name of the quantity, such as `r`, `2th`, `q` or `d*2`: that of the axis in
    /// output files.
    pub fn axis_name(self) -> &'static str {
        self.0.quantity.name
    }

    /// Returns the physical unit, such as `mm`, `deg` or `nm^-1`.
    pub fn axis_units(self) -> &'static str {
        &self.0.name[self.0.quantity.name.len() + 1..]
    }

    /// Returns whether positions in this unit depend on the wavelength.
    pub fn needs_wavelength(self) -> bool {
        self.0.quantity.needs_wavelength
    }

    /// Returns whether positions in this unit depend on the orientation of the sample.
    pub fn depends_on_sample(self) -> bool {
        self.0.quantity.depends_on_sample
    }

    /// Returns whether positions diverge at the beam, so that the pixel at the beam has none.
    pub fn diverges(self) -> bool {
        self.0.quantity.diverges
    }

    /// Returns whether positions are never negative, so that an axis does not begin below zero.
    pub fn is_positive(self) -> bool {
        self.0.quantity.is_positive
    }
}

impl Default for Unit {
    /// Returns `q_nm^-1`, pyFAI's default.
    fn default() -> Self {
        Self::parse("q_nm^-1").expect("the default is in the table")
    }
}

impl PartialEq for Unit {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Unit {}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl FromStr for Unit {
    type Err = UnknownUnit;

    fn from_str(name: &str) -> Result<Self, UnknownUnit> {
        Self::parse(name)
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for unit in Unit::all() {
            assert_eq!(unit.to_string().parse(), Ok(unit));
        }
    }

    #[test]
    fn an_unknown_unit_is_refused_with_the_known_ones() {
        let message = Unit::parse("q_nm").unwrap_err().to_string();
        let words =
            "unknown unit \"q_nm\"; did you mean \"q_nm^-1\"? Expected one of r_mm, r_m, 2th_deg";
        assert!(message.starts_with(words), "{message}");
        for (unknown, nearest) in
            [("2th", "2th_deg"), ("q_a^-1", "q_A^-1"), ("tth_rad", "2th_rad"), ("d_mm", "d_m")]
        {
            assert_eq!(nearest_name(unknown), Some(nearest));
        }
        assert_eq!(nearest_name("zzz"), None);
    }

    #[test]
    fn the_error_for_an_unsupported_unit_says_why() {
        for (name, words) in [
            ("log10(q.m)", "scale of q"),
            ("arcsinh(q.nm)", "scale of q"),
            ("qx_nm^-1", "not a radial unit"),
            ("qtot_A^-1", "grazing-incidence"),
            ("exit_angle_vert_deg", "grazing-incidence"),
        ] {
            let message = Unit::parse(name).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("unit {name} ")) && message.contains(words),
                "{message}"
            );
            assert!(message.contains("expected one of r_mm"), "{message}");
        }
    }

    #[test]
    fn an_axis_is_named_by_quantity_and_units() {
        for unit in Unit::all() {
            assert_eq!(unit.name(), format!("{}_{}", unit.axis_name(), unit.axis_units()));
        }
        let squared = Unit::parse("d*2_nm^-2").unwrap();
        assert_eq!((squared.axis_name(), squared.axis_units()), ("d*2", "nm^-2"));
    }

    #[test]
    fn each_quantity_has_a_base_unit_and_each_name_is_unique() {
        for unit in Unit::all() {
            assert_eq!(
                (unit.base().scale(), unit.base().quantity()),
                (1.0, unit.quantity()),
                "{unit}"
            );
            assert_eq!(
                Unit::all().filter(|other| other.name() == unit.name()).count(),
                1,
                "{unit}"
            );
        }
    }
}
