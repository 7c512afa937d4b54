//! Sensor materials and their attenuation coefficients.
//!
//! `sensor/attenuation.tsv` holds material, photon energy (keV) and mass attenuation coefficient
//! μ/ρ (cm²/g) from 1 keV to 1 MeV (BaFBr0.85I0.15: 100 keV), on both sides of each absorption edge.
//! The values are those of J. H. Hubbell and S. M. Seltzer, Tables of X-Ray Mass Attenuation
//! Coefficients, NIST Standard Reference Database 126; those of CZT and BaFBr0.85I0.15, and their
//! densities, are pyFAI's. Between them, log μ is interpolated linearly in log E, because
//! photoabsorption is nearly a power law.

use std::str::FromStr;
use std::sync::OnceLock;

/// The product of the Planck constant and the speed of light, keV · m.
const KEV_METRE: f64 = 1.239_841_984_332_002_6e-9;

const ATTENUATION_TABLE: &str = include_str!("sensor/attenuation.tsv");

/// The material of a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SensorMaterial {
    /// Silicon.
    Si,
    /// Germanium.
    Ge,
    /// Gallium arsenide.
    GaAs,
    /// Cadmium telluride.
    CdTe,
    /// Gadolinium oxysulfide, a scintillator.
    Gd2O2S,
    /// Selenium, amorphous.
    Se,
    /// Cadmium zinc telluride.
    Czt,
    /// Barium fluorobromide iodide, of image plates.
    BaFBrI,
}

/// Explains that a name is not a known sensor material.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown sensor material {0:?}: expected one of {names}", names = SensorMaterial::ALL.map(SensorMaterial::name).join(", "))]
pub struct UnknownMaterial(pub String);

/// A photon energy (keV) lies outside the table.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("attenuation at {energy:.4} keV is not tabulated: expected 1 to {largest} keV")]
pub struct EnergyNotTabulated {
    /// Photon energy in keV.
    pub energy: f64,
    /// Largest energy in the table, in keV.
    pub largest: f64,
}

impl SensorMaterial {
    /// All materials.
    pub const ALL: [Self; 8] = [
        Self::Si,
        Self::Ge,
        Self::GaAs,
        Self::CdTe,
        Self::Gd2O2S,
        Self::Se,
        Self::Czt,
        Self::BaFBrI,
    ];

    /// Returns the chemical formula, the material's name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Si => "Si",
            Self::Ge => "Ge",
            Self::GaAs => "GaAs",
            Self::CdTe => "CdTe",
            Self::Gd2O2S => "Gd2O2S",
            Self::Se => "Se",
            Self::Czt => "CZT",
            Self::BaFBrI => "BaFBr0.85I0.15",
        }
    }

    /// Returns the density in g/cm³.
    pub fn density(self) -> f64 {
        match self {
            Self::Si => 2.329,
            Self::Ge => 5.323,
            Self::GaAs => 5.3176,
            Self::CdTe => 5.85,
            Self::Gd2O2S => 7.32,
            Self::Se => 4.26,
            Self::Czt => 5.75,
            Self::BaFBrI => 3.18,
        }
    }

    /// Returns the linear attenuation coefficient μ in 1/m for photons of this wavelength in
    /// metres.
    ///
    /// # Errors
    /// The photon energy is outside the table, which ends at 1000 keV or before.
    pub fn attenuation_coefficient(self, wavelength: f64) -> Result<f64, EnergyNotTabulated> {
        let (energy, [low, high]) = self.neighbours(wavelength)?;
        let fraction = (energy / low.energy).ln() / (high.energy / low.energy).ln();
        let mass_attenuation =
            low.mass_attenuation * (high.mass_attenuation / low.mass_attenuation).powf(fraction);
        Ok(mass_attenuation * self.density() * 100.0)
    }

    /// Returns the linear attenuation coefficient μ in 1/m as pyFAI computes it, by linear
    /// interpolation. Between energies that are far apart it is too large by up to a tenth, but
    /// geometries that pyFAI has refined with parallax belong to it.
    ///
    /// # Errors
    /// As for [`SensorMaterial::attenuation_coefficient`].
    pub fn pyfai_attenuation_coefficient(self, wavelength: f64) -> Result<f64, EnergyNotTabulated> {
        let (energy, [low, high]) = self.neighbours(wavelength)?;
        let fraction = (energy - low.energy) / (high.energy - low.energy);
        let mass_attenuation =
            low.mass_attenuation + (high.mass_attenuation - low.mass_attenuation) * fraction;
        Ok(mass_attenuation * self.density() * 100.0)
    }

    /// Returns the photon energy in keV, and the rows of the table below and above it.
    fn neighbours(
        self,
        wavelength: f64,
    ) -> Result<(f64, [&'static AttenuationRow; 2]), EnergyNotTabulated> {
        let energy = KEV_METRE / wavelength;
        let rows = attenuation_rows().iter().filter(|row| row.material == self);
        let rows: Vec<&AttenuationRow> = rows.collect();
        // An absorption edge has two rows of the same energy; the later one applies from there on.
        let above = rows.iter().position(|row| row.energy > energy).filter(|&at| at > 0);
        match above {
            Some(above) => Ok((energy, [rows[above - 1], rows[above]])),
            None => {
                let largest = rows.last().map_or(0.0, |row| row.energy);
                Err(EnergyNotTabulated { energy, largest })
            }
        }
    }
}

