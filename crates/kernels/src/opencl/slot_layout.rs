//! The matrix for `integrate.cl`: entries ordered by tile and accumulator slot.
//!
//! A slot is a partial sum of one bin, in one span of consecutive tiles. A lane of a work-group
//! adds the entries of a slot, a *row* in each tile, so that no two lanes write the same sum.

use std::ops::Range;

use rayon::prelude::*;

use crate::plan::IntegrationPlan;

/// Maximum number of entries in a row, so that all lanes have about the same work. A bin with more
/// entries in a tile gets several slots.
const MAX_ROW_ENTRIES: usize = 16;

/// Minimum number of pixels in a span. Consecutive tiles share most of their bins, and within a
/// span the slots of these.
const MIN_SPAN_PIXELS: usize = 16 << 10;

/// Number of spans that threads order at a time: some for each of many threads.
const SPANS_AT_A_TIME: usize = 256;

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
    /// Tiles per span; the last span may have fewer.
    pub(super) span: u32,
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
    /// w² n of each entry, by which the pixel is multiplied in the products; empty if these are not
    /// summed.
    pub(super) product_weights: Vec<f64>,
    /// Twice the dark of each entry's pixel, if squares are summed and there is a dark.
    pub(super) twice_darks: Vec<f64>,
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
    pixel: u32,
    pixel_in_tile: u16,
    weight: f32,
}

/// The part of a [`SlotLayout`] that is of one span: indices count from its first slot, row and entry.
#[derive(Default)]
struct TileSpan {
    slots: u32,
    row_starts: Vec<u32>,
    entry_starts: Vec<u32>,
    pixel_in_tile: Vec<u16>,
    weights: Vec<f32>,
    product_weights: Vec<f64>,
    twice_darks: Vec<f64>,
    used: Vec<u8>,
    /// Pairs of a bin and one of its slots.
    bin_slots: Vec<(u32, u32)>,
}

/// The tiles of a plan's pixels.
struct Tiles<'a> {
    plan: &'a IntegrationPlan,
    /// Pixels per tile.
    elements: usize,
    count: usize,
    block_pixels: usize,
}

