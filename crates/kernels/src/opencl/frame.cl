// Pixels of a tile, from a bitshuffled block or as they are, to local memory.
//
// A tile is the pixels of one block, and the last one also the up to seven pixels behind it. Pixel `p` of a tile stands at
// `p % 8 * COLUMNS + p / 8`: neighbouring lanes unshuffle neighbouring columns of eight pixels, and write to
// neighbouring words. The few behind the last block stand from `8 * COLUMNS` on.

#if SIZE == 1
typedef uchar BITS;
#elif SIZE == 2
typedef ushort BITS;
#elif SIZE == 4
typedef uint BITS;
#else
typedef ulong BITS;
#endif

// Eights of pixels in a whole block, and with the pixels behind the last.
#define COLUMNS (BLOCK_BYTES / SIZE / 8)
#define PLACES (8 * COLUMNS + 8)

// Where a tile is in the frame.
typedef struct {
    uint number;
    uint columns; // eights of pixels in its block
    uint behind;  // pixels behind it
} Tile;

// Eight bytes that hold bit `b` of eight pixels each, to eight bytes that are the pixels.
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

// Whether the pixel counts as not measured: `ranges` are pairs of lowest and highest, inclusive.
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

// The bits of eight pixels from the planes of a block, which are `columns` bytes each.
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

// The bits of a pixel that stands in memory as it is, little-endian and maybe not aligned.
static BITS read_bits(__global const uchar *at)
{
    BITS bits = 0;
    for (uint byte = 0; byte < SIZE; byte++)
        bits |= (BITS)at[byte] << (8 * byte);
    return bits;
}

// Puts up to eight pixels into their places, invalid ones as zeros; returns which of them are invalid and used.
static uchar put(__local PIXEL *pixels, uint place, uint step, uint count, const BITS *bits, uchar used,
                 __global const PIXEL *ranges, uint range_count, __local volatile uint *lit)
{
    uchar bad = 0;
    BITS any = 0;
    for (uint k = 0; k < count; k++) {
        PIXEL x = of_bits(bits[k]);
        if (is_invalid(x, ranges, range_count)) {
            bad |= (uchar)(1 << k);
            x = 0;
        } else {
            any |= bits[k];
        }
        pixels[place + k * step] = x;
    }
    // All lanes write the same.
    if (any)
        *lit = 1;
    return bad & used;
}

// The eight pixels of a column of a tile, of which all pixels, or the planes, are at hand.
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
