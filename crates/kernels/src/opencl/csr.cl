// Statistics that need all pixels of a bin, with the matrix in CSR form; see `kernels::robust`. There are two kernels:
//
// `decode`: a work-group decodes a tile of one frame to local memory, and copies its pixels to the frame's memory.
// `choose`: sixteen lanes pass over the pixels of one bin of one frame, as often as the statistic needs. They sum in the order of
// `robust::partial_sums` and round each step as the CPU does, so the sums are the CPU's bytes.
//
// Each frame has a part of the `intermediate` buffer. It holds the pixels, then for each bin the indices of the entries that
// remain once some have been dropped.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

#define LANES_PER_BIN 16
#define LANE_IN_BIN (get_local_id(0) % LANES_PER_BIN)
#define BIN_IN_GROUP (get_local_id(0) / LANES_PER_BIN)

// Values of `pixel_variance`; see `pixel_variance_code`.
#define VARIANCE_NONE 0
#define VARIANCE_COUNTS 1
#define VARIANCE_GIVEN 2

// Values of `spread`; see `spread_code`.
#define SPREAD_UNUSED 0
#define SPREAD_CLIPPING 1
#define SPREAD_CLIPPING_AND_RESULT 2

// Relative distance from the mean that counts as zero, as `MEAN_TOLERANCE` of `robust::bin_buffer`.
#define ROUNDING 1e-12

// Bytes of a frame's pixels, and of its part of `intermediate`, both multiples of eight.
static ulong pixel_bytes(uint pixels) { return ((ulong)pixels * SIZE + 7) / 8 * 8; }
static ulong bytes_per_frame(uint pixels, uint entries) { return pixel_bytes(pixels) + ((ulong)entries * 4 + 7) / 8 * 8; }

// `input` and `status` have the layout that `integrate` describes.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void decode(__global const uchar *input, uint frames, uint tiles, uint block_pixels, uint pixels_of_frame, uint entries,
            __global uchar *intermediate, __global uint *status)
{
    __local uint planes[BLOCK_BYTES / 4];

    uint frame = get_group_id(0) % frames;
    uint tile = get_group_id(0) / frames;
    __global const uint *table = (__global const uint *)input + (ulong)frame * (tiles + 2);
    bool native = table[0] == 1;
    table += 1;
    __global BITS *pixels = (__global BITS *)(intermediate + frame * bytes_per_frame(pixels_of_frame, entries));

    uint first = tile * 8 * COLUMNS;
    uint length = min(8u * COLUMNS, block_pixels - first);
    uint columns = length / 8;
    __global const uchar *stored = input + table[tile];
    bool sound = true;
    if (!native && length) {
        uint stored_length = table[tile + 1] - table[tile] - (tile + 1 == tiles ? 0 : 4);
        sound = expand(stored, stored_length, (__local uchar *)planes, length * SIZE);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!sound) {
        if (LANE == 0)
            atomic_min(&status[frames + frame], tile);
        return;
    }
    for (uint column = LANE; column < columns; column += GROUP) {
        BITS bits[8];
        read_column(native, stored, (__local const uchar *)planes, columns, column, bits);
        for (uint k = 0; k < 8; k++)
            pixels[first + 8 * column + k] = bits[k];
    }
    // The pixels after the last block.
    if (tile + 1 == tiles)
        for (uint k = LANE; k < pixels_of_frame - block_pixels; k += GROUP)
            pixels[block_pixels + k] = read_bits(input + table[tiles] + k * SIZE);
}

// A bin of one frame.
typedef struct {
    __global const PIXEL *frame;
    // For each entry: index of the pixel, w, n, dark counts, w² v.
    __global const uint *pixels;
    __global const float *weights;
    __global const double *norms;
    __global const double *darks;
    __global const double *variances;
    bool has_weights, has_darks;
    uint pixel_variance;
    // Invalid values: pairs of lowest and highest.
    __global const PIXEL *ranges;
    uint range_count;
} Bin;

// Returns w s.
static double signal_of(const Bin *bin, uint entry)
{
    double signal = (double)bin->frame[bin->pixels[entry]];
    if (bin->has_darks)
        signal = signal - bin->darks[entry];
    return bin->has_weights ? (double)bin->weights[entry] * signal : signal;
}

// Returns w n.
static double norm_of(const Bin *bin, uint entry)
{
    double norm = bin->norms[entry];
    return bin->has_weights ? (double)bin->weights[entry] * norm : norm;
}

// Returns w² v.
static double variance_of(const Bin *bin, uint entry)
{
    if (bin->pixel_variance == VARIANCE_GIVEN)
        return bin->variances[entry];
    if (bin->pixel_variance == VARIANCE_NONE)
        return 0.0;
    double counts = (double)bin->frame[bin->pixels[entry]];
    counts = counts > 1.0 ? counts : 1.0;
    double w = bin->has_weights ? (double)bin->weights[entry] : 1.0;
    return bin->has_weights ? w * w * counts : counts;
}

