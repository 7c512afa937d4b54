//! The matrix in the form that a device walks it: by slot, as `integrate.cl` says.

use crate::plan::IntegrationPlan;

/// A row has no more entries than this, so that no lane has much more to do than its neighbours: bins with more of
/// them in a tile have several slots.
const MAX_ROW_ENTRIES: usize = 16;

/// Pixels of a span, at least: tiles that follow one another share most bins, and with them slots.
const MIN_SPAN_PIXELS: usize = 16 << 10;

/// The tiles of a frame in blocks of `elements` pixels, and its pixels that are in blocks. `None` where they can't be numbered in 32
/// bits.
pub(super) fn tile_counts(pixels: usize, elements: usize) -> Option<[u32; 2]> {
    let whole = pixels / 8 * 8;
    Some([u32::try_from(whole.div_ceil(elements).max(1)).ok()?, u32::try_from(whole).ok()?])
}

/// The entries of a plan's matrix by tile and slot. Tiles are the blocks of `elements` pixels that frames are stored in;
/// the pixels behind the last block are in the last tile.
#[derive(Debug, Default)]
pub(super) struct SlotLayout {
    /// Tiles of a frame.
    pub(super) tiles: u32,
    /// Tiles of a span; the last may have fewer.
    pub(super) span: u32,
    /// Pixels of a frame that are in blocks.
    pub(super) block_pixels: u32,
    /// By span, where its slots start, and their number.
    pub(super) slot_starts: Vec<u32>,
    /// By tile, where its rows start in `entry_starts`.
    pub(super) row_starts: Vec<u32>,
    /// For each slot of a tile's span where the row's entries start, and behind the last where they end.
    pub(super) entry_starts: Vec<u32>,
    /// By entry, the pixel's place in the tile.
    pub(super) pixel_in_tile: Vec<u16>,
    /// By entry, the weight.
    pub(super) weights: Vec<f32>,
    /// By tile, a bit for each pixel that has entries: those of its eights of pixels, then those behind the last block.
    pub(super) used: Vec<u8>,
    /// By bin, where its slots start in `bin_slots`, and their number.
    pub(super) bin_starts: Vec<u32>,
    /// By bin, its slots, rising.
    pub(super) bin_slots: Vec<u32>,
}

/// An entry of one span's share of the matrix.
#[derive(Clone, Copy)]
struct SlotEntry {
    bin: u32,
    tile: u32,
    pixel_in_tile: u16,
    weight: f32,
}

impl SlotLayout {
    /// For blocks of `elements` pixels, a multiple of 8 below 2^16. `None` where the matrix is too large to be numbered in 32
    /// bits.
    pub(super) fn new(plan: &IntegrationPlan, elements: usize) -> Option<SlotLayout> {
        let [count, whole] = tile_counts(plan.pixels(), elements)?;
        let (tiles, span) = (count as usize, (MIN_SPAN_PIXELS / elements).max(1));
        let mut layout = SlotLayout {
            tiles: count,
            span: span as u32,
            block_pixels: whole,
            slot_starts: vec![0],
            used: vec![0; tiles * (elements / 8 + 1)],
            ..SlotLayout::default()
        };
        let mut slots_of: Vec<(u32, u32)> = Vec::new();
        for first in (0..tiles).step_by(span) {
            let end = tiles.min(first + span);
            let mut entries = layout.entries(plan, elements, first..end);
            // Stable: the entries of a row stay in the order of the pixels.
            entries.sort_by_key(|entry| (entry.bin, entry.tile));
            layout.push_span(&entries, first as u32..end as u32, &mut slots_of)?;
        }
        slots_of.sort_unstable();
        layout.bin_starts = vec![0; plan.nbins() + 1];
        slots_of.iter().for_each(|(bin, _)| layout.bin_starts[*bin as usize + 1] += 1);
        (1..layout.bin_starts.len()).for_each(|bin| layout.bin_starts[bin] += layout.bin_starts[bin - 1]);
        layout.bin_slots = slots_of.into_iter().map(|(_, slot)| slot).collect();
        Some(layout)
    }

    /// How many slots.
    pub(super) fn slot_count(&self) -> u32 {
        self.slot_starts.last().copied().unwrap_or(0)
    }

    /// The entries of some tiles, in the order of the pixels.
    fn entries(&mut self, plan: &IntegrationPlan, elements: usize, tiles: std::ops::Range<usize>) -> Vec<SlotEntry> {
        let columns = elements / 8;
        let last = self.tiles as usize - 1;
        let mut entries = Vec::new();
        for tile in tiles {
            let start = tile * elements;
            let end = if tile == last { plan.pixels() } else { start + elements };
            for pixel in start..end {
                let in_tile = pixel - start;
                let is_behind = pixel >= self.block_pixels as usize;
                let (column, place) = match is_behind {
                    true => (columns, 8 * columns + pixel - self.block_pixels as usize),
                    false => (in_tile / 8, in_tile % 8 * columns + in_tile / 8),
                };
                let before = entries.len();
                entries.extend(plan.matrix.as_slices().entries(pixel).map(|(bin, weight)| SlotEntry {
                    bin: bin as u32,
                    tile: tile as u32,
                    pixel_in_tile: place as u16,
                    weight,
                }));
                if entries.len() > before {
                    let bit = if is_behind { pixel - self.block_pixels as usize } else { in_tile % 8 };
                    self.used[tile * (columns + 1) + column] |= 1 << bit;
                }
            }
        }
        entries
    }

