// Runs the LZ4 decoder of the OpenCL kernels as a C program under the address sanitizer.
//
// The work-group has one lane. stdin: for each block its length and its decoded length (32 bits each, native), then its bytes.
// stdout: for each block a byte that is 1 if the block is valid, then the decoded bytes. Memory is exactly as long as needed, so
// that an access to a byte outside of it ends the program.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>

#define uchar uint8_t
#define uint uint32_t
#define __global
#define __local
#define GROUP 1
#define CLK_LOCAL_MEM_FENCE 0
#define get_local_id(dimension) 0
#define barrier(fence) ((void)0)

static uint min(uint a, uint b) { return a < b ? a : b; }

#include "../src/opencl/lz4.cl"

static void get(void *to, size_t length)
{
    if (fread(to, 1, length, stdin) != length)
        exit(2);
}

int main(void)
{
    uint32_t lengths[2];
    while (fread(lengths, sizeof lengths, 1, stdin) == 1) {
        uchar *in = malloc(lengths[0]), *out = calloc(1, lengths[1]);
        if (!in || !out)
            return 3;
        get(in, lengths[0]);
        uchar sound = expand(in, lengths[0], out, lengths[1]);
        if (fwrite(&sound, 1, 1, stdout) != 1 || fwrite(out, 1, lengths[1], stdout) != lengths[1])
            return 4;
        free(in);
        free(out);
    }
    return 0;
}
