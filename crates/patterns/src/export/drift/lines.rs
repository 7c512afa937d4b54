//! [`Lines`]: the lines of a calibrant in the patterns of a scan, and which of them show positions.

use geometry::DetectorPlane;

use super::displacement::{ArcPosition, RingArc};
use super::peak::{self, Peak, PeakShape, ProfileBin, Start};
use super::sectors::Sectors;

/// Least height of a peak over its error.
const MIN_SIGNIFICANCE: f64 = 5.0;
/// Least height of a peak over its error of which the width is used.
const CLEAR_SIGNIFICANCE: f64 = 15.0;
/// Bins up to this many widths of a line from its centre are fitted.
const WINDOW_WIDTHS: f64 = 2.5;
/// Least distance of lines in widths: closer ones overlap.
const MIN_GAP_WIDTHS: f64 = 2.5;
/// How far a line is looked for, as a part of its angle: farther, it may be another one.
const MAX_SHIFT: f64 = 0.03;
/// How far a line is looked for in any case, in bins.
const MAX_SHIFT_BINS: f64 = 12.0;
/// Largest ratio of the width of a line to the median width of all.
const MAX_WIDTH_RATIO: f64 = 2.0;
/// Least width of a line in bins: of fewer, its position depends on where it lies in a bin.
const MIN_WIDTH_BINS: f64 = 1.5;

/// Use of a line, or the reason why it is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineUse {
    /// Its positions are used.
    #[default]
    Used,
    /// It is not within the radial range of the patterns, or too near to its ends.
    OutOfRange,
    /// It overlaps with another line.
    Overlapping,
    /// It is too weak in the average of the frames.
    TooWeak,
    /// It is too narrow for the radial bins.
    TooNarrow,
    /// No peak of about the width of the other lines could be fitted in the average of the frames.
    FitFailed,
}

impl LineUse {
    /// All values, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Used,
        Self::OutOfRange,
        Self::Overlapping,
        Self::TooWeak,
        Self::TooNarrow,
        Self::FitFailed,
    ];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::OutOfRange => "out_of_range",
            Self::Overlapping => "overlapping",
            Self::TooWeak => "too_weak",
            Self::TooNarrow => "too_narrow",
            Self::FitFailed => "fit_failed",
        }
    }

    /// Returns the reason for messages, such as `too weak`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::OutOfRange => "out of range",
            Self::Overlapping => "overlapping",
            Self::TooWeak => "too weak",
            Self::TooNarrow => "too narrow for the bins",
            Self::FitFailed => "not fitted",
        }
    }
}

/// A line of a calibrant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrantLine {
    /// d-spacing in angstrom.
    pub spacing: f64,
    /// Scattering angle in radians; NaN if the wavelength is too long for it.
    pub two_theta: f64,
    /// Full width at half maximum in radians; NaN if it is not known.
    pub fwhm: f64,
    /// Use of the line, or the reason why it is left out.
    pub line_use: LineUse,
    /// Number of sectors in which its position is used; 1 of patterns of one dimension.
    pub sectors: usize,
}

/// A position that is fitted in each frame.
pub(super) struct Site {
    sector: usize,
    arc: RingArc,
    /// Its centre in the average.
    center: f64,
    shape: PeakShape,
    /// Distance of the line from the nearest other one.
    gap: f64,
    /// Least and largest scattering angle of its bins.
    window: [f64; 2],
}

/// The lines of a calibrant, and the sites where their positions are fitted.
pub(super) struct Lines {
    pub all: Vec<CalibrantLine>,
    pub sites: Vec<Site>,
}

impl Lines {
    /// Looks for the lines in the average of all frames. `spacings` are in angstrom, `wavelength` in
    /// metres.
    pub fn find(
        spacings: &[f64],
        wavelength: f64,
        sectors: &Sectors,
        average: &[Vec<ProfileBin>],
    ) -> Self {
        let two_theta = |spacing: &f64| 2.0 * (wavelength * 1e10 / (2.0 * spacing)).asin();
        let mut angles: Vec<(f64, f64)> =
            spacings.iter().map(|spacing| (*spacing, two_theta(spacing))).collect();
        // Twice the same line would overlap with itself.
        angles.dedup();
        let (mut all, mut sites) = (Vec::new(), Vec::new());
        for (index, (spacing, angle)) in angles.iter().enumerate() {
            // Spacings are in order. A line without an angle has no neighbour.
            let before = index.checked_sub(1).and_then(|before| angles.get(before));
            let gaps = [before, angles.get(index.saturating_add(1))].into_iter().flatten();
            let gap = gaps.map(|(_, other)| (other - angle).abs()).fold(f64::INFINITY, f64::min);
            let ring = Ring { two_theta: *angle, gap, sectors, average };
            let (line_use, shape, found) = match ring.find() {
                Ok((shape, found)) => (LineUse::Used, Some(shape), found),
                Err(line_use) => (line_use, None, Vec::new()),
            };
            all.push(CalibrantLine {
                spacing: *spacing,
                two_theta: *angle,
                fwhm: shape.map_or(f64::NAN, |shape| shape.fwhm),
                line_use,
                sectors: found.len(),
            });
            sites.extend(found);
        }
        let mut lines = Self { all, sites };
        lines.leave_out_other_widths();
        lines
    }

