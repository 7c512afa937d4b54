// A slow file system: loaded by LD_PRELOAD, delays opens and reads of the files below SLOW_DIR, as a parallel file system or NFS would. What a
// process has read of a file it has from then on: a read is delayed if it reaches a block of 128 KiB for the first time.
//
//   SLOW_MS   milliseconds that each open and each such read takes longer; any number of them at a time
//   SLOW_GBS  gigabytes a second that all reads of a process together get
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FILES = 1 << 16, BLOCK_BITS = 17, KNOWN_BLOCKS = 1 << 24 };

static const char *top;
static size_t top_length;
static double latency, seconds_a_byte;
// The inode of each open file that is slow; 0 for others.
static atomic_ulong slow_inode[MAX_FILES];
// Blocks that were read, by a hash of inode and block.
static atomic_uchar is_known[KNOWN_BLOCKS];
// When the storage has sent all that was asked for so far, in nanoseconds.
static atomic_llong sent;

__attribute__((constructor)) static void start(void) {
    const char *ms = getenv("SLOW_MS"), *gbs = getenv("SLOW_GBS");
    top = getenv("SLOW_DIR");
    top_length = top ? strlen(top) : 0;
    latency = ms ? atof(ms) / 1e3 : 0;
    seconds_a_byte = gbs && atof(gbs) > 0 ? 1e-9 / atof(gbs) : 0;
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void wait_until(long long end) {
    struct timespec time = { end / 1000000000, end % 1000000000 };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL)) {}
}

static void delay(ssize_t bytes) {
    long long begin = now(), end = begin, was = atomic_load(&sent);
    if (bytes > 0 && seconds_a_byte > 0) {
        do {
            end = (was > begin ? was : begin) + (long long)(bytes * seconds_a_byte * 1e9);
        } while (!atomic_compare_exchange_weak(&sent, &was, end));
    }
    wait_until(end + (long long)(latency * 1e9));
}

static int note(int fd) {
    char link[64], path[PATH_MAX];
    struct stat about;
    if (fd < 0 || fd >= MAX_FILES || !top) return fd;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int is_below = length > (ssize_t)top_length && !strncmp(path, top, top_length) && path[top_length] == '/';
    atomic_store(&slow_inode[fd], is_below && !fstat(fd, &about) ? about.st_ino : 0);
    if (is_below) delay(0);
    return fd;
}

// After a read of so many bytes from an offset on.
static ssize_t after(int fd, ssize_t bytes, off64_t at) {
    unsigned long inode = fd >= 0 && fd < MAX_FILES ? atomic_load(&slow_inode[fd]) : 0;
    if (!inode || bytes <= 0) return bytes;
    int is_new = 0;
    for (off64_t block = at >> BLOCK_BITS; block <= (at + bytes - 1) >> BLOCK_BITS; block++) {
        unsigned long hash = (inode * 0x9e3779b97f4a7c15UL + (unsigned long)block) * 0xbf58476d1ce4e5b9UL;
        is_new |= !atomic_exchange(&is_known[hash >> 40], 1);
    }
    if (is_new) delay(bytes);
    return bytes;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }

int open(const char *path, int flags, ...) { MODE(flags) return note(REAL(open)(path, flags, mode)); }
int open64(const char *path, int flags, ...) { MODE(flags) return note(REAL(open64)(path, flags, mode)); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return note(REAL(openat)(at, path, flags, mode)); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return note(REAL(openat64)(at, path, flags, mode)); }
int close(int fd) {
    if (fd >= 0 && fd < MAX_FILES) atomic_store(&slow_inode[fd], 0);
    return REAL(close)(fd);
}
ssize_t read(int fd, void *to, size_t count) {
    ssize_t bytes = REAL(read)(fd, to, count);
    return bytes <= 0 ? bytes : after(fd, bytes, lseek64(fd, 0, SEEK_CUR) - bytes);
}
ssize_t pread(int fd, void *to, size_t count, off_t at) { return after(fd, REAL(pread)(fd, to, count, at), at); }
ssize_t pread64(int fd, void *to, size_t count, off64_t at) { return after(fd, REAL(pread64)(fd, to, count, at), at); }
ssize_t preadv(int fd, const struct iovec *to, int count, off_t at) { return after(fd, REAL(preadv)(fd, to, count, at), at); }
ssize_t preadv64(int fd, const struct iovec *to, int count, off64_t at) { return after(fd, REAL(preadv64)(fd, to, count, at), at); }
