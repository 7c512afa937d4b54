// Statistics that need all pixels of a bin, with the matrix in CSR form; see `kernels::robust`. There are two kernels:
//
// `decode`: a work-group decodes a tile of one frame to local memory, and copies its pixels to the frame's memory.
// `choose`: sixteen lanes pass over the pixels of one bin of one frame, as often as the statistic needs. They sum in the order of
// `robust::partial_sums`, subtract as `robust::clipped_sums` and round each step as the CPU does, so the sums are the CPU's bytes.
//
// Each frame has a part of the `intermediate` buffer. It holds the pixels, then for each entry whether it has been removed.

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

// Relative distance from the mean that counts as zero, as `MEAN_TOLERANCE` of `robust::sigma_clip`.
#define ROUNDING 1e-12

// Sums are added up again if they are less than these parts of what was subtracted from them; see `robust::clipped_sums`.
#define LEAST_LEFT (1.0 / 64.0)
#define LEAST_VARIANCE_LEFT (1.0 / 4096.0)

// The terms of `robust::clipped_sums`.
#define SIGNAL 0
#define VARIANCE 1
#define NORM 2
#define NORM_SQ 3
#define COUNT 4
#define SQUARE 5
#define PRODUCT 6
#define MAGNITUDE 7
#define TERMS 8

// What a pass over the entries of a bin is for: the sums over valid pixels, and the weights of the others; to add up again sums of
// which little is left; to add up the spread around the mean; to remove outliers; nothing.
#define VALID 0
#define LITTLE 1
#define SPREAD 2
#define OUTLIERS 3
#define DONE 4

// Bytes of a frame's pixels, and of its part of `intermediate`, both multiples of eight.
static ulong pixel_bytes(uint pixels) { return ((ulong)pixels * SIZE + 7) / 8 * 8; }
static ulong bytes_per_frame(uint pixels, uint entries) { return pixel_bytes(pixels) + ((ulong)entries + 7) / 8 * 8; }

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
    // The number of entries. For each, whether it has been removed: a lane reads and writes those of its own alone.
    uint entries;
    __global uchar *removed;
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

// Adds the terms of an entry: those of its weights, and those of its pixel. There are no conditions but in values: compilers that
// vectorize over lanes would let all of them write.
static void add_terms(const Bin *bin, uint entry, bool adds_weights, bool adds_pixel, double center, double *sums)
{
    double norm = norm_of(bin, entry), signal = signal_of(bin, entry);
    double distance = signal - center * norm;
    double weight = bin->has_weights ? (double)bin->weights[entry] : 1.0;
    sums[NORM] += adds_weights ? norm : 0.0;
    sums[NORM_SQ] += adds_weights ? norm * norm : 0.0;
    sums[COUNT] += adds_weights ? weight : 0.0;
    sums[SIGNAL] += adds_pixel ? signal : 0.0;
    sums[VARIANCE] += adds_pixel ? variance_of(bin, entry) : 0.0;
    sums[SQUARE] += adds_pixel ? distance * distance : 0.0;
    sums[PRODUCT] += adds_pixel ? distance * norm : 0.0;
    sums[MAGNITUDE] += adds_pixel ? fabs(signal) : 0.0;
}

// Returns the sum of a bin's partial sums.
static double tree(__local const double *p)
{
    return (((p[0] + p[8]) + (p[4] + p[12])) + ((p[2] + p[10]) + (p[6] + p[14]))) +
           (((p[1] + p[9]) + (p[5] + p[13])) + ((p[3] + p[11]) + (p[7] + p[15])));
}

// Returns the squared deviations from the mean, from sums around a center.
static double spread_around_mean(const double *sums, double center)
{
    double shift = sums[SIGNAL] / sums[NORM] - center;
    return sums[SQUARE] - 2.0 * shift * sums[PRODUCT] + shift * shift * sums[NORM_SQ];
}