// Returns the sum of a bin's partial sums.
static double tree(__local const double *p)
{
    return (((p[0] + p[8]) + (p[4] + p[12])) + ((p[2] + p[10]) + (p[6] + p[14]))) +
           (((p[1] + p[9]) + (p[5] + p[13])) + ((p[3] + p[11]) + (p[7] + p[15])));
}

// Returns the natural logarithm, by the algorithm of `robust::logarithm`.
static double logarithm(double x)
{
    ulong bits = as_ulong(x);
    int exponent = (int)(bits >> 52) - 1023;
    double m = as_double((bits & 0x000ffffffffffffful) | 0x3ff0000000000000ul);
    if (m > 1.4142135623730951) {
        m = m * 0.5;
        exponent += 1;
    }
    double f = (m - 1.0) / (m + 1.0);
    double square = f * f;
    double series = 0.0;
    for (int term = 10; term >= 0; term--)
        series = series * square + 1.0 / (double)(2 * term + 1);
    return (double)exponent * 0.6931471805599453 + 2.0 * f * series;
}

// Returns Chauvenet's criterion; see `robust::sigma_clip`.
static double chauvenet(double count)
{
    return sqrt(2.0 * logarithm((count > 3.0 ? count : 3.0) / sqrt(6.283185307179586)));
}

// Returns true if an entry stays: in round 0 if its pixel is valid, in later rounds if it is no outlier.
static bool passes(const Bin *bin, uint entry, uint round, double mean, double limit)
{
    if (round == 0)
        return !is_invalid(bin->frame[bin->pixels[entry]], bin->ranges, bin->range_count);
    double norm = norm_of(bin, entry);
    return fabs(signal_of(bin, entry) - mean * norm) <= limit * fabs(norm);
}