    /// Appends a span: its slots, and the rows of its tiles. `entries` are in the order of bin, tile, pixel.
    fn push_span(
        &mut self,
        entries: &[SlotEntry],
        tiles: std::ops::Range<u32>,
        slots_of: &mut Vec<(u32, u32)>,
    ) -> Option<()> {
        let before = self.slot_count();
        let mut slots = before;
        // Rows as (tile, slot, entries).
        let mut rows: Vec<(u32, u32, &[SlotEntry])> = Vec::new();
        for of_bin in entries.chunk_by(|one, two| one.bin == two.bin) {
            let mut shares = 0;
            for of_tile in of_bin.chunk_by(|one, two| one.tile == two.tile) {
                let of_rows = of_tile.chunks(MAX_ROW_ENTRIES);
                shares = shares.max(of_rows.len() as u32);
                rows.extend((slots - before..).zip(of_rows).map(|(slot, row)| (of_tile[0].tile, slot, row)));
            }
            slots_of.extend((slots..slots + shares).map(|slot| (of_bin[0].bin, slot)));
            slots = slots.checked_add(shares)?;
        }
        rows.sort_unstable_by_key(|(tile, slot, _)| (*tile, *slot));
        let mut rows = rows.into_iter().peekable();
        for tile in tiles {
            self.row_starts.push(u32::try_from(self.entry_starts.len()).ok()?);
            for slot in 0..slots - before {
                self.entry_starts.push(u32::try_from(self.pixel_in_tile.len()).ok()?);
                if let Some((.., row)) = rows.next_if(|(of, row, _)| (*of, *row) == (tile, slot)) {
                    self.pixel_in_tile.extend(row.iter().map(|entry| entry.pixel_in_tile));
                    self.weights.extend(row.iter().map(|entry| entry.weight));
                }
            }
            self.entry_starts.push(u32::try_from(self.pixel_in_tile.len()).ok()?);
        }
        self.slot_starts.push(slots);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TiledCsc, VarianceModel};

    /// Each entry of the matrix stands once, in a slot of its bin, at its pixel's place.
    #[test]
    fn the_matrix_is_all_there() {
        for (pixels, elements, nbins) in [(5, 2048, 3), (9003, 256, 40), (40_961, 2048, 700), (20_000, 1024, 1)] {
            let (mut starts, mut bins, mut weights) = (vec![0], Vec::new(), Vec::new());
            for pixel in 0..pixels {
                let first = pixel * 7 / 9 % nbins;
                let entries = [0, 1, 2, 2, 5][pixel % 5];
                for bin in first..nbins.min(first + entries) {
                    bins.push(bin as u32);
                    weights.push(1.0 / (1 + pixel % 64) as f32);
                }
                starts.push(bins.len() as u64);
            }
            let matrix = TiledCsc::new(&starts, &bins, &weights, nbins).expect("a good matrix");
            let plan = IntegrationPlan::new(matrix, &vec![1.; pixels], VarianceModel::None, None).expect("norms");
            let layout = SlotLayout::new(&plan, elements).expect("few entries");
            let mut bin_of = vec![u32::MAX; layout.slot_count() as usize];
            for bin in 0..nbins {
                let slots = layout.bin_starts[bin] as usize..layout.bin_starts[bin + 1] as usize;
                for &slot in &layout.bin_slots[slots] {
                    assert_eq!(std::mem::replace(&mut bin_of[slot as usize], bin as u32), u32::MAX, "two bins a slot");
                }
            }
            let columns = elements / 8;
            let mut found = Vec::new();
            for tile in 0..layout.tiles as usize {
                let span = tile / layout.span as usize;
                let slots = layout.slot_starts[span]..layout.slot_starts[span + 1];
                for (row, slot) in (layout.row_starts[tile] as usize..).zip(slots) {
                    let entries = layout.entry_starts[row] as usize..layout.entry_starts[row + 1] as usize;
                    assert!(entries.len() <= MAX_ROW_ENTRIES);
                    for entry in entries {
                        let place = layout.pixel_in_tile[entry] as usize;
                        let (column, bit, pixel) = match place.checked_sub(8 * columns) {
                            Some(behind) => (columns, behind, layout.block_pixels as usize + behind),
                            None => (
                                place % columns,
                                place / columns,
                                tile * elements + place % columns * 8 + place / columns,
                            ),
                        };
                        assert_eq!(layout.used[tile * (columns + 1) + column] >> bit & 1, 1, "pixel {pixel} is used");
                        found.push((pixel, bin_of[slot as usize], layout.weights[entry]));
                    }
                }
            }
            found.sort_by_key(|(pixel, bin, _)| (*pixel, *bin));
            let all = (0..pixels)
                .flat_map(|pixel| plan.matrix.as_slices().entries(pixel).map(move |(bin, w)| (pixel, bin as u32, w)));
            assert_eq!(found, all.collect::<Vec<_>>(), "{pixels} pixels in {elements}");
            let used: u32 = layout.used.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(
                used as usize,
                (0..pixels).filter(|pixel| plan.matrix.as_slices().entries(*pixel).next().is_some()).count()
            );
        }
    }
}