impl SlotLayout {
    /// Orders the entries of a plan for blocks of `elements` pixels, a multiple of 8 below 2^16.
    /// Returns `None` if an index does not fit in 32 bits.
    pub(super) fn new(plan: &IntegrationPlan, elements: usize) -> Option<SlotLayout> {
        let [tile_count, block_pixels] = tile_counts(plan.pixels(), elements)?;
        let span = (MIN_SPAN_PIXELS / elements).max(1);
        let mut layout =
            SlotLayout { span: span as u32, slot_starts: vec![0], ..SlotLayout::default() };
        let (count, block_pixels) = (tile_count as usize, block_pixels as usize);
        let tiles = &Tiles { plan, elements, count, block_pixels };
        let first_tiles: Vec<usize> = (0..count).step_by(span).collect();
        let mut bin_slots = Vec::new();
        // A few at a time: they are there twice while they are appended.
        for first_tiles in first_tiles.chunks(SPANS_AT_A_TIME) {
            let spans: Vec<Option<TileSpan>> = first_tiles
                .par_iter()
                .map(|&first| TileSpan::new(tiles, first..count.min(first + span)))
                .collect();
            for span in spans {
                layout.push(span?, &mut bin_slots)?;
            }
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

    /// Appends a span, and its pairs of a bin and a slot to `bin_slots`.
    fn push(&mut self, span: TileSpan, bin_slots: &mut Vec<(u32, u32)>) -> Option<()> {
        let first_slot = self.slot_count();
        let first_row = u32::try_from(self.entry_starts.len()).ok()?;
        let first_entry = u32::try_from(self.pixel_in_tile.len()).ok()?;
        // The largest of each must fit, too.
        u32::try_from(self.entry_starts.len() + span.entry_starts.len()).ok()?;
        u32::try_from(self.pixel_in_tile.len() + span.pixel_in_tile.len()).ok()?;
        self.slot_starts.push(first_slot.checked_add(span.slots)?);
        bin_slots.extend(span.bin_slots.into_iter().map(|(bin, slot)| (bin, first_slot + slot)));
        self.row_starts.extend(span.row_starts.into_iter().map(|row| first_row + row));
        self.entry_starts.extend(span.entry_starts.into_iter().map(|entry| first_entry + entry));
        self.pixel_in_tile.extend(span.pixel_in_tile);
        self.weights.extend(span.weights);
        self.product_weights.extend(span.product_weights);
        self.twice_darks.extend(span.twice_darks);
        self.used.extend(span.used);
        Some(())
    }
}

impl TileSpan {
    /// Orders the entries of some tiles. Returns `None` if an index does not fit in 32 bits.
    fn new(tiles: &Tiles<'_>, range: Range<usize>) -> Option<TileSpan> {
        let mut span = TileSpan::default();
        let mut entries = span.take_entries(tiles, range.clone());
        // The sort is stable: the entries of a row stay in the order of the pixels.
        entries.sort_by_key(|entry| (entry.bin, entry.tile));
        span.add_rows(tiles.plan, &entries, range.start as u32..range.end as u32)?;
        Some(span)
    }

    /// Returns the entries of some tiles in the order of the pixels, and sets the bits of these
    /// pixels in `used`.
    fn take_entries(&mut self, tiles: &Tiles<'_>, range: Range<usize>) -> Vec<SlotEntry> {
        let Tiles { plan, elements, count, block_pixels } = *tiles;
        let columns = elements / 8;
        self.used = vec![0; range.len() * (columns + 1)];
        let mut entries = Vec::new();
        for (tile, used) in range.zip(self.used.chunks_mut(columns + 1)) {
            let start = tile * elements;
            let end = if tile == count - 1 { plan.pixels() } else { start + elements };
            for pixel in start..end {
                let in_tile = pixel - start;
                let after_blocks = pixel.checked_sub(block_pixels);
                let (column, bit, pixel_in_tile) = match after_blocks {
                    Some(offset) => (columns, offset, 8 * columns + offset),
                    None => (in_tile / 8, in_tile % 8, in_tile % 8 * columns + in_tile / 8),
                };
                let count_before = entries.len();
                entries.extend(plan.matrix.as_slices().entries(pixel).map(|(bin, weight)| {
                    SlotEntry {
                        bin: bin as u32,
                        tile: tile as u32,
                        pixel: pixel as u32,
                        pixel_in_tile: pixel_in_tile as u16,
                        weight,
                    }
                }));
                if entries.len() > count_before {
                    used[column] |= 1 << bit;
                }
            }
        }
        entries
    }

    /// Adds the slots of the span, and the rows of its tiles. `entries` must be in the order of bin,
    /// tile, pixel.
    fn add_rows(
        &mut self,
        plan: &IntegrationPlan,
        entries: &[SlotEntry],
        tiles: Range<u32>,
    ) -> Option<()> {
        // Rows as (tile, slot, entries).
        let mut rows: Vec<(u32, u32, &[SlotEntry])> = Vec::new();
        for bin_entries in entries.chunk_by(|one, two| one.bin == two.bin) {
            let mut bin_slot_count = 0;
            for tile_entries in bin_entries.chunk_by(|one, two| one.tile == two.tile) {
                let tile_rows = tile_entries.chunks(MAX_ROW_ENTRIES);
                bin_slot_count = bin_slot_count.max(tile_rows.len() as u32);
                let tile = tile_entries[0].tile;
                rows.extend((self.slots..).zip(tile_rows).map(|(slot, row)| (tile, slot, row)));
            }
            let end = self.slots.checked_add(bin_slot_count)?;
            self.bin_slots.extend((self.slots..end).map(|slot| (bin_entries[0].bin, slot)));
            self.slots = end;
        }
        rows.sort_unstable_by_key(|(tile, slot, _)| (*tile, *slot));
        let mut rows = rows.into_iter().peekable();
        for tile in tiles {
            self.row_starts.push(u32::try_from(self.entry_starts.len()).ok()?);
            for slot in 0..self.slots {
                self.entry_starts.push(u32::try_from(self.pixel_in_tile.len()).ok()?);
                if let Some((.., row)) =
                    rows.next_if(|&(row_tile, row_slot, _)| (row_tile, row_slot) == (tile, slot))
                {
                    self.pixel_in_tile.extend(row.iter().map(|entry| entry.pixel_in_tile));
                    self.weights.extend(row.iter().map(|entry| entry.weight));
                    self.add_spread_factors(plan, row);
                }
            }
            self.entry_starts.push(u32::try_from(self.pixel_in_tile.len()).ok()?);
        }
        Some(())
    }

    /// Adds what the squares and products of a row need besides its weights, if they are summed.
    fn add_spread_factors(&mut self, plan: &IntegrationPlan, row: &[SlotEntry]) {
        if !plan.sums_spread() {
            return;
        }
        let product_weight = |entry: &SlotEntry| {
            let w = f64::from(entry.weight);
            w * w * plan.normalization()[entry.pixel as usize]
        };
        self.product_weights.extend(row.iter().map(product_weight));
        if let Some(dark) = plan.dark() {
            self.twice_darks.extend(row.iter().map(|entry| 2. * dark[entry.pixel as usize]));
        }
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
            let [tiles, block_pixels] = tile_counts(pixels, elements).expect("few pixels");
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
            for tile in 0..tiles as usize {
                let span = tile / layout.span as usize;
                let slots = layout.slot_starts[span]..layout.slot_starts[span + 1];
                for (row, slot) in (layout.row_starts[tile] as usize..).zip(slots) {
                    let entries =
                        layout.entry_starts[row] as usize..layout.entry_starts[row + 1] as usize;
                    assert!(entries.len() <= MAX_ROW_ENTRIES);
                    for entry in entries {
                        let position = layout.pixel_in_tile[entry] as usize;
                        let (column, bit, pixel) = match position.checked_sub(8 * columns) {
                            Some(offset) => (columns, offset, block_pixels as usize + offset),
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
