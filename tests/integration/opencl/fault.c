// An OpenCL library with a fault, as FAULT names it; all else is the real one's, which this one is linked with.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *fault)
{
    const char *asked = getenv("FAULT");
    return asked && strcmp(asked, fault) == 0;
}

static int calls(void)
{
    static int count;
    return __sync_add_and_fetch(&count, 1);
}

typedef int (*read_fn)(void *, void *, unsigned, size_t, size_t, void *, unsigned, const void *, void *);

int clEnqueueReadBuffer(void *queue, void *buffer, unsigned blocking, size_t offset, size_t size, void *data,
                        unsigned waits, const void *wait, void *event)
{
    read_fn real = (read_fn)dlsym(RTLD_NEXT, "clEnqueueReadBuffer");
    const char *code = getenv("CODE");
    if (is("lost") && calls() > 3)
        return code ? atoi(code) : -36;
    int status = real(queue, buffer, is("wrong") || blocking, offset, size, data, waits, wait, event);
    // One bit of what looks like sums.
    if (is("wrong") && size > 256)
        ((unsigned char *)data)[size / 2 / 8 * 8 + 6] ^= 0x10;
    return status;
}

typedef int (*platforms_fn)(unsigned, void *, unsigned *);

int clGetPlatformIDs(unsigned most, void *platforms, unsigned *count)
{
    if (is("driver"))
        return -6;
    if (is("crash"))
        abort();
    if (is("hang"))
        for (;;)
            pause();
    platforms_fn real = (platforms_fn)dlsym(RTLD_NEXT, "clGetPlatformIDs");
    if (!is("platform"))
        return real(most, platforms, count);
    // One more, by another name of the first.
    unsigned there = 0;
    int status = real(most, platforms, &there);
    if (count)
        *count = there + 1;
    if (platforms && most > there)
        ((void **)platforms)[there] = ((void **)platforms)[0];
    return status;
}

typedef int (*devices_fn)(void *, unsigned long, unsigned, void *, unsigned *);

// With FAULT=platform, the devices of the second platform that is asked can't be listed.
int clGetDeviceIDs(void *platform, unsigned long type, unsigned most, void *devices, unsigned *count)
{
    if (is("platform") && calls() > 1)
        return -6;
    return ((devices_fn)dlsym(RTLD_NEXT, "clGetDeviceIDs"))(platform, type, most, devices, count);
}

typedef void *(*buffer_fn)(void *, unsigned long, size_t, void *, int *);

void *clCreateBuffer(void *context, unsigned long flags, size_t size, void *data, int *code)
{
    buffer_fn real = (buffer_fn)dlsym(RTLD_NEXT, "clCreateBuffer");
    const char *most = getenv("MOST");
    if (is("memory") && size > (most ? strtoul(most, 0, 10) : 0)) {
        if (code)
            *code = -4;
        return 0;
    }
    return real(context, flags, size, data, code);
}

typedef int (*info_fn)(void *, unsigned, size_t, void *, size_t *);
typedef int (*write_fn)(void *, void *, unsigned, size_t, size_t, const void *, unsigned, const void *, void *);

// Memory that is found to be too little when it is first used, as by drivers that put off its allocation.
int clEnqueueWriteBuffer(void *queue, void *buffer, unsigned blocking, size_t offset, size_t size, const void *data,
                         unsigned waits, const void *wait, void *event)
{
    write_fn real = (write_fn)dlsym(RTLD_NEXT, "clEnqueueWriteBuffer");
    info_fn info = (info_fn)dlsym(RTLD_NEXT, "clGetMemObjectInfo");
    const unsigned CL_MEM_SIZE = 0x1102;
    const char *most = getenv("MOST");
    size_t all = 0;
    if (is("late") && info(buffer, CL_MEM_SIZE, sizeof all, &all, 0) == 0 && all > (most ? strtoul(most, 0, 10) : 0))
        return -4;
    return real(queue, buffer, blocking, offset, size, data, waits, wait, event);
}

// Commands that are accepted, and found later to have failed.
int clGetEventInfo(void *event, unsigned name, size_t size, void *value, size_t *written)
{
    info_fn real = (info_fn)dlsym(RTLD_NEXT, "clGetEventInfo");
    const unsigned CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11d3;
    const char *code = getenv("CODE");
    int status = real(event, name, size, value, written);
    if (is("ended") && name == CL_EVENT_COMMAND_EXECUTION_STATUS && *(int *)value == 0 && calls() > 6)
        *(int *)value = code ? atoi(code) : -14;
    return status;
}
