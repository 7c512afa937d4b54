// Decompresses raw LZ4 blocks with all lanes of a work-group.
//
// All lanes parse the stream in step, each for itself, and share the copying. The stream is not trusted: nothing is read outside
// of `in[0..in_len]` and nothing written outside of `out[0..out_len]`; a stream that asks for it is damaged.

#define LANE ((uint)get_local_id(0))

// Reads the bytes that extend a length of 15. Returns false if the stream ends before, or if the length exceeds `most`.
static bool read_length(__global const uchar *in, uint in_len, uint *at, uint *length, uint most)
{
    uint more = *length == 15 ? 255 : 0;
    while (more == 255 && *at < in_len && *length <= most) {
        more = in[(*at)++];
        *length += more;
    }
    return *length <= most && (more != 255);
}

// Fills `out[from..from + length]`, whole words at a time.
static void fill(__local uchar *out, uint from, uint length, uchar value)
{
    uint head = min(length, (4 - (from & 3)) & 3);
    uint words = (length - head) / 4;
    uint tail = head + 4 * words;
    __local uint *whole = (__local uint *)(out + from + head);
    for (uint i = LANE; i < words; i += GROUP)
        whole[i] = value * 0x01010101u;
    for (uint i = LANE; i < head; i += GROUP)
        out[from + i] = value;
    for (uint i = tail + LANE; i < length; i += GROUP)
        out[from + i] = value;
}

// Copies `length` bytes from `distance` bytes before. A distance below the length repeats these bytes.
static void copy_back(__local uchar *out, uint to, uint distance, uint length)
{
    uint from = to - distance;
    if (distance == 1) {
        fill(out, to, length, out[from]);
    } else if (distance >= length) {
        for (uint i = LANE; i < length; i += GROUP)
            out[to + i] = out[from + i];
    } else {
        for (uint i = LANE; i < length; i += GROUP)
            out[to + i] = out[from + i % distance];
    }
}

// Decompresses a block to `out[0..out_len]`. Returns false if the block is damaged or has another length. All lanes of the
// work-group must call it, and get the same result. A barrier must follow before `out` is read.
static bool expand(__global const uchar *in, uint in_len, __local uchar *out, uint out_len)
{
    uint at = 0, done = 0;
    bool sound = true, more = true;
    while (more) {
        uint token = 0, literals = 0, copied = 0, distance = 0, first = 0;
        sound = at < in_len;
        if (sound) {
            token = in[at++];
            literals = token >> 4;
            sound = read_length(in, in_len, &at, &literals, out_len - done) && literals <= in_len - at;
        }
        if (sound) {
            first = at;
            at += literals;
            more = at < in_len;
            // The last sequence ends with its literals.
            if (more) {
                sound = in_len - at >= 2;
                if (sound) {
                    distance = in[at] | (uint)in[at + 1] << 8;
                    at += 2;
                    copied = token & 15;
                    uint room = out_len - done - literals;
                    sound = distance != 0 && distance <= done + literals && room >= 4 &&
                            read_length(in, in_len, &at, &copied, room - 4);
                    copied += 4;
                }
            }
        }
        if (!sound) {
            literals = 0;
            copied = 0;
            more = false;
        }
        for (uint i = LANE; i < literals; i += GROUP)
            out[done + i] = in[first + i];
        done += literals;
        // A match copies bytes that other lanes have written, in this sequence or the one before.
        barrier(CLK_LOCAL_MEM_FENCE);
        if (copied)
            copy_back(out, done, distance, copied);
        done += copied;
    }
    return sound && done == out_len;
}