// Returns whether a number is below the least that may be left; true if either is no number.
static bool is_little(double left, double least) { return !(left >= least); }

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
    // For each lane the partial sums of the terms, and the number of entries that it removes; whether any bin needs another pass,
    // in turns. Variables that a lane writes under a condition must be volatile: compilers that vectorize over lanes would let all
    // of them write.
    __local double partial[(TERMS + 1) * LANES_PER_BIN * BINS_PER_GROUP];
    __local volatile uint votes[2];
    __local double *of_lane = partial + get_local_id(0);
    __local double *of_bin = partial + LANES_PER_BIN * BIN_IN_GROUP;

    uint bin_index = get_group_id(0);
    uint frame = get_group_id(1) * BINS_PER_GROUP + BIN_IN_GROUP;
    // A damaged frame has no pixels to reduce.
    bool has_pixels = frame < frames && status[frames + frame] == 0xffffffffu;
    bool is_spread = spread != SPREAD_UNUSED;
    uint first = starts[bin_index];

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
        has_pixels ? starts[bin_index + 1] - first : 0,
        frame_memory + pixel_bytes(pixels_of_frame) + first,
    };

    // The sums over the pixels that remain, what was subtracted from them since they were added up last, and the center of the
    // spread.
    double sums_left[TERMS], subtracted[TERMS], subtracted_pixels = 0.0, squares_added_up = 0.0, center = 0.0;
    double pixels_left = bin.entries;
    bool little_signal = false, little_variance = false, little_weights = false;
    // Every pass has the same barriers, whatever it is for in the bins of the group: compilers for CPUs copy what follows a
    // barrier under a condition.
    uint phase = bin.entries ? VALID : DONE, round = 0, turn = 0;
    for (bool more = true; more; turn = 1 - turn) {
        double mean = 0.0, limit = 0.0;
        if (phase == OUTLIERS || phase == SPREAD)
            mean = sums_left[SIGNAL] / sums_left[NORM];
        if (phase == OUTLIERS) {
            double criterion = chauvenet(sums_left[COUNT]);
            double squares = is_spread ? spread_around_mean(sums_left, center) : sums_left[VARIANCE];
            limit = (threshold > criterion ? threshold : criterion) * sqrt(squares / sums_left[NORM_SQ]);
            limit = limit + ROUNDING * fabs(mean);
        }
        double terms[TERMS] = { 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 }, removed = 0.0;
        for (uint entry = LANE_IN_BIN; phase != DONE && entry < bin.entries; entry += LANES_PER_BIN) {
            bool is_first = phase == VALID;
            bool is_bad = is_first && is_invalid(bin.frame[bin.pixels[entry]], ranges, range_count);
            bool was_removed = !is_first && bin.removed[entry] != 0;
            double norm = norm_of(&bin, entry);
            bool is_outlier = phase == OUTLIERS && !was_removed &&
                              fabs(signal_of(&bin, entry) - mean * norm) > limit * fabs(norm);
            bin.removed[entry] = is_bad || was_removed || is_outlier ? 1 : 0;
            removed += is_bad || is_outlier ? 1.0 : 0.0;
            bool adds = phase == OUTLIERS ? is_outlier : !was_removed;
            add_terms(&bin, entry, is_first ? is_bad : adds, is_first ? !is_bad : adds, phase == SPREAD ? mean : center, terms);
        }
        for (uint term = 0; term < TERMS; term++)
            of_lane[term * LANES_PER_BIN * BINS_PER_GROUP] = terms[term];
        of_lane[TERMS * LANES_PER_BIN * BINS_PER_GROUP] = removed;
        votes[turn] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint term = 0; term < TERMS; term++)
            terms[term] = tree(of_bin + term * LANES_PER_BIN * BINS_PER_GROUP);
        removed = tree(of_bin + TERMS * LANES_PER_BIN * BINS_PER_GROUP);

        if (phase == VALID) {
            sums_left[SIGNAL] = terms[SIGNAL];
            sums_left[VARIANCE] = terms[VARIANCE];
            sums_left[NORM] = full_norm[bin_index];
            sums_left[NORM_SQ] = full_norm_sq[bin_index];
            sums_left[COUNT] = full_count[bin_index];
            sums_left[SQUARE] = terms[SQUARE];
            sums_left[PRODUCT] = terms[PRODUCT];
            terms[SIGNAL] = 0.0;
            terms[VARIANCE] = 0.0;
            terms[SQUARE] = 0.0;
            terms[PRODUCT] = 0.0;
            terms[MAGNITUDE] = 0.0;
            for (uint term = 0; term < TERMS; term++)
                subtracted[term] = 0.0;
            squares_added_up = sums_left[SQUARE];
        } else if (phase == LITTLE) {
            if (little_signal) {
                sums_left[SIGNAL] = terms[SIGNAL];
                subtracted[MAGNITUDE] = 0.0;
            }
            if (little_variance) {
                sums_left[VARIANCE] = terms[VARIANCE];
                subtracted[VARIANCE] = 0.0;
            }
            if (little_weights) {
                for (uint term = NORM; term <= COUNT; term++) {
                    sums_left[term] = terms[term];
                    subtracted[term] = 0.0;
                }
                subtracted_pixels = 0.0;
            }
        } else if (phase == SPREAD) {
            center = mean;
            sums_left[SQUARE] = terms[SQUARE];
            sums_left[PRODUCT] = terms[PRODUCT];
            squares_added_up = terms[SQUARE];
        } else if (phase == OUTLIERS) {
            round += 1;
            if (removed == 0.0)
                phase = DONE;
        }
        pixels_left -= removed;
        bool subtracts = removed > 0.0 && pixels_left > 0.0;
        if (subtracts) {
            for (uint term = 0; term < TERMS; term++) {
                sums_left[term] -= terms[term];
                subtracted[term] += term == VARIANCE ? fabs(terms[term]) : terms[term];
            }
            subtracted_pixels += removed;
            little_signal = is_little(fabs(sums_left[SIGNAL]), LEAST_LEFT * subtracted[MAGNITUDE]);
            little_variance = is_little(fabs(sums_left[VARIANCE]), LEAST_VARIANCE_LEFT * subtracted[VARIANCE]);
            double norms = sqrt(subtracted_pixels * subtracted[NORM_SQ]);
            little_weights = is_little(fabs(sums_left[NORM]), LEAST_LEFT * norms) ||
                             is_little(sums_left[NORM_SQ], LEAST_LEFT * subtracted[NORM_SQ]) ||
                             is_little(sums_left[COUNT], LEAST_LEFT * subtracted[COUNT]);
        }
        if (phase == DONE || pixels_left == 0.0)
            phase = DONE;
        else if (subtracts && (little_signal || little_variance || little_weights))
            phase = LITTLE;
        else if (is_spread && phase != SPREAD &&
                 ((phase == LITTLE && little_weights && round > 0) ||
                  is_little(spread_around_mean(sums_left, center), LEAST_VARIANCE_LEFT * squares_added_up)))
            phase = SPREAD;
        else
            phase = round < max_iter ? OUTLIERS : DONE;
        if (phase != DONE)
            votes[turn] = 1;
        barrier(CLK_LOCAL_MEM_FENCE);
        more = votes[turn] != 0;
    }
    if (has_pixels && LANE_IN_BIN == 0) {
        bool is_empty = pixels_left == 0.0;
        bool is_spread_in_result = spread == SPREAD_CLIPPING_AND_RESULT;
        __global double *of_frame = sums + (ulong)frame * 5 * bins + bin_index;
        of_frame[0] = is_empty ? 0.0 : sums_left[SIGNAL];
        of_frame[(ulong)bins] =
            is_empty ? 0.0 : is_spread_in_result ? spread_around_mean(sums_left, center) : sums_left[VARIANCE];
        of_frame[2 * (ulong)bins] = is_empty ? 0.0 : sums_left[NORM];
        of_frame[3 * (ulong)bins] = is_empty ? 0.0 : sums_left[NORM_SQ];
        of_frame[4 * (ulong)bins] = is_empty ? 0.0 : sums_left[COUNT];
    }
}
