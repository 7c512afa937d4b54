// Reads the pixels of a tile, bitshuffled or native, to local memory.
//
// A tile holds the pixels of one block; the last tile also has the up to seven pixels after the last block. Pixel `p` of a tile is
// at position `p % 8 * COLUMNS + p / 8`, so that neighbouring lanes, which unshuffle neighbouring columns of eight pixels, write to
// neighbouring words. The pixels after the last block are at positions from `8 * COLUMNS` on.

#if SIZE == 1
typedef uchar BITS;
#elif SIZE == 2
typedef ushort BITS;
#elif SIZE == 4
typedef uint BITS;
#else
typedef ulong BITS;
#endif

// Columns (of eight pixels) in a block, and positions in a tile, with those after the last block.
#define COLUMNS (BLOCK_BYTES / SIZE / 8)
#define TILE_POSITIONS (8 * COLUMNS + 8)

// Transposes 8 × 8 bits: from eight bytes with one bit of eight pixels each to eight bytes with eight bits of one pixel each.
static ulong transpose(ulong x)
{
    ulong t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAul;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCul;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ul;
    return x ^ t ^ (t << 28);
}

static PIXEL of_bits(BITS bits)
{
    return AS_PIXEL(bits);
}

// Returns true if a pixel is invalid. `ranges` are pairs of the lowest and the highest invalid value.
static bool is_invalid(PIXEL x, __global const PIXEL *ranges, uint count)
{
#if REAL_PIXEL
    bool invalid = !isfinite(x);
#else
    bool invalid = false;
#endif
    for (uint i = 0; i < count; i++)
        invalid = invalid || (ranges[2 * i] <= x && x <= ranges[2 * i + 1]);
    return invalid;
}

// Reads the bits of eight pixels from the bit planes of a block, which are `columns` bytes each.
static void unshuffle(__local const uchar *planes, uint columns, uint column, BITS *bits)
{
    for (uint k = 0; k < 8; k++)
        bits[k] = 0;
    for (uint byte = 0; byte < SIZE; byte++) {
        ulong x = 0;
        for (uint bit = 0; bit < 8; bit++)
            x |= (ulong)planes[(8 * byte + bit) * columns + column] << (8 * bit);
        x = transpose(x);
        for (uint k = 0; k < 8; k++)
            bits[k] |= (BITS)((x >> (8 * k)) & 255) << (8 * byte);
    }
}

// Reads the bits of a native pixel, little-endian and possibly not aligned.
static BITS read_bits(__global const uchar *at)
{
    BITS bits = 0;
    for (uint byte = 0; byte < SIZE; byte++)
        bits |= (BITS)at[byte] << (8 * byte);
    return bits;
}

// Stores up to eight pixels at `position`, `position + step`, ..., invalid ones as zeros. Returns a mask of the pixels that are
// invalid and used. Sets `any_nonzero` if any stored pixel is not zero.
static uchar store_pixels(__local PIXEL *pixels, uint position, uint step, uint count, const BITS *bits, uchar used,
                          __global const PIXEL *ranges, uint range_count, __local volatile uint *any_nonzero)
{
    uchar invalid = 0;
    BITS any = 0;
    for (uint k = 0; k < count; k++) {
        PIXEL x = of_bits(bits[k]);
        if (is_invalid(x, ranges, range_count)) {
            invalid |= (uchar)(1 << k);
            x = 0;
        } else {
            any |= bits[k];
        }
        pixels[position + k * step] = x;
    }
    // All lanes write the same value.
    if (any)
        *any_nonzero = 1;
    return invalid & used;
}

// Reads the eight pixels of a column of a tile, from native pixels (`stored`) or from bit planes.
static void read_column(bool native, __global const uchar *stored, __local const uchar *planes, uint columns, uint column,
    BITS *bits)
{
    if (native) {
        for (uint k = 0; k < 8; k++)
            bits[k] = read_bits(stored + (8 * column + k) * SIZE);
    } else {
        unshuffle(planes, columns, column, bits);
    }
}
