//! Writes an integrator to the matrix cache and reads it back: the matrix and everything else that
//! takes time to build. The arrays are used in place in the mapped file.

use std::io::{self, Write};

use geometry::DummyRule;
use kernels::sections::{self, SectionError, SectionReader, SharedBytes};
use kernels::{CsrMatrix, IntegrationPlan, PixelType};
use recipe::Recipe;
use records::{FrameLayout, IdHasher};

use crate::dummy_check::DummyCheck;
use crate::integrator::{BinAxis, DetectorInfo, Integrator};
use crate::{build_plan, dead_time, invalid_values};

/// The version of the format and of the rules by which the matrix is made; part of the cache key.
/// In version 2, pixels whose dark, flat or variance can't be used take no part. In version 3,
/// positions, polarization and solid angle follow from the coordinates without an angle where that is
/// exact, and may differ in the last bits. In version 4, so may positions once more, and the weights of
/// full splitting. In version 5, the sums of bins have those that azimuthal errors with a dark need. In version 6,
/// angles follow from another arctangent and sums are added up in another order, and both may differ in
/// the last bits. In version 7, so may sums once more, as their terms are rounded. In version 8, the mask is always
/// there.
const SECTIONS_VERSION: u64 = 8;

impl Integrator {
    /// Returns the cache key: a digest of everything that affects the bytes written by
    /// [`Integrator::write_to`]. These are the recipe, the layout of the frames, the versions of
    /// this crate and of the format, and the machine's word size. Monitor, error kind, error floor,
    /// median error, empty value and kept bits are applied to the sums later and excluded, as is the
    /// dead time: it is applied to the counts of frames.
    pub fn cache_key(recipe: &Recipe, layout: &FrameLayout) -> String {
        let sums_alone = Recipe {
            monitor: Vec::new(),
            error: Default::default(),
            error_floor: Default::default(),
            median_error: recipe.median_error.map(|_| Default::default()),
            empty: Default::default(),
            keep_bits: None,
            dead_time: None,
            exposure_time: None,
            ..recipe.clone()
        };
        IdHasher::new("matrix")
            .add_text(&sums_alone.digest())
            .add_text(&layout.to_key_text())
            .add_text(env!("CARGO_PKG_VERSION"))
            .add_bytes(&SECTIONS_VERSION.to_ne_bytes())
            .add_text(&usize::BITS.to_string())
            .to_hex()
    }

    /// Writes everything that [`Integrator::from_memory`] can't rebuild quickly, as sections.
    ///
    /// # Errors
    /// An error of `out`.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let DetectorInfo { is_named, dummy: DummyRule { dummy, delta, counter } } = self.detector;
        let real =
            |value: Option<f64>| [u64::from(value.is_some()), value.unwrap_or(0.0).to_bits()];
        let flags = [u64::from(is_named), u64::from(counter), u64::from(self.chi().is_some())];
        sections::write_section(out, &flags)?;
        sections::write_section(out, &[real(dummy), real(delta)])?;
        sections::write_section(out, &self.radial().centers)?;
        sections::write_section(out, self.chi().map_or(&[], |chi| &chi.centers))?;
        let mask: Vec<u8> = self.dummy_check.mask().iter().map(|&masked| masked.into()).collect();
        sections::write_section(out, &mask)?;
        self.plan().write_to(out)
    }

    /// Reads the integrator that [`Integrator::write_to`] wrote to `memory` from byte `at` on.
    /// `recipe` and `layout` must be the ones in the cache key. The matrix stays in `memory`.
    ///
    /// # Errors
    /// Sections that are damaged, or belong to something else than an integrator for frames of this
    /// layout.
    pub fn from_memory(
        recipe: &Recipe,
        layout: &FrameLayout,
        dtype: PixelType,
        memory: SharedBytes,
        at: usize,
    ) -> Result<Self, SectionError> {
        let shape = layout.shape.map(|length| length as usize);
        let reader = &mut SectionReader::new(memory, at);
        let error = |what| SectionError::new(at, what);
        let flags = reader.read_section_of_len::<u64>(3)?;
        let reals = reader.read_section_of_len::<[u64; 2]>(2)?;
        let real = |[is_some, bits]: [u64; 2]| (is_some != 0).then(|| f64::from_bits(bits));
        let dummy =
            DummyRule { dummy: real(reals[0]), delta: real(reals[1]), counter: flags[1] != 0 };
        let known = DetectorInfo { is_named: flags[0] != 0, dummy };
        let radial = reader.read_section::<f64>()?.to_vec();
        let chi = reader.read_section::<f64>()?.to_vec();
        let mask: Vec<bool> =
            reader.read_section::<u8>()?.iter().map(|&masked| masked != 0).collect();
        let statistic = build_plan::select_statistic(recipe);
        let plan = IntegrationPlan::from_sections(reader, build_plan::variance_model(recipe))?;
        let dead_time =
            dead_time::dead_time(recipe).map_err(|_| error("the dead time can't be applied"))?;
        let plan = plan.with_dead_time(dead_time);
        let is_cake = flags[2] != 0;
        let bins = radial.len().checked_mul(if is_cake { chi.len() } else { 1 });
        if plan.pixels() != shape[0] * shape[1] || bins != Some(plan.nbins()) {
            return Err(error("the plan has another number of pixels or bins"));
        }
        let dummy_check = DummyCheck::new(recipe, known.is_named, &mask, dtype);
        if mask.len() != plan.pixels() {
            return Err(error("the mask has another length"));
        }
        // The caller then builds the integrator anew, and that error tells which settings to
        // change.
        let invalid = invalid_values::build_invalid_values(recipe, &known.dummy, dtype)
            .map_err(|_| error("no pixel value is valid"))?;
        Ok(Self {
            shape,
            dtype,
            radial: BinAxis {
                name: recipe.unit.axis_name(),
                units: recipe.unit.axis_units(),
                centers: radial,
            },
            chi: is_cake.then_some(BinAxis { name: "chi", units: "deg", centers: chi }),
            csr: statistic.map(|statistic| CsrMatrix::new(&plan, statistic)),
            plan,
            invalid_values: invalid,
            dummy_check,
            detector: known,
        })
    }
}