impl FromStr for SensorMaterial {
    type Err = UnknownMaterial;

    fn from_str(name: &str) -> Result<Self, UnknownMaterial> {
        Self::ALL
            .into_iter()
            .find(|material| material.name() == name)
            .ok_or_else(|| UnknownMaterial(name.to_owned()))
    }
}

struct AttenuationRow {
    material: SensorMaterial,
    /// Photon energy in keV.
    energy: f64,
    /// Mass attenuation coefficient in cm²/g.
    mass_attenuation: f64,
}

fn attenuation_rows() -> &'static [AttenuationRow] {
    static ATTENUATION_ROWS: OnceLock<Vec<AttenuationRow>> = OnceLock::new();
    let read = |line: &str| {
        let mut fields = line.split('\t');
        let material = fields.next()?.parse().ok()?;
        let energy = fields.next()?.parse().ok()?;
        Some(AttenuationRow { material, energy, mass_attenuation: fields.next()?.parse().ok()? })
    };
    ATTENUATION_ROWS.get_or_init(|| {
        ATTENUATION_TABLE
            .lines()
            .map(|line| read(line).expect("the tests read every line"))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mass_attenuation(material: SensorMaterial, kev: f64) -> f64 {
        material.attenuation_coefficient(KEV_METRE / kev).unwrap() / material.density() / 100.0
    }

    #[test]
    fn tabulated_values_come_back() {
        let last_energy = |material| {
            attenuation_rows().iter().rfind(|row| row.material == material).unwrap().energy
        };
        for row in attenuation_rows().iter().filter(|row| row.energy < last_energy(row.material)) {
            let last = attenuation_rows()
                .iter()
                .rfind(|other| other.material == row.material && other.energy == row.energy)
                .unwrap();
            let found = mass_attenuation(row.material, row.energy * (1.0 + 1e-12));
            assert!((found / last.mass_attenuation - 1.0).abs() < 1e-9, "{}", row.energy);
        }
        assert!(SensorMaterial::ALL.iter().all(|material| {
            attenuation_rows().iter().filter(|row| row.material == *material).count() > 20
        }));
    }

    #[test]
    fn logarithms_are_interpolated_linearly() {
        // The geometric mean of silicon's values at 15 and 20 keV, at the geometric mean of the
        // energies.
        assert!(
            (mass_attenuation(SensorMaterial::Si, 300f64.sqrt()) - (10.34f64 * 4.464).sqrt()).abs()
                < 1e-9
        );
    }

    #[test]
    fn values_are_interpolated_linearly_as_in_pyfai() {
        let found = SensorMaterial::Si.pyfai_attenuation_coefficient(KEV_METRE / 17.0).unwrap();
        assert!((found / 232.9 - (10.34 * 0.6 + 4.464 * 0.4)).abs() < 1e-9);
    }

    #[test]
    fn an_edge_is_a_step() {
        let [below, above] = [26.71, 26.712].map(|kev| mass_attenuation(SensorMaterial::CdTe, kev));
        assert!(below < 9.84 && above > 29.4, "{below} {above}");
    }

    #[test]
    fn unknown_materials_and_energies_outside_the_table_are_refused() {
        assert!(
            SensorMaterial::from_str("Pb")
                .unwrap_err()
                .to_string()
                .contains("expected one of Si, Ge, GaAs")
        );
        for wavelength in [1e-7, 1e-13, f64::NAN] {
            assert!(
                SensorMaterial::Si.attenuation_coefficient(wavelength).is_err(),
                "{wavelength}"
            );
        }
    }
}
