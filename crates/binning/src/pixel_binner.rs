//! [`PixelBinner`], which computes columns of the integration matrix from the positions of pixels.

use geometry::{BLOCK, Geometry};
use rayon::prelude::*;

use crate::axis::{self, ChiAxis, RadialAxis};
use crate::bin_edges::BinEdges;
use crate::cake::{CakeGrid, CutScratch};
use crate::error::{BinningError, Limits};
use crate::outline::Outline;
use crate::paired_columns::{PairedColumn, PairedColumns};
use crate::pattern;
use crate::periodic_bins::PeriodicBins;
use crate::positions::Positions;
use crate::request::{AzimuthRequest, BinningRequest, BinsRequest};
use crate::sector::{AzimuthRange, Sector, parse_azimuth_range};
use crate::split_block::SplitBlock;

/// Number of pixels whose columns are computed at a time to find whether any has entries.
const PIXELS_PER_CHECK: usize = 1 << 14;

/// The bins of a pattern or cake and the positions of a detector's pixels, from which
/// [`append_columns`](Self::append_columns) computes the columns of the integration matrix.
///
/// Columns of a large detector are computed block by block, in any order and on any number of
/// threads, and stored in the form in which they are used: so there is no other array of all of
/// them.
pub struct PixelBinner {
    request: BinningRequest,
    positions: Positions,
    /// True for pixels without entries. Row-major.
    mask: Vec<bool>,
    axis: RadialAxis,
    chi: Option<ChiAxis>,
    grid: BinGrid,
}

/// The bins in base units and radians.
enum BinGrid {
    Pattern(BinEdges, Option<Sector>),
    Cake(CakeGrid),
}

impl PixelBinner {
    /// Computes the positions of all pixels and the axes. `mask` is row-major and true for pixels to
    /// leave out.
    ///
    /// # Errors
    /// The mask has another number of pixels, there are no bins or too many, limits or edges do not
    /// rise, the unit needs a wavelength and there is none, or all pixels are masked.
    pub fn new(
        geometry: &Geometry,
        mut mask: Vec<bool>,
        request: &BinningRequest,
    ) -> Result<Self, BinningError> {
        let [rows, columns] = geometry.shape();
        if mask.len() != rows * columns {
            return Err(BinningError::MaskShape { found: mask.len(), expected: [rows, columns] });
        }
        let (radial, azimuthal) = request.bin_counts();
        if radial.saturating_mul(azimuthal) > u32::MAX as usize {
            return Err(BinningError::TooManyBins { radial, azimuthal });
        }
        let unit = request.unit;
        let azimuth = AzimuthBinning::resolve(&request.azimuth)?;
        // Wrong limits are refused before positions are computed, which takes longer.
        axis::radial_bins(&request.radial, unit, (0.0, 1.0))?;

        let with_chi = !matches!(azimuth, AzimuthBinning::FullCircle);
        let positions = Positions::compute(geometry, unit, request.split, with_chi)?;
        if unit.diverges() {
            for (pixel, masked) in mask.iter_mut().enumerate() {
                *masked |= !positions.has_position(pixel);
            }
        }
        let extent = positions.radial_extent(&mask).ok_or(BinningError::AllMasked(mask.len()))?;
        let radial = axis::radial_bins(&request.radial, unit, extent)?;
        let axis = RadialAxis::new(&radial, unit);
        let (chi, grid) = match azimuth {
            AzimuthBinning::FullCircle => (None, BinGrid::Pattern(radial, None)),
            AzimuthBinning::Sector(sector) => (None, BinGrid::Pattern(radial, Some(sector))),
            AzimuthBinning::Cake(azimuthal, chi) => {
                (Some(chi), BinGrid::Cake(CakeGrid { radial, azimuthal }))
            }
        };
        Ok(Self { request: request.clone(), positions, mask, axis, chi, grid })
    }

    /// Returns the radial axis, and the azimuthal axis of a cake.
    pub fn into_axes(self) -> (RadialAxis, Option<ChiAxis>) {
        (self.axis, self.chi)
    }

    /// Returns the number of bins: of a cake, azimuthal times radial. The number of a bin of a cake
    /// is azimuthal index * number of radial bins + radial index.
    pub fn bin_count(&self) -> usize {
        match &self.grid {
            BinGrid::Pattern(radial, _) => radial.bin_count(),
            BinGrid::Cake(grid) => grid.bin_count(),
        }
    }

    /// Appends the columns of pixels, given by their row-major numbers.
    pub fn append_columns(&self, pixels: impl Iterator<Item = usize>, columns: &mut PairedColumns) {
        match &self.grid {
            BinGrid::Pattern(radial, sector) => {
                self.append_pattern(radial, sector.as_ref(), pixels, columns);
            }
            BinGrid::Cake(grid) => self.append_cake(grid, pixels, columns),
        }
    }

