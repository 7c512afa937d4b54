//! Radial units: the quantity and unit of a pattern's radial axis.

use std::fmt;
use std::str::FromStr;

/// A radial unit, named as in pyFAI and the ESRF tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// `r_mm`: distance from the beam in the laboratory, millimetres.
    RMm,
    /// `r_m`: distance from the beam in the laboratory, metres.
    RM,
    /// `2th_deg`: scattering angle, degrees.
    TthDeg,
    /// `2th_rad`: scattering angle, radians.
    TthRad,
    /// `q_nm^-1`: scattering vector 4π sin(θ)/λ, per nanometre.
    QNm,
    /// `q_A^-1`: scattering vector, per ångström.
    QA,
    /// `d*2_nm^-2`: squared reciprocal spacing (2 sin(θ)/λ)², per square nanometre.
    RecD2Nm,
    /// `d*2_A^-2`: squared reciprocal spacing, per square ångström.
    RecD2A,
    /// `d_m`: spacing λ / (2 sin(θ)), metres. It decreases outward and diverges at the beam.
    DM,
    /// `d_nm`: spacing, nanometres.
    DNm,
    /// `d_A`: spacing, ångströms.
    DA,
}

/// Explains that a name is not a supported radial unit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}xpected one of {}", describe_unknown(.0), Unit::ALL.map(Unit::name).join(", "))]
pub struct UnknownUnit(pub String);

/// Explains why a name is refused, up to the first letter of the word "expected". Some units of pyFAI are not supported,
/// each for a reason of its own.
fn describe_unknown(name: &str) -> String {
    let fiber = ["gi_", "qip", "qoop", "qtot", "exit_angle", "scattering_angle", "chigi", "qxgi", "qygi", "qzgi"];
    let why = match name {
        "qx" | "qy" | "qx_nm^-1" | "qy_nm^-1" => "is a component of q, which may be negative, not a radial unit",
        _ if name.starts_with("log") || name.starts_with("arcsinh") => {
            "is a nonlinear scale of q and is not supported; integrate in q and rescale the axis"
        }
        _ if fiber.iter().any(|part| name.contains(part)) => {
            "needs the orientation of the sample's surface (fiber and grazing-incidence geometry), which is not supported"
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
    let similarity = |name: &str| strsim::jaro_winkler(&unknown.to_lowercase(), &name.to_lowercase());
    // Of equally similar names, the first counts: `max_by` returns the last.
    let names = Unit::ALL.into_iter().map(Unit::name).rev();
    names.max_by(|a, b| similarity(a).total_cmp(&similarity(b))).filter(|name| similarity(name) > 0.7)
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 11] = [
        Self::RMm,
        Self::RM,
        Self::TthDeg,
        Self::TthRad,
        Self::QNm,
        Self::QA,
        Self::RecD2Nm,
        Self::RecD2A,
        Self::DM,
        Self::DNm,
        Self::DA,
    ];

    /// Parses the name of a unit, spelled exactly as by [`Unit::name`].
    pub fn parse(name: &str) -> Result<Self, UnknownUnit> {
        Self::ALL.into_iter().find(|unit| unit.name() == name).ok_or_else(|| UnknownUnit(name.to_owned()))
    }

    /// Returns the name: quantity and unit, such as `q_nm^-1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RMm => "r_mm",
            Self::RM => "r_m",
            Self::TthDeg => "2th_deg",
            Self::TthRad => "2th_rad",
            Self::QNm => "q_nm^-1",
            Self::QA => "q_A^-1",
            Self::RecD2Nm => "d*2_nm^-2",
            Self::RecD2A => "d*2_A^-2",
            Self::DM => "d_m",
            Self::DNm => "d_nm",
            Self::DA => "d_A",
        }
    }

    /// Returns the unit of the same quantity in which positions are computed: `r_m`, `2th_rad`, `q_nm^-1`, `d*2_nm^-2`
    /// or `d_m`.
    pub fn base(self) -> Self {
        match self {
            Self::RMm | Self::RM => Self::RM,
            Self::TthDeg | Self::TthRad => Self::TthRad,
            Self::QNm | Self::QA => Self::QNm,
            Self::RecD2Nm | Self::RecD2A => Self::RecD2Nm,
            Self::DM | Self::DNm | Self::DA => Self::DM,
        }
    }

    /// Returns the factor that converts a position from the base unit to this unit.
    pub fn scale(self) -> f64 {
        match self {
            Self::RMm => 1000.0,
            Self::TthDeg => 180.0 / std::f64::consts::PI,
            Self::QA => 0.1,
            Self::RecD2A => 0.01,
            Self::DNm => 1e9,
            Self::DA => 1e10,
            Self::RM | Self::TthRad | Self::QNm | Self::RecD2Nm | Self::DM => 1.0,
        }
    }

    /// Returns the quantity, such as `r`, `2th`, `q` or `d*2`: the name of the axis in output files.
    pub fn axis_name(self) -> &'static str {
        self.name().split_once('_').expect("a unit's name holds an underscore").0
    }

    /// Returns the physical unit, such as `mm`, `deg` or `nm^-1`.
    pub fn axis_units(self) -> &'static str {
        self.name().split_once('_').expect("a unit's name holds an underscore").1
    }

    /// Returns whether positions in this unit depend on the wavelength.
    pub fn needs_wavelength(self) -> bool {
        matches!(self.base(), Self::QNm | Self::RecD2Nm | Self::DM)
    }

    /// Returns whether positions diverge at the beam, so that the pixel at the beam has none.
    pub fn diverges(self) -> bool {
        self.base() == Self::DM
    }

    /// Returns whether positions are never negative, so that an axis does not begin below zero.
    pub fn is_positive(self) -> bool {
        true
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Unit {
    type Err = UnknownUnit;

    fn from_str(name: &str) -> Result<Self, UnknownUnit> {
        Self::parse(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for unit in Unit::ALL {
            assert_eq!(unit.to_string().parse(), Ok(unit));
        }
    }

    #[test]
    fn an_unknown_unit_is_refused_with_the_known_ones() {
        let message = Unit::parse("q_nm").unwrap_err().to_string();
        let words = "unknown unit \"q_nm\"; did you mean \"q_nm^-1\"? Expected one of r_mm, r_m, 2th_deg";
        assert!(message.starts_with(words), "{message}");
        for (unknown, nearest) in [("2th", "2th_deg"), ("q_a^-1", "q_A^-1"), ("tth_rad", "2th_rad"), ("d_mm", "d_m")] {
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
            ("qip_A^-1", "grazing-incidence"),
            ("exit_angle_vert_deg", "grazing-incidence"),
        ] {
            let message = Unit::parse(name).unwrap_err().to_string();
            assert!(message.starts_with(&format!("unit {name} ")) && message.contains(words), "{message}");
            assert!(message.contains("expected one of r_mm"), "{message}");
        }
    }

    #[test]
    fn an_axis_is_named_by_quantity_and_units() {
        assert_eq!((Unit::QA.axis_name(), Unit::QA.axis_units()), ("q", "A^-1"));
        assert_eq!((Unit::RecD2Nm.axis_name(), Unit::RecD2Nm.axis_units()), ("d*2", "nm^-2"));
    }
}
