// Raw LZ4 blocks, by all lanes of a work-group.
//
// Lanes parse alike, each by itself and all in step, and share the copying. A stream is not trusted: nothing is read outside
// of `in[0..in_len]`, nothing written outside of `out[0..out_len]`, and a stream that would is not sound.

#define LANE ((uint)get_local_id(0))

// Reads what a length of 15 goes on with. Whether the stream has it, and it is no longer than what is left.
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

// Copies what lies `distance` back; a distance below the length makes a period.
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

// Decodes a block that must fill `out[0..out_len]`; whether it is sound and does. All lanes call it and get the same.
// A barrier must follow before `out` is read.
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
        // What a match copies has been written by other lanes; what the one before it wrote, too.
        barrier(CLK_LOCAL_MEM_FENCE);
        if (copied)
            copy_back(out, done, distance, copied);
        done += copied;
    }
    return sound && done == out_len;
}
