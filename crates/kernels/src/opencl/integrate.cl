// Integrates stored frames to sums of each bin. There are two kernels:
//
// `integrate`: a work-group takes a span of consecutive tiles of one frame. Tile by tile it decodes a block to local memory, stores
// the pixels at their positions, and adds each row of the tile (the matrix entries that share a slot) to its slot. A slot is a
// partial sum of one bin in one span, so no other work-group writes it; see `slot_layout.rs`.
// `reduce`: a lane adds up the slots of one bin of one frame.
//
// Each sum has a fixed order, so the sums of a frame are the same bytes on every run and in every batch.

// `input`: for each frame a table, then the chunks. A table has a word that is 1 if the pixels are native, then `tiles + 1` offsets
// in `input`: of each tile's bytes, and of the pixels after the last block. After each compressed block but the last follow the four
// bytes of the next block's length. `status`: the number of invalid pixels of each frame, then the first damaged tile of each frame.
// `product_weights` and `twice_darks`: w² n and 2 d of each entry, for the sums that the spread of a bin follows from (see
// `photon_sums.rs`); empty where these are not summed, or there is no dark.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void integrate(__global const uchar *input, uint frames, uint tiles, uint span, uint block_pixels, uint pixels_of_frame,
               __global const uint *slot_starts, __global const uint *row_starts, __global const uint *entry_starts,
               __global const ushort *pixel_in_tile, __global const float *weights,
               __global const REAL *product_weights, uint has_darks, __global const REAL *twice_darks,
               __global const uchar *used,
               __global const PIXEL *ranges, uint range_count,
               __global REAL *partial, __global uchar *invalid, __global uint *status)
{
    __local uint planes[BLOCK_BYTES / 4];
    __local PIXEL pixels[TILE_POSITIONS];
    __local volatile uint any_nonzero[1];

    __global uint *invalid_count = status;
    __global uint *damaged = status + frames;
    uint frame = get_group_id(0) % frames;
    uint number = get_group_id(0) / frames;
    uint slots_before = slot_starts[number];
    uint slots = slot_starts[number + 1] - slots_before;
    __global REAL *sums = partial + ((ulong)frame * slot_starts[(tiles + span - 1) / span] + slots_before) * QUANTITIES;
    __global const uint *table = (__global const uint *)input + (ulong)frame * (tiles + 2);
    bool native = table[0] == 1;
    table += 1;

    // A slot belongs to one lane throughout, so no barrier is needed between writes to it.
    for (uint slot = LANE; slot < slots; slot += GROUP)
        for (uint quantity = 0; quantity < QUANTITIES; quantity++)
            sums[slot * QUANTITIES + quantity] = zero();

    bool sound = true;
    uint end = min(tiles, (number + 1) * span);
    for (uint tile = number * span; tile < end && sound; tile++) {
        // Pixels in the tile's block, and after it.
        uint first = tile * 8 * COLUMNS;
        uint length = min(8u * COLUMNS, block_pixels - first);
        uint behind = tile + 1 == tiles ? pixels_of_frame - block_pixels : 0;
        uint columns = length / 8;
        __global const uchar *stored = input + table[tile];
        if (LANE == 0)
            any_nonzero[0] = 0;
        if (!native && length) {
            uint stored_length = table[tile + 1] - table[tile] - (tile + 1 == tiles ? 0 : 4);
            sound = expand(stored, stored_length, (__local uchar *)planes, length * SIZE);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (sound) {
            __global const uchar *tile_used = used + (ulong)tile * (COLUMNS + 1);
            __global uchar *tile_invalid = invalid + ((ulong)frame * tiles + tile) * (COLUMNS + 1);
            for (uint column = LANE; column < columns; column += GROUP) {
                BITS bits[8];
                read_column(native, stored, (__local const uchar *)planes, columns, column, bits);
                uchar invalid_bits =
                    store_pixels(pixels, column, COLUMNS, 8, bits, tile_used[column], ranges, range_count, any_nonzero);
                tile_invalid[column] = invalid_bits;
                if (invalid_bits)
                    atomic_add(&invalid_count[frame], popcount((uint)invalid_bits));
            }
            // Columns without pixels have no invalid ones.
            for (uint column = columns + LANE; column < COLUMNS; column += GROUP)
                tile_invalid[column] = 0;
            if (LANE == 0) {
                BITS bits[8];
                for (uint k = 0; k < behind; k++)
                    bits[k] = read_bits(input + table[tiles] + k * SIZE);
                uchar invalid_bits =
                    store_pixels(pixels, 8 * COLUMNS, 1, behind, bits, tile_used[COLUMNS], ranges, range_count, any_nonzero);
                tile_invalid[COLUMNS] = invalid_bits;
                if (invalid_bits)
                    atomic_add(&invalid_count[frame], popcount((uint)invalid_bits));
            }
        } else if (LANE == 0) {
            atomic_min(&damaged[frame], tile);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (sound && any_nonzero[0]) {
            __global const uint *rows = entry_starts + row_starts[tile];
            for (uint slot = LANE; slot < slots; slot += GROUP) {
                uint entry = rows[slot];
                uint last = rows[slot + 1];
                if (entry < last) {
                    REAL signal = sums[slot * QUANTITIES];
#if QUANTITIES == 2
                    REAL excess = sums[slot * QUANTITIES + 1];
#elif QUANTITIES == 3
                    REAL squares = sums[slot * QUANTITIES + 1];
                    REAL products = sums[slot * QUANTITIES + 2];
#endif
                    for (; entry < last; entry++) {
                        PIXEL x = pixels[pixel_in_tile[entry]];
                        if (x != 0) {
                            REAL w = of_weight(weights[entry]);
                            REAL value = of_pixel(x);
                            signal = add(signal, multiply(w, value));
#if QUANTITIES == 2
                            if (x > 1)
                                excess = add(excess, multiply(multiply(w, w), add(value, of_weight(-1.0f))));
#elif QUANTITIES == 3
                            REAL difference = has_darks ? value - twice_darks[entry] : value;
                            squares = add(squares, multiply(multiply(w, w), multiply(value, difference)));
                            products = add(products, multiply(product_weights[entry], value));
#endif
                        }
                    }
                    sums[slot * QUANTITIES] = signal;
#if QUANTITIES == 2
                    sums[slot * QUANTITIES + 1] = excess;
#elif QUANTITIES == 3
                    sums[slot * QUANTITIES + 1] = squares;
                    sums[slot * QUANTITIES + 2] = products;
#endif
                }
            }
        }
        // The next tile overwrites the block and the pixels.
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// `sums`: for each frame the signals of all bins, then the other quantities of all bins, one after the other.
__kernel void reduce(__global const REAL *partial, uint frames, uint bins, uint slots,
                     __global const uint *bin_starts, __global const uint *bin_slots, __global REAL *sums)
{
    uint bin = get_global_id(0);
    uint frame = get_global_id(1);
    if (bin >= bins || frame >= frames)
        return;
    REAL sum[QUANTITIES];
    for (uint quantity = 0; quantity < QUANTITIES; quantity++)
        sum[quantity] = zero();
    __global const REAL *of_frame = partial + (ulong)frame * slots * QUANTITIES;
    for (uint i = bin_starts[bin]; i < bin_starts[bin + 1]; i++)
        for (uint quantity = 0; quantity < QUANTITIES; quantity++)
            sum[quantity] = add(sum[quantity], of_frame[(ulong)bin_slots[i] * QUANTITIES + quantity]);
    for (uint quantity = 0; quantity < QUANTITIES; quantity++)
        sums[((ulong)frame * QUANTITIES + quantity) * bins + bin] = sum[quantity];
}