    /// Leaves out lines that are far wider or narrower than the others, such as a hot pixel's.
    fn leave_out_other_widths(&mut self) {
        let is_used = |line: &&mut CalibrantLine| line.line_use == LineUse::Used;
        let used: Vec<&mut CalibrantLine> = self.all.iter_mut().filter(is_used).collect();
        let mut widths: Vec<f64> = used.iter().map(|line| line.fwhm).collect();
        widths.sort_by(f64::total_cmp);
        let Some(middle) = widths.get(widths.len() / 2).filter(|_| widths.len() > 2) else {
            return;
        };
        let range = middle / MAX_WIDTH_RATIO..=middle * MAX_WIDTH_RATIO;
        for line in used.into_iter().filter(|line| !range.contains(&line.fwhm)) {
            (line.line_use, line.sectors) = (LineUse::FitFailed, 0);
            self.sites.retain(|site| site.arc.two_theta != line.two_theta);
        }
    }

    /// Fits the positions in the pattern of a frame, given by sector, near those in the average.
    pub fn positions<'a>(&'a self, pattern: &[Vec<ProfileBin>]) -> Vec<ArcPosition<'a>> {
        let position = |site: &'a Site| {
            let bins = bins_within(pattern.get(site.sector)?, site.window);
            // A line that moved by its width is found where the pattern is highest.
            let fit = |center| site.fit(bins, center, site.shape.fwhm);
            fit(site.center).or_else(|| fit(highest(bins)?.x))
        };
        self.sites.iter().filter_map(position).collect()
    }

    /// Fits the positions in the pattern of a frame, near those that a displacement gives them. Lines
    /// are `width` times as wide as in the average.
    pub fn displaced_positions<'a>(
        &'a self,
        pattern: &[Vec<ProfileBin>],
        plane: &DetectorPlane,
        displacement: [f64; 3],
        width: f64,
    ) -> Vec<ArcPosition<'a>> {
        let position = |site: &'a Site| {
            let (center, bins) = site.displaced_bins(pattern, plane, displacement, width)?;
            site.fit(bins, center, width * site.shape.fwhm)
        };
        self.sites.iter().filter_map(position).collect()
    }

    /// Returns the widths of clear lines in the pattern of a frame over those in the average.
    pub fn widths(
        &self,
        pattern: &[Vec<ProfileBin>],
        plane: &DetectorPlane,
        displacement: [f64; 3],
    ) -> Vec<f64> {
        let width = |site: &Site| {
            let (center, bins) = site.displaced_bins(pattern, plane, displacement, 1.0)?;
            let peak = peak::fit(bins, Start { center, shape: site.shape, fits_shape: true })?;
            let is_clear = peak.significance >= CLEAR_SIGNIFICANCE;
            is_clear.then_some(peak.shape.fwhm / site.shape.fwhm)
        };
        self.sites.iter().filter_map(width).collect()
    }
}

impl Site {
    /// Returns where a displacement has the line in a pattern, and the bins around.
    fn displaced_bins<'p>(
        &self,
        pattern: &'p [Vec<ProfileBin>],
        plane: &DetectorPlane,
        displacement: [f64; 3],
        width: f64,
    ) -> Option<(f64, &'p [ProfileBin])> {
        let center = self.arc.displaced(plane, displacement)?;
        let reach = (WINDOW_WIDTHS * width * self.shape.fwhm).min(self.gap / 2.0);
        Some((center, bins_within(pattern.get(self.sector)?, [center - reach, center + reach])))
    }

    fn fit(&self, bins: &[ProfileBin], center: f64, fwhm: f64) -> Option<ArcPosition<'_>> {
        let shape = PeakShape { fwhm, ..self.shape };
        let start = Start { center, shape, fits_shape: false };
        let peak = peak::fit(bins, start).filter(is_significant)?;
        Some(ArcPosition { arc: &self.arc, two_theta: peak.center, error: peak.center_error })
    }
}

/// A line that is looked for in the average.
struct Ring<'a> {
    two_theta: f64,
    /// Distance from the nearest other line.
    gap: f64,
    sectors: &'a Sectors,
    average: &'a [Vec<ProfileBin>],
}

