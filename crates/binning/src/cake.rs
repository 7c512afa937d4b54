//! The shares of one pixel in the bins of a cake (2-D): without splitting, by bounding box, by its full outline.
//!
//! Bins are numbered azimuthal * radial bins + radial. A pixel across the discontinuity of chi is in the bins on both
//! sides of it, where pyFAI keeps it on one side.

use crate::clip::{Polygon, area, between};
use crate::csc::Entries;
use crate::outline::Outline;
use crate::pattern::normalize;
use crate::ruler::Ruler;
use crate::turn::Turn;

/// The two axes of a cake.
pub(crate) struct Grid {
    pub radial: Ruler,
    pub azimuthal: Turn,
}

impl Grid {
    fn bin(&self, azimuthal: usize, radial: usize) -> usize {
        azimuthal * self.radial.bins() + radial
    }

    /// The number of bins.
    pub fn bins(&self) -> usize {
        self.bin(self.azimuthal.ruler().bins(), 0)
    }

    /// The pixel counts whole in the bin of its centre.
    #[inline]
    pub fn whole(&self, radial: f64, chi: f64, entries: &mut Entries) {
        if let (Some(radial), Some(azimuthal)) = (self.radial.locate(radial), self.azimuthal.locate(chi)) {
            entries.push(self.bin(azimuthal, radial), 1.0);
        }
    }

    /// The pixel is spread evenly over the rectangle of the two intervals; what lies outside the axes is lost.
    #[inline]
    pub fn bounding_box(&self, radial: (f64, f64), chi: (f64, f64), entries: &mut Entries) {
        let size = (radial.1 - radial.0) * (chi.1 - chi.0);
        if !(size > 0.0) {
            return self.whole(0.5 * (radial.0 + radial.1), 0.5 * (chi.0 + chi.1), entries);
        }
        self.azimuthal.overlaps(chi.0, chi.1, |azimuthal, height| {
            self.radial.overlaps(radial.0, radial.1, |radial, width| {
                entries.push(self.bin(azimuthal, radial), width * height / size);
            });
        });
    }

    /// Each bin has the share that its piece has in the area of the pixel on the grid, so that a pixel at the end of an
    /// axis counts whole.
    pub fn full(&self, corners: &[[f32; 2]; 4], room: &mut Pieces, entries: &mut Entries) {
        let Some(outline) = Outline::new(corners) else { return };
        let (min, max) = outline.radial_extent();
        let Some(columns) = self.radial.span(min, max) else { return };
        let ruler = self.azimuthal.ruler();
        let (min, max) = outline.chi_extent();
        room.found.clear();
        for radial in columns.first..=columns.last {
            let (left, right) = (self.radial.edge(radial), self.radial.edge(radial + 1));
            between(outline.points(), 0, left, right, &mut room.half, &mut room.column);
            for (turn, min, max) in self.azimuthal.images(min, max) {
                let Some(rows) = ruler.span(min, max) else { continue };
                let origin = outline.chi() + turn;
                for azimuthal in rows.first..=rows.last {
                    let (bottom, top) = (ruler.edge(azimuthal).max(min), ruler.edge(azimuthal + 1).min(max));
                    between(&room.column, 1, bottom - origin, top - origin, &mut room.half, &mut room.cell);
                    room.found.push((self.bin(azimuthal, radial), area(&room.cell)));
                }
            }
        }
        room.share(entries);
    }
}

/// Room to cut one pixel in.
#[derive(Default)]
pub(crate) struct Pieces {
    half: Polygon,
    column: Polygon,
    cell: Polygon,
    /// Bins and signed areas; a bin may be there twice, from two turns.
    found: Vec<(usize, f64)>,
    areas: Vec<f64>,
}

impl Pieces {
    /// Adds the pieces found to the entries, as shares of their sum.
    fn share(&mut self, entries: &mut Entries) {
        if let [(bin, _)] = self.found[..] {
            return entries.push(bin, 1.0);
        }
        self.found.sort_unstable_by_key(|(bin, _)| *bin);
        self.found.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.areas.clear();
        self.areas.extend(self.found.iter().map(|(_, area)| area));
        normalize(&mut self.areas);
        for ((bin, _), share) in self.found.iter().zip(&self.areas) {
            entries.push(*bin, *share);
        }
    }
}