    fn append_pattern(
        &self,
        bin_edges: &BinEdges,
        sector: Option<&Sector>,
        pixels: impl Iterator<Item = usize>,
        columns: &mut PairedColumns,
    ) {
        let is_outside = |interval: Option<(f64, f64)>| match (sector, interval) {
            (Some(sector), Some((min, max))) => !sector.overlaps(min, max),
            _ => false,
        };
        let uniform = bin_edges.as_uniform();
        match &self.positions {
            Positions::Centers { radial, chi } => {
                self.for_each_column(pixels, columns, |pixel, entries| {
                    if !is_outside(chi.as_ref().map(|chi| (chi[pixel], chi[pixel]))) {
                        pattern::no_split(bin_edges, radial[pixel], entries);
                    }
                })
            }
            Positions::Boxes { radial, chi } => {
                let split_block = uniform.map(|bins| {
                    move |pixels: &[usize], block: &mut SplitBlock| {
                        block.split_intervals(&bins, &radial.of_pixels(pixels));
                    }
                });
                let is_outside = |pixel| is_outside(chi.as_ref().map(|chi| chi.interval(pixel)));
                let append = |pixel, entries: &mut PairedColumn<'_>| {
                    pattern::bbox_split(bin_edges, radial.interval(pixel), entries);
                };
                self.for_each_split_column(pixels, columns, split_block, is_outside, append);
            }
            Positions::Corners(corners) => {
                let split_block = uniform.map(|bins| {
                    let mut of_block = [[[0.0; 2]; BLOCK]; 4];
                    move |pixels: &[usize], block: &mut SplitBlock| {
                        corners.copy_corners(pixels, &mut of_block);
                        block.split_outlines(&bins, &of_block);
                    }
                });
                let is_outside = |pixel| {
                    let outline = sector.and_then(|_| Outline::new(&corners.of_pixel(pixel)));
                    is_outside(outline.map(|outline| outline.chi_extent()))
                };
                let mut areas = Vec::new();
                let append = |pixel, entries: &mut PairedColumn<'_>| {
                    pattern::full_split(bin_edges, &corners.of_pixel(pixel), &mut areas, entries);
                };
                self.for_each_split_column(pixels, columns, split_block, is_outside, append);
            }
        }
    }

    fn append_cake(
        &self,
        grid: &CakeGrid,
        pixels: impl Iterator<Item = usize>,
        columns: &mut PairedColumns,
    ) {
        let needed = "positions of a cake include azimuths";
        match &self.positions {
            Positions::Centers { radial, chi } => {
                let chi = chi.as_ref().expect(needed);
                self.for_each_column(pixels, columns, |pixel, entries| {
                    grid.no_split(radial[pixel], chi[pixel], entries);
                });
            }
            Positions::Boxes { radial, chi } => {
                let chi = chi.as_ref().expect(needed);
                self.for_each_column(pixels, columns, |pixel, entries| {
                    grid.bbox_split(radial.interval(pixel), chi.interval(pixel), entries);
                });
            }
            Positions::Corners(corners) => {
                let mut scratch = CutScratch::default();
                self.for_each_column(pixels, columns, |pixel, entries| {
                    grid.full_split(&corners.of_pixel(pixel), &mut scratch, entries);
                });
            }
        }
    }

    /// Appends a column for each pixel; `append` adds the entries of a pixel that is not masked.
    #[inline]
    fn for_each_column(
        &self,
        pixels: impl Iterator<Item = usize>,
        columns: &mut PairedColumns,
        mut append: impl FnMut(usize, &mut PairedColumn<'_>),
    ) {
        for pixel in pixels {
            let mut column = columns.push_column();
            if !self.mask[pixel] {
                append(pixel, &mut column);
            }
        }
    }

    /// Appends a column for each pixel, of pixels that `split_block` splits in blocks. `append` adds
    /// the entries of a pixel that no block has: of all pixels without `split_block`.
    #[inline]
    fn for_each_split_column(
        &self,
        mut pixels: impl Iterator<Item = usize>,
        columns: &mut PairedColumns,
        split_block: Option<impl FnMut(&[usize], &mut SplitBlock)>,
        is_outside: impl Fn(usize) -> bool,
        mut append: impl FnMut(usize, &mut PairedColumn<'_>),
    ) {
        let Some(mut split_block) = split_block else {
            return self.for_each_column(pixels, columns, |pixel, entries| {
                if !is_outside(pixel) {
                    append(pixel, entries);
                }
            });
        };
        let (mut block, mut numbers) = (SplitBlock::new(), [0; BLOCK]);
        loop {
            let mut count = 0;
            for (number, pixel) in numbers.iter_mut().zip(pixels.by_ref()) {
                (*number, count) = (pixel, count + 1);
            }
            let of_block = &numbers[..count];
            if of_block.is_empty() {
                return;
            }
            let mut is_skipped = [false; BLOCK];
            for (is_skipped, &pixel) in is_skipped.iter_mut().zip(of_block) {
                *is_skipped = self.mask[pixel] || is_outside(pixel);
            }
            if is_skipped[..count].iter().all(|is_skipped| *is_skipped) {
                columns.extend(&[0; BLOCK][..count], &[[0.0; 2]; BLOCK][..count]);
                continue;
            }
            split_block(of_block, &mut block);
            block.append_columns(&is_skipped[..count], columns, |index, column| {
                append(of_block[index], column);
            });
        }
    }

    /// Checks that some pixel has an entry.
    ///
    /// # Errors
    /// No unmasked pixel lies in the range.
    pub(crate) fn check_range(&self) -> Result<(), BinningError> {
        let has_entries = |columns: &mut PairedColumns, block: usize| {
            columns.clear();
            let first = block * PIXELS_PER_CHECK;
            let end = self.mask.len().min(first + PIXELS_PER_CHECK);
            self.append_columns(first..end, columns);
            columns.has_entries()
        };
        let found = (0..self.mask.len().div_ceil(PIXELS_PER_CHECK))
            .into_par_iter()
            .map_init(PairedColumns::default, has_entries)
            .any(|has_entries| has_entries);
        if found { Ok(()) } else { Err(self.nothing_in_range_error()) }
    }

    /// Returns the error of a matrix without entries: no unmasked pixel lies in the range.
    pub fn nothing_in_range_error(&self) -> BinningError {
        let wanted_chi = match &self.request.azimuth {
            AzimuthRequest::Sum(range)
            | AzimuthRequest::Bins(BinsRequest::Uniform { range, .. }) => *range,
            AzimuthRequest::Bins(BinsRequest::Edges(edges)) => {
                edges.first().copied().zip(edges.last().copied())
            }
        };
        let unit = self.request.unit;
        let covered = self.positions.radial_extent(&self.mask).unwrap_or_default();
        let degrees = |(min, max): (f64, f64)| {
            Limits(min.to_degrees().max(-180.0), max.to_degrees().min(180.0))
        };
        BinningError::NothingInRange {
            unit,
            wanted: Limits(self.axis.lower, self.axis.upper),
            wanted_chi: wanted_chi.map(|(lower, upper)| Limits(lower, upper)),
            covered: Limits(covered.0 * unit.scale(), covered.1 * unit.scale()),
            covered_chi: wanted_chi
                .and_then(|_| self.positions.chi_extent(&self.mask))
                .map(degrees),
        }
    }
}

/// Returns the axes of a request with radial limits or edges, which don't depend on the pixels.
///
/// # Errors
/// There are no bins or no radial limits, or limits or edges do not rise.
pub fn axes(request: &BinningRequest) -> Result<(RadialAxis, Option<ChiAxis>), BinningError> {
    if matches!(request.radial, BinsRequest::Uniform { range: None, .. }) {
        let range = Limits(f64::NAN, f64::NAN);
        return Err(BinningError::Range { axis: "radial", range });
    }
    let radial = axis::radial_bins(&request.radial, request.unit, (0.0, 1.0))?;
    let chi = match AzimuthBinning::resolve(&request.azimuth)? {
        AzimuthBinning::Cake(_, chi) => Some(chi),
        AzimuthBinning::FullCircle | AzimuthBinning::Sector(_) => None,
    };
    Ok((RadialAxis::new(&radial, request.unit), chi))
}

/// A validated [`AzimuthRequest`].
enum AzimuthBinning {
    FullCircle,
    Sector(Sector),
    Cake(PeriodicBins, ChiAxis),
}

impl AzimuthBinning {
    fn resolve(azimuth: &AzimuthRequest) -> Result<Self, BinningError> {
        match azimuth {
            AzimuthRequest::Sum(None) => Ok(Self::FullCircle),
            AzimuthRequest::Sum(Some((lower, upper))) => {
                match parse_azimuth_range(*lower, *upper) {
                    AzimuthRange::FullCircle => Ok(Self::FullCircle),
                    AzimuthRange::Sector(sector) => Ok(Self::Sector(sector)),
                    AzimuthRange::Empty => {
                        Err(BinningError::Range { axis: "azimuth", range: Limits(*lower, *upper) })
                    }
                }
            }
            AzimuthRequest::Bins(bins) => {
                axis::azimuthal_bins(bins).map(|(bins, chi)| Self::Cake(bins, chi))
            }
        }
    }
}