impl Ring<'_> {
    /// Returns the shape of the line, and the sites where it is found; otherwise, why it is not used.
    fn find(&self) -> Result<(PeakShape, Vec<Site>), LineUse> {
        let [low, high] = self.sectors.range();
        if !(low..=high).contains(&self.two_theta) {
            return Err(LineUse::OutOfRange);
        }
        if self.gap < peak::MIN_BINS as f64 * self.sectors.bin_width(self.two_theta) {
            return Err(LineUse::Overlapping);
        }
        let mut failure = LineUse::OutOfRange;
        let mut peaks = Vec::new();
        for bins in self.average {
            let bins = bins_within(bins, self.own_range());
            failure = match self.fit_shape(bins) {
                Some(peak) if is_significant(&peak) => {
                    peaks.push(peak);
                    failure
                }
                None if is_high(bins_within(bins, self.search_range())) => LineUse::FitFailed,
                // No pixel is there.
                None if bins.is_empty() => failure,
                _ if failure == LineUse::FitFailed => failure,
                _ => LineUse::TooWeak,
            };
        }
        let middle = |of: fn(&Peak) -> f64| {
            let mut values: Vec<f64> = peaks.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let fwhm = middle(|peak| peak.shape.fwhm).ok_or(failure)?;
        let lorentzian = middle(|peak| peak.shape.lorentzian).ok_or(failure)?;
        let shape = PeakShape { fwhm, lorentzian };
        if self.gap < MIN_GAP_WIDTHS * fwhm {
            return Err(LineUse::Overlapping);
        }
        if fwhm < MIN_WIDTH_BINS * self.sectors.bin_width(self.two_theta) {
            return Err(LineUse::TooNarrow);
        }
        if self.two_theta - fwhm < low || self.two_theta + fwhm > high {
            return Err(LineUse::OutOfRange);
        }
        let sites: Vec<Site> = self
            .average
            .iter()
            .enumerate()
            .filter_map(|(sector, bins)| self.site(sector, bins, shape))
            .collect();
        if sites.is_empty() { Err(LineUse::FitFailed) } else { Ok((shape, sites)) }
    }

    /// Returns the range that is nearer to this line than to any other.
    fn own_range(&self) -> [f64; 2] {
        [self.two_theta - self.gap / 2.0, self.two_theta + self.gap / 2.0]
    }

    /// Returns the part of its own range in which the centre of the line is looked for: as far as it
    /// may have moved.
    fn search_range(&self) -> [f64; 2] {
        let bins = MAX_SHIFT_BINS * self.sectors.bin_width(self.two_theta);
        let reach = (MAX_SHIFT * self.two_theta).max(bins).min(self.gap / 2.0);
        [self.two_theta - reach, self.two_theta + reach]
    }

    /// Fits the peak of a sector with its shape, from its height and its width at half of it. `None`
    /// if there is none: the highest bin is on the flank of another line.
    fn fit_shape(&self, bins: &[ProfileBin]) -> Option<Peak> {
        let top = *highest(bins_within(bins, self.search_range()))?;
        let base = bins.iter().map(|bin| bin.y).fold(f64::INFINITY, f64::min);
        let half = f64::midpoint(top.y, base);
        let below = |bin: &&ProfileBin| bin.y <= half;
        let right = bins.iter().filter(|bin| bin.x > top.x).find(below)?.x;
        let left = bins.iter().rev().filter(|bin| bin.x < top.x).find(below)?.x;
        let fwhm = (right - left).max(self.sectors.bin_width(top.x));
        let shape = PeakShape { fwhm, lorentzian: 0.3 };
        let reach = (2.0 * WINDOW_WIDTHS * fwhm).max(5.0 * self.sectors.bin_width(top.x));
        let near = bins_within(bins, [top.x - reach, top.x + reach]);
        let peak = peak::fit(near, Start { center: top.x, shape, fits_shape: true })?;
        let [low, high] = self.search_range();
        let is_there = (low..=high).contains(&peak.center) && peak.shape.fwhm < 2.0 * reach;
        Some(peak).filter(|_| is_there)
    }

    /// Fits the position in a sector, with the shape of all.
    fn site(&self, sector: usize, bins: &[ProfileBin], shape: PeakShape) -> Option<Site> {
        let own = bins_within(bins, self.own_range());
        let found = self.fit_shape(own)?;
        let reach = WINDOW_WIDTHS * shape.fwhm;
        let [left, right] = self.own_range();
        let window = [left.max(found.center - reach), right.min(found.center + reach)];
        let start = Start { center: found.center, shape, fits_shape: false };
        let peak = peak::fit(bins_within(own, window), start).filter(is_significant)?;
        let arc = RingArc {
            two_theta: self.two_theta,
            fwhm: shape.fwhm,
            points: self.sectors.points(sector, self.two_theta),
        };
        Some(Site { sector, arc, center: peak.center, shape, gap: self.gap, window })
    }
}

fn is_significant(peak: &Peak) -> bool {
    peak.significance >= MIN_SIGNIFICANCE
}

/// Returns whether the bins have more than noise.
fn is_high(bins: &[ProfileBin]) -> bool {
    let base = bins.iter().map(|bin| bin.y).fold(f64::INFINITY, f64::min);
    highest(bins).is_some_and(|top| top.y - base > 2.0 * MIN_SIGNIFICANCE * top.error)
}

fn highest(bins: &[ProfileBin]) -> Option<&ProfileBin> {
    bins.iter().max_by(|one, other| one.y.total_cmp(&other.y))
}

/// Returns the bins within a range of scattering angles.
fn bins_within(bins: &[ProfileBin], [low, high]: [f64; 2]) -> &[ProfileBin] {
    let first = bins.partition_point(|bin| bin.x < low);
    let end = bins.partition_point(|bin| bin.x <= high);
    bins.get(first..end).unwrap_or_default()
}
