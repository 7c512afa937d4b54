// Sums of products, in doubles or, on devices without doubles, in pairs of floats.
//
// A pair is an unevaluated sum of two floats with about 48 bits, computed with the error-free transformations of Dekker (1971)
// and Knuth (The Art of Computer Programming 2, 4.2.2). No operations may be contracted to fused multiply-adds.

#pragma OPENCL FP_CONTRACT OFF

#if DOUBLES
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double REAL;

static REAL of_pixel(PIXEL x) { return (REAL)x; }
static REAL of_weight(float w) { return (REAL)w; }
static REAL add(REAL a, REAL b) { return a + b; }
static REAL multiply(REAL a, REAL b) { return a * b; }
static REAL zero(void) { return 0.0; }
#else
typedef float2 REAL;

static REAL of_weight(float w) { return (float2)(w, 0.0f); }

static REAL normalized(float high, float low)
{
    float sum = high + low;
    return (float2)(sum, low - (sum - high));
}

static REAL add(REAL a, REAL b)
{
    float sum = a.x + b.x;
    float shadow = sum - a.x;
    float error = (a.x - (sum - shadow)) + (b.x - shadow);
    return normalized(sum, error + a.y + b.y);
}

static REAL multiply(REAL a, REAL b)
{
    float high = a.x * b.x;
    float error = fma(a.x, b.x, -high);
    return normalized(high, error + (a.x * b.y + a.y * b.x));
}

static REAL of_pixel(PIXEL x)
{
#if REAL_PIXEL || SIZE < 4
    return (float2)((float)x, 0.0f);
#else
    // The integer is split in parts of 16 bits, because the float nearest to the largest integers does not fit in their type.
    PIXEL low = x & 0xffff;
    PIXEL middle = (x >> 16) & 0xffff;
    REAL sum = add((float2)((float)low, 0.0f), (float2)((float)middle * 65536.0f, 0.0f));
#if SIZE == 4
    // The parts give the unsigned value; for a negative integer, the weight of the sign bit is subtracted.
    return x < 0 ? add(sum, (float2)(-4294967296.0f, 0.0f)) : sum;
#else
    PIXEL high = (x >> 32) & 0xffff;
    PIXEL top = x >> 48;
    sum = add(sum, (float2)((float)high * 4294967296.0f, 0.0f));
    return add(sum, (float2)((float)top * 281474976710656.0f, 0.0f));
#endif
#endif
}

static REAL zero(void) { return (float2)(0.0f, 0.0f); }
#endif
