//! The matrix for `integrate.cl`: entries ordered by tile and accumulator slot.
//!
//! A slot is a partial sum of one bin, in one span of consecutive tiles. A lane of a work-group
//! adds the entries of a slot, a *row* in each tile, so that no two lanes write the same sum.

use crate::plan::IntegrationPlan;

/// Maximum number of entries in a row, so that all lanes have about the same work. A bin with more
/// entries in a tile gets several slots.
const MAX_ROW_ENTRIES: usize = 16;

/// Minimum number of pixels in a span. Consecutive tiles share most of their bins, and within a
/// span the slots of these.
const MIN_SPAN_PIXELS: usize = 16 << 10;

/// Returns the number of tiles of a frame in blocks of `elements` pixels, and the number of its
/// pixels that are in blocks. Returns `None` if they don't fit in 32 bits.
pub(super) fn tile_counts(pixels: usize, elements: usize) -> Option<[u32; 2]> {
    let block_pixels = pixels / 8 * 8;
    Some([
        u32::try_from(block_pixels.div_ceil(elements).max(1)).ok()?,
        u32::try_from(block_pixels).ok()?,
    ])
}

/// The entries of a plan's matrix by tile and slot. A tile is a stored block of `elements` pixels;
/// the last tile also has the up to seven pixels after the last block.
#[derive(Debug, Default)]
pub(super) struct SlotLayout {
    /// Tiles per frame.
    pub(super) tiles: u32,
    /// Tiles per span; the last span may have fewer.
    pub(super) span: u32,
    /// Pixels of a frame that are in blocks.
    pub(super) block_pixels: u32,
    /// Index of the first slot of each span, then the number of slots.
    pub(super) slot_starts: Vec<u32>,
    /// Index of each tile's first element in `entry_starts`.
    pub(super) row_starts: Vec<u32>,
    /// For each tile: index of the first entry of the row of each slot of the span, then the end of
    /// the last row.
    pub(super) entry_starts: Vec<u32>,
    /// Position of each entry's pixel in the tile; see `frame.cl`.
    pub(super) pixel_in_tile: Vec<u16>,
    /// Weight of each entry.
    pub(super) weights: Vec<f32>,
    /// Bitmap of the pixels that have entries. For each tile: one byte per eight pixels of the
    /// block, then one byte for the pixels after the last block.
    pub(super) used: Vec<u8>,
    /// Index of each bin's first element in `bin_slots`, then the length of `bin_slots`.
    pub(super) bin_starts: Vec<u32>,
    /// The slots of each bin, ascending.
    pub(super) bin_slots: Vec<u32>,
}

/// An entry of the matrix in one span.
#[derive(Clone, Copy)]
struct SlotEntry {
    bin: u32,
    tile: u32,
    pixel_in_tile: u16,
    weight: f32,
}

impl SlotLayout {
    /// Orders the entries of a plan for blocks of `elements` pixels, a multiple of 8 below 2^16.
    /// Returns `None` if an index does not fit in 32 bits.
    pub(super) fn new(plan: &IntegrationPlan, elements: usize) -> Option<SlotLayout> {
        let [tile_count, block_pixels] = tile_counts(plan.pixels(), elements)?;
        let (tiles, span) = (tile_count as usize, (MIN_SPAN_PIXELS / elements).max(1));
        let mut layout = SlotLayout {
            tiles: tile_count,
            span: span as u32,
            block_pixels,
            slot_starts: vec![0],
            used: vec![0; tiles * (elements / 8 + 1)],
            ..SlotLayout::default()
        };
        // Pairs of a bin and one of its slots.
        let mut bin_slots: Vec<(u32, u32)> = Vec::new();
        for first in (0..tiles).step_by(span) {
            let end = tiles.min(first + span);
            let mut entries = layout.entries(plan, elements, first..end);
            // The sort is stable: the entries of a row stay in the order of the pixels.
            entries.sort_by_key(|entry| (entry.bin, entry.tile));
            layout.push_span(&entries, first as u32..end as u32, &mut bin_slots)?;
        }
        bin_slots.sort_unstable();
        layout.bin_starts = vec![0; plan.nbins() + 1];
        bin_slots.iter().for_each(|(bin, _)| layout.bin_starts[*bin as usize + 1] += 1);
        (1..layout.bin_starts.len())
            .for_each(|bin| layout.bin_starts[bin] += layout.bin_starts[bin - 1]);
        layout.bin_slots = bin_slots.into_iter().map(|(_, slot)| slot).collect();
        Some(layout)
    }

    /// Returns the number of slots.
    pub(super) fn slot_count(&self) -> u32 {
        self.slot_starts.last().copied().unwrap_or(0)
    }