// `full_*`: the weights of each bin if all its pixels are valid. `sums`: for each frame the signals of all bins, then variances,
// norms, squared norms, counts. All lanes of a work-group must reach every barrier, so lanes without work pass over no entries
// instead of returning.
__kernel __attribute__((reqd_work_group_size(LANES_PER_BIN * BINS_PER_GROUP, 1, 1)))
void choose(__global uchar *intermediate, uint frames, uint pixels_of_frame, uint bins, uint entries,
            __global const uint *starts, __global const uint *pixels,
            uint has_weights, __global const float *weights, __global const double *norms,
            uint has_darks, __global const double *darks, uint pixel_variance, uint spread,
            __global const double *variances,
            __global const double *full_norm, __global const double *full_norm_sq, __global const double *full_count,
            __global const PIXEL *ranges, uint range_count, double threshold, uint max_iter,
            __global const uint *status, __global double *sums)
{
    // Five partial sums for each lane; for each bin, masks of the lanes whose entries stay; whether entries of any bin are dropped.
    // Variables that a lane writes under a condition must be volatile: compilers that vectorize over lanes would let all of them
    // write.
    __local double partial[5 * LANES_PER_BIN * BINS_PER_GROUP];
    __local volatile uint masks[3 * BINS_PER_GROUP];
    __local volatile uint votes[1];
    __local double *of_lane = partial + get_local_id(0);
    __local double *of_bin = partial + LANES_PER_BIN * BIN_IN_GROUP;
    __local volatile uint *mask = masks + 3 * BIN_IN_GROUP;

    uint bin_index = get_group_id(0);
    uint frame = get_group_id(1) * BINS_PER_GROUP + BIN_IN_GROUP;
    // A damaged frame has no pixels to reduce.
    bool has_pixels = frame < frames && status[frames + frame] == 0xffffffffu;
    bool is_spread = spread != SPREAD_UNUSED;
    uint first = starts[bin_index];
    uint longest = starts[bin_index + 1] - first;

    __global uchar *frame_memory = intermediate + (has_pixels ? frame : 0) * bytes_per_frame(pixels_of_frame, entries);
    const Bin bin = {
        (__global const PIXEL *)frame_memory,
        pixels + first,
        weights + (has_weights ? first : 0),
        norms + first,
        darks + (has_darks ? first : 0),
        variances + (pixel_variance == VARIANCE_GIVEN ? first : 0),
        has_weights != 0,
        has_darks != 0,
        pixel_variance,
        ranges,
        range_count,
    };
    // Number of the remaining entries, and their indices (`left`) once some have been dropped.
    uint count = has_pixels ? longest : 0;
    __global uint *left = (__global uint *)(frame_memory + pixel_bytes(pixels_of_frame)) + first;
    bool is_listed = false;

    double signal = 0.0, variance = 0.0, norm = 0.0, norm_sq = 0.0, weight = 0.0;
    // The limits for outliers, from the round before.
    double mean = 0.0, limit = 0.0;
    bool all_valid = true, is_active = true, more = true;
    // Round 0 drops invalid pixels; up to `max_iter` more rounds drop outliers.
    for (uint round = 0; more; round++) {
        double failing = 0.0;
        for (uint i = LANE_IN_BIN; is_active && i < count; i += LANES_PER_BIN)
            failing += passes(&bin, is_listed ? left[i] : i, round, mean, limit) ? 0.0 : 1.0;
        *of_lane = failing;
        mask[0] = 0;
        mask[1] = 0;
        mask[2] = 0;
        votes[0] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        bool drops = tree(of_bin) != 0.0;
        if (drops)
            votes[0] = 1;
        barrier(CLK_LOCAL_MEM_FENCE);
        bool any_drops = votes[0] != 0;
        is_active = is_active && (drops || round == 0);
        all_valid = all_valid && !drops;

        // Compact the indices of the entries that stay, sixteen at a time: a mask tells each lane which entries of its bin
        // stay. Three masks are used in turn: one is written while another one is read and the third is cleared.
        uint kept = 0, turn = 0;
        uint end = any_drops ? longest : 0;
        for (uint from = 0; from < end; from += LANES_PER_BIN) {
            uint i = from + LANE_IN_BIN, entry = 0;
            bool stays = drops && i < count;
            if (stays) {
                entry = is_listed ? left[i] : i;
                stays = passes(&bin, entry, round, mean, limit);
            }
            if (stays)
                atomic_or(&mask[turn], 1u << LANE_IN_BIN);
            barrier(CLK_LOCAL_MEM_FENCE);
            uint all = mask[turn];
            if (LANE_IN_BIN == 0)
                mask[turn == 0 ? 2 : turn - 1] = 0;
            // All lanes have read the indices up to here, so they can be overwritten.
            if (stays)
                left[kept + popcount(all & ((1u << LANE_IN_BIN) - 1))] = entry;
            kept += popcount(all);
            turn = turn == 2 ? 0 : turn + 1;
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        count = drops ? kept : count;
        is_listed = is_listed || drops;

        double s = 0.0, v = 0.0, n = 0.0, n_sq = 0.0, w = 0.0;
        for (uint i = LANE_IN_BIN; is_active && i < count; i += LANES_PER_BIN) {
            uint entry = is_listed ? left[i] : i;
            double norm_of_entry = norm_of(&bin, entry);
            s += signal_of(&bin, entry);
            v += variance_of(&bin, entry);
            n += norm_of_entry;
            n_sq += norm_of_entry * norm_of_entry;
            w += has_weights ? (double)bin.weights[entry] : 0.0;
        }
        of_lane[0] = s;
        of_lane[LANES_PER_BIN * BINS_PER_GROUP] = v;
        of_lane[2 * LANES_PER_BIN * BINS_PER_GROUP] = n;
        of_lane[3 * LANES_PER_BIN * BINS_PER_GROUP] = n_sq;
        of_lane[4 * LANES_PER_BIN * BINS_PER_GROUP] = w;
        barrier(CLK_LOCAL_MEM_FENCE);
        s = tree(of_bin);
        v = tree(of_bin + LANES_PER_BIN * BINS_PER_GROUP);
        n = all_valid ? full_norm[bin_index] : tree(of_bin + 2 * LANES_PER_BIN * BINS_PER_GROUP);
        n_sq = all_valid ? full_norm_sq[bin_index] : tree(of_bin + 3 * LANES_PER_BIN * BINS_PER_GROUP);
        w = all_valid ? full_count[bin_index] : has_weights ? tree(of_bin + 4 * LANES_PER_BIN * BINS_PER_GROUP) : (double)count;
        barrier(CLK_LOCAL_MEM_FENCE);
        double squares = 0.0;
        for (uint i = LANE_IN_BIN; is_active && is_spread && i < count; i += LANES_PER_BIN) {
            uint entry = is_listed ? left[i] : i;
            double distance = signal_of(&bin, entry) - s / n * norm_of(&bin, entry);
            squares += distance * distance;
        }
        *of_lane = squares;
        barrier(CLK_LOCAL_MEM_FENCE);
        squares = tree(of_bin);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (is_active) {
            signal = s;
            variance = spread == SPREAD_CLIPPING_AND_RESULT ? squares : v;
            norm = n;
            norm_sq = n_sq;
            weight = w;
            mean = s / n;
            double criterion = chauvenet(w);
            limit = (threshold > criterion ? threshold : criterion) * sqrt((is_spread ? squares : v) / n_sq);
            limit = limit + ROUNDING * fabs(mean);
        }
        more = round < max_iter && (any_drops || round == 0);
    }
    if (has_pixels && LANE_IN_BIN == 0) {
        bool is_empty = count == 0;
        __global double *of_frame = sums + (ulong)frame * 5 * bins + bin_index;
        of_frame[0] = is_empty ? 0.0 : signal;
        of_frame[(ulong)bins] = is_empty ? 0.0 : variance;
        of_frame[2 * (ulong)bins] = is_empty ? 0.0 : norm;
        of_frame[3 * (ulong)bins] = is_empty ? 0.0 : norm_sq;
        of_frame[4 * (ulong)bins] = is_empty ? 0.0 : weight;
    }
}
