//! The bins and the matrix of a whole detector.

use geometry::Geometry;

use crate::axis::{ChiAxis, RadialAxis};
use crate::error::BinningError;
use crate::paired_columns::PairedColumns;
use crate::pixel_binner::PixelBinner;
use crate::request::{AzimuthRequest, BinningRequest, BinsRequest, PatternRequest, PixelSplitting};

/// The axes of a pattern or cake, and the weights of all pixels in its bins.
#[derive(Clone, Debug, PartialEq)]
pub struct Binning {
    /// Radial axis.
    pub axis: RadialAxis,
    /// Azimuthal axis of a cake; `None` for a pattern.
    pub chi: Option<ChiAxis>,
    /// Weights of pixels in bins: a column per pixel, row-major. The bin number of a cake is
    /// azimuthal index * number of radial bins + radial index.
    pub matrix: PairedColumns,
}

/// Builds the bins of a pattern with equal radial bins. `mask` is row-major and true for pixels to
/// leave out.
///
/// # Errors
/// As for [`bin_pixels`].
pub fn bin_pattern(
    geometry: &Geometry,
    mask: &[bool],
    request: &PatternRequest,
) -> Result<Binning, BinningError> {
    bin_pixels(geometry, mask, &request.into())
}

/// Builds the bins of any pattern or cake, with all columns on the thread that calls it;
/// [`PixelBinner`] builds them in blocks. `mask` is row-major and true for pixels to leave out.
///
/// # Errors
/// Those of [`PixelBinner::new`], or no unmasked pixel lies in the range.
pub fn bin_pixels(
    geometry: &Geometry,
    mask: &[bool],
    request: &BinningRequest,
) -> Result<Binning, BinningError> {
    let binner = PixelBinner::new(geometry, mask.to_vec(), request)?;
    let mut matrix = PairedColumns::default();
    binner.append_columns(0..mask.len(), &mut matrix);
    if !matrix.has_entries() {
        return Err(binner.nothing_in_range_error());
    }
    let (axis, chi) = binner.into_axes();
    Ok(Binning { axis, chi, matrix })
}

/// Checks a request without building the full matrix. If the request gives limits, the centres of
/// pixels usually suffice to decide whether any pixel is within them.
///
/// # Errors
/// As for [`bin_pixels`].
pub fn check_request(
    geometry: &Geometry,
    mask: &[bool],
    request: &BinningRequest,
) -> Result<(), BinningError> {
    let has_no_limits = matches!(request.radial, BinsRequest::Uniform { npt: 1.., range: None })
        && matches!(
            request.azimuth,
            AzimuthRequest::Sum(None)
                | AzimuthRequest::Bins(BinsRequest::Uniform { npt: 1.., range: None })
        );
    if has_no_limits {
        return if mask.contains(&false) {
            Ok(())
        } else {
            Err(BinningError::AllMasked(mask.len()))
        };
    }
    let check = |request: &BinningRequest| {
        PixelBinner::new(geometry, mask.to_vec(), request)?.check_range()
    };
    let without_splitting = BinningRequest { split: PixelSplitting::No, ..request.clone() };
    // A corner may lie in the range even if no centre does.
    check(&without_splitting).or_else(|_| check(request))
}