    /// Returns the entries of some tiles in the order of the pixels, and sets the bits of these
    /// pixels in `used`.
    fn entries(
        &mut self,
        plan: &IntegrationPlan,
        elements: usize,
        tiles: std::ops::Range<usize>,
    ) -> Vec<SlotEntry> {
        let columns = elements / 8;
        let last = self.tiles as usize - 1;
        let mut entries = Vec::new();
        for tile in tiles {
            let start = tile * elements;
            let end = if tile == last { plan.pixels() } else { start + elements };
            for pixel in start..end {
                let in_tile = pixel - start;
                let after_blocks = pixel.checked_sub(self.block_pixels as usize);
                let (column, bit, pixel_in_tile) = match after_blocks {
                    Some(offset) => (columns, offset, 8 * columns + offset),
                    None => (in_tile / 8, in_tile % 8, in_tile % 8 * columns + in_tile / 8),
                };
                let count_before = entries.len();
                entries.extend(plan.matrix.as_slices().entries(pixel).map(|(bin, weight)| {
                    SlotEntry {
                        bin: bin as u32,
                        tile: tile as u32,
                        pixel_in_tile: pixel_in_tile as u16,
                        weight,
                    }
                }));
                if entries.len() > count_before {
                    self.used[tile * (columns + 1) + column] |= 1 << bit;
                }
            }
        }
        entries
    }

    /// Appends a span: its slots, and the rows of its tiles. `entries` must be in the order of bin,
    /// tile, pixel.
    fn push_span(
        &mut self,
        entries: &[SlotEntry],
        tiles: std::ops::Range<u32>,
        bin_slots: &mut Vec<(u32, u32)>,
    ) -> Option<()> {
        let first_slot = self.slot_count();
        let mut slots = first_slot;
        // Rows as (tile, slot in the span, entries).
        let mut rows: Vec<(u32, u32, &[SlotEntry])> = Vec::new();
        for bin_entries in entries.chunk_by(|one, two| one.bin == two.bin) {
            let mut bin_slot_count = 0;
            for tile_entries in bin_entries.chunk_by(|one, two| one.tile == two.tile) {
                let tile_rows = tile_entries.chunks(MAX_ROW_ENTRIES);
                bin_slot_count = bin_slot_count.max(tile_rows.len() as u32);
                let tile = tile_entries[0].tile;
                rows.extend(
                    (slots - first_slot..).zip(tile_rows).map(|(slot, row)| (tile, slot, row)),
                );
            }
            bin_slots
                .extend((slots..slots + bin_slot_count).map(|slot| (bin_entries[0].bin, slot)));
            slots = slots.checked_add(bin_slot_count)?;
        }
        rows.sort_unstable_by_key(|(tile, slot, _)| (*tile, *slot));
        let mut rows = rows.into_iter().peekable();
        for tile in tiles {
            self.row_starts.push(u32::try_from(self.entry_starts.len()).ok()?);
            for slot in 0..slots - first_slot {
                self.entry_starts.push(u32::try_from(self.pixel_in_tile.len()).ok()?);
                if let Some((.., row)) =
                    rows.next_if(|&(row_tile, row_slot, _)| (row_tile, row_slot) == (tile, slot))
                {
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

    /// Checks that each entry of the matrix occurs once, in a slot of its bin, at the position of
    /// its pixel.
    #[test]
    fn the_matrix_is_all_there() {
        for (pixels, elements, nbins) in
            [(5, 2048, 3), (9003, 256, 40), (40_961, 2048, 700), (20_000, 1024, 1)]
        {
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
            let plan = IntegrationPlan::new(matrix, vec![1.; pixels], VarianceModel::NONE, None)
                .expect("norms");
            let layout = SlotLayout::new(&plan, elements).expect("few entries");
            let mut bin_of = vec![u32::MAX; layout.slot_count() as usize];
            for bin in 0..nbins {
                let slots = layout.bin_starts[bin] as usize..layout.bin_starts[bin + 1] as usize;
                for &slot in &layout.bin_slots[slots] {
                    assert_eq!(
                        std::mem::replace(&mut bin_of[slot as usize], bin as u32),
                        u32::MAX,
                        "two bins a slot"
                    );
                }
            }
            let columns = elements / 8;
            let mut found = Vec::new();
            for tile in 0..layout.tiles as usize {
                let span = tile / layout.span as usize;
                let slots = layout.slot_starts[span]..layout.slot_starts[span + 1];
                for (row, slot) in (layout.row_starts[tile] as usize..).zip(slots) {
                    let entries =
                        layout.entry_starts[row] as usize..layout.entry_starts[row + 1] as usize;
                    assert!(entries.len() <= MAX_ROW_ENTRIES);
                    for entry in entries {
                        let position = layout.pixel_in_tile[entry] as usize;
                        let (column, bit, pixel) = match position.checked_sub(8 * columns) {
                            Some(offset) => {
                                (columns, offset, layout.block_pixels as usize + offset)
                            }
                            None => (
                                position % columns,
                                position / columns,
                                tile * elements + position % columns * 8 + position / columns,
                            ),
                        };
                        assert_eq!(
                            layout.used[tile * (columns + 1) + column] >> bit & 1,
                            1,
                            "pixel {pixel} is used"
                        );
                        found.push((pixel, bin_of[slot as usize], layout.weights[entry]));
                    }
                }
            }
            found.sort_by_key(|(pixel, bin, _)| (*pixel, *bin));
            let all = (0..pixels).flat_map(|pixel| {
                plan.matrix.as_slices().entries(pixel).map(move |(bin, w)| (pixel, bin as u32, w))
            });
            assert_eq!(found, all.collect::<Vec<_>>(), "{pixels} pixels in {elements}");
            let used: u32 = layout.used.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(
                used as usize,
                (0..pixels)
                    .filter(|pixel| plan.matrix.as_slices().entries(*pixel).next().is_some())
                    .count()
            );
        }
    }
}
