// Makes one call of a process to the system fail, or counts or traces them: loaded by LD_PRELOAD.
//
// Of calls on files, only those on files below FAULTS_DIR count, so those of the loader and of libc itself don't. Calls that
// are on no file (pipe, poll, pthread_create and others) count wherever FAULTS_DIR is set.
//
//   FAULTS_AT     "CALL K FAULT" or "CALL K-L FAULT": the K-th (to the L-th) CALL fails. FAULT is an errno's name,
//                 `short` (half of the bytes), or `kill` (SIGKILL before the call). CALL `space` is all calls together
//                 that need room on a disk.
//   FAULTS_ODDS   "SEED PERMILLE FAULT[,FAULT ...]": each call fails with these odds, by a generator of its own.
//   FAULTS_LOG    a file, outside of FAULTS_DIR, that gets a line "CALL K FAULT PATH" for each call that was made to
//                 fail; with FAULTS_COUNT set, a line "CALL K - PATH" for every other call as well.
//   FAULTS_HDF5   "LOW-HIGH": where the HDF5 library's code lies in the program, in hexadecimal. Its allocations then count
//                 as calls of `malloc`; all others are left alone, since Rust ends a program that has no memory.
//   FAULTS_TRACE  a file that gets every call that changes files, with its data (see trace.rs).
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum call { OPEN, READ, PREAD, PREADV, WRITE, PWRITE, FSYNC, RENAME, UNLINK, CLOSE, STAT, MKDIR, FLOCK, MMAP, FTRUNCATE, READDIR,
            LSEEK, UTIMENS, CHMOD, STATFS, LINK, DUP, INOTIFY_ADD_WATCH,
            // On no file.
            INOTIFY_INIT, INOTIFY_READ, PIPE, POLL, PTHREAD_CREATE, POSIX_SPAWN, FORK, EXEC, GETCWD, MALLOC, CALLS };
static const char *const NAMES[CALLS] = { "open", "read", "pread", "preadv", "write", "pwrite", "fsync", "rename", "unlink", "close",
    "stat", "mkdir", "flock", "mmap", "ftruncate", "readdir", "lseek", "utimens", "chmod", "statfs", "link", "dup",
    "inotify_add_watch", "inotify_init", "inotify_read", "pipe", "poll", "pthread_create", "posix_spawn", "fork", "exec", "getcwd", "malloc" };

enum { NONE = 0, SHORT = -1, KILL = -2 };
static const struct { const char *name; int fault; } FAULTS[] = {
    { "short", SHORT }, { "kill", KILL }, { "EIO", EIO }, { "ENOSPC", ENOSPC }, { "ESTALE", ESTALE }, { "EINTR", EINTR },
    { "EMFILE", EMFILE }, { "ENOLCK", ENOLCK }, { "ENOMEM", ENOMEM }, { "EACCES", EACCES }, { "EDQUOT", EDQUOT }, { "EROFS", EROFS },
    { "EAGAIN", EAGAIN }, { "ENOENT", ENOENT }, { "EPERM", EPERM },
};
#define FAULT_COUNT (sizeof FAULTS / sizeof *FAULTS)

static char top[PATH_MAX];
static size_t top_len;
static int log_fd = -1, trace_fd = -1, logs_all;
static int at_call = -1;
static long at_first, at_last;
static int at_fault;
static unsigned long long odds_state;
static long odds_permille;
static int odds_faults[FAULT_COUNT], odds_count;
static long counts[CALLS + 1];
static uintptr_t hdf5_low, hdf5_high;
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;

static int fault_named(const char *name)
{
    for (size_t i = 0; i < FAULT_COUNT; i++)
        if (strcmp(FAULTS[i].name, name) == 0)
            return FAULTS[i].fault;
    fprintf(stderr, "shim: no fault is called %s\n", name);
    abort();
}

static const char *fault_name(int fault)
{
    for (size_t i = 0; i < FAULT_COUNT; i++)
        if (FAULTS[i].fault == fault)
            return FAULTS[i].name;
    return "-";
}

static int raw_open(const char *path)
{
    int low = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (low < 0)
        return low;
    // Out of the way, so that the process's own numbers are what they would be without.
    int high = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, low);
    return high;
}

// The first object is the program.
static int program_base(struct dl_phdr_info *object, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = object->dlpi_addr;
    return 1;
}

__attribute__((constructor)) static void set_up(void)
{
    const char *text = getenv("FAULTS_DIR");
    if (!text || strlen(text) >= sizeof top)
        return;
    strcpy(top, text);
    if ((text = getenv("FAULTS_LOG")))
        log_fd = raw_open(text);
    if ((text = getenv("FAULTS_TRACE")))
        trace_fd = raw_open(text);
    logs_all = getenv("FAULTS_COUNT") != 0;
    char call[32], fault[256];
    if ((text = getenv("FAULTS_AT"))) {
        int parsed = sscanf(text, "%31s %ld-%ld %31s", call, &at_first, &at_last, fault) == 4;
        if (!parsed) {
            parsed = sscanf(text, "%31s %ld %31s", call, &at_first, fault) == 3;
            at_last = at_first;
        }
        for (int i = 0; parsed && i < CALLS; i++)
            if (strcmp(NAMES[i], call) == 0)
                at_call = i;
        if (strcmp(call, "space") == 0)
            at_call = CALLS;
        if (!parsed || at_call < 0) {
            fprintf(stderr, "shim: FAULTS_AT=%s\n", text);
            abort();
        }
        at_fault = fault_named(fault);
    }
    if ((text = getenv("FAULTS_ODDS"))) {
        if (sscanf(text, "%llu %ld %255s", &odds_state, &odds_permille, fault) != 3) {
            fprintf(stderr, "shim: FAULTS_ODDS=%s\n", text);
            abort();
        }
        char *rest = fault;
        for (char *name; (name = strsep(&rest, ",")) && odds_count < (int)FAULT_COUNT;)
            odds_faults[odds_count++] = fault_named(name);
    }
    top_len = strlen(top);
    unsigned long long low, high;
    if ((text = getenv("FAULTS_HDF5")) && sscanf(text, "%llx-%llx", &low, &high) == 2) {
        uintptr_t base = 0;
        dl_iterate_phdr(program_base, &base);
        hdf5_low = base + low;
        hdf5_high = base + high;
    }
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "shim: libc has no %s\n", name);
        abort();
    }
    return found;
}

// SplitMix64.
static unsigned long long draw(void)
{
    unsigned long long z = __sync_add_and_fetch(&odds_state, 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static int is_below(const char *path)
{
    return top_len && strncmp(path, top, top_len) == 0 && (path[top_len] == '/' || path[top_len] == 0);
}

// What FD is: a path, or a name such as `anon_inode:inotify`.
static int name_of_fd(int fd, char *name)
{
    char link[32];
    if (fd < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, name, PATH_MAX - 1);
    name[len < 0 ? 0 : len] = 0;
    return len > 0;
}

static int path_of_fd(int fd, char *path)
{
    return name_of_fd(fd, path) && is_below(path);
}

// The absolute path of NAME as seen from DIRFD, without looking at links.
static int path_at(int dirfd, const char *name, char *path)
{
    if (!top_len || !name)
        return 0;
    if (name[0] == 0)
        return path_of_fd(dirfd, path);
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return is_below(path);
    }
    char from[PATH_MAX];
    if (dirfd != AT_FDCWD)
        path_of_fd(dirfd, from);
    else if (syscall(SYS_getcwd, from, sizeof from) < 0)
        from[0] = 0;
    if (snprintf(path, PATH_MAX, "%s/%s", from, name) >= PATH_MAX)
        return 0;
    return is_below(path);
}

// What is to happen to this call on PATH.
static int fault_at(enum call call, const char *path)
{
    long k = __sync_add_and_fetch(&counts[call], 1);
    int needs_room = call == WRITE || call == PWRITE || call == FSYNC || call == MKDIR || call == FTRUNCATE;
    long room = needs_room ? __sync_add_and_fetch(&counts[CALLS], 1) : 0;
    int fault = NONE;
    if (at_call == (int)call && k >= at_first && k <= at_last)
        fault = at_fault;
    if (at_call == CALLS && needs_room && room >= at_first && room <= at_last)
        fault = at_fault;
    if (odds_count && (long)(draw() % 1000) < odds_permille)
        fault = odds_faults[draw() % odds_count];
    if (log_fd >= 0 && (fault || logs_all)) {
        char line[PATH_MAX + 64];
        int len = snprintf(line, sizeof line, "%s %ld %s %s\n", NAMES[call], k, fault_name(fault), path);
        syscall(SYS_write, log_fd, line, (size_t)len);
    }
    if (fault == KILL) {
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
        for (;;)
            pause();
    }
    return fault;
}

static int fault_of_fd(enum call call, int fd)
{
    char path[PATH_MAX];
    return top_len && path_of_fd(fd, path) ? fault_at(call, path) : NONE;
}

static int fault_of_path(enum call call, int dirfd, const char *name)
{
    char path[PATH_MAX];
    return path_at(dirfd, name, path) ? fault_at(call, path) : NONE;
}

// Of a call on no file.
static int fault_of(enum call call)
{
    return top_len ? fault_at(call, "-") : NONE;
}

#define FAIL_IF(fault, value)                                                                                          \
    do {                                                                                                               \
        int what_ = (fault);                                                                                           \
        if (what_ > 0) {                                                                                               \
            errno = what_;                                                                                             \
            return value;                                                                                              \
        }                                                                                                              \
    } while (0)

// The trace: a line of text, and for writes their bytes behind it. The lock is held from the call to its line.
#define TRACED(watched, call, ...)                                                                                     \
    do {                                                                                                               \
        if (trace_fd < 0 || !(watched))                                                                                \
            return call;                                                                                               \
        pthread_mutex_lock(&trace_lock);                                                                               \
        __typeof__(call) result_ = call;                                                                               \
        int errno_ = errno;                                                                                            \
        if (result_ >= 0)                                                                                              \
            trace(0, 0, __VA_ARGS__);                                                                                  \
        pthread_mutex_unlock(&trace_lock);                                                                             \
        errno = errno_;                                                                                                \
        return result_;                                                                                                \
    } while (0)

static void trace(const void *data, size_t len, const char *format, ...)
{
    char line[3 * PATH_MAX];
    va_list list;
    va_start(list, format);
    int head = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    struct iovec both[2] = { { line, (size_t)head }, { (void *)data, len } };
    if (syscall(SYS_writev, trace_fd, both, len ? 2 : 1) != (long)(head + len))
        abort();
}

static int do_open(int dirfd, const char *name, int flags, mode_t mode)
{
    typedef int (*openat_fn)(int, const char *, int, ...);
    openat_fn real = (openat_fn)next("openat64");
    char path[PATH_MAX];
    int watched = path_at(dirfd, name, path);
    if (watched)
        FAIL_IF(fault_at(OPEN, path), -1);
    if (trace_fd < 0 || !watched)
        return real(dirfd, name, flags, mode);
    pthread_mutex_lock(&trace_lock);
    struct stat before;
    int was = syscall(SYS_newfstatat, AT_FDCWD, path, &before, 0) == 0;
    int fd = real(dirfd, name, flags, mode), kept = errno;
    if (fd >= 0)
        trace(0, 0, "open %d %d %d %s\n", fd, !was, (flags & O_TRUNC) != 0, path);
    pthread_mutex_unlock(&trace_lock);
    errno = kept;
    return fd;
}

#define OPEN_LIKE(name)                                                                                                \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;                                        \
        va_end(list);                                                                                                  \
        return do_open(AT_FDCWD, path, flags, mode);                                                                   \
    }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define OPENAT_LIKE(name)                                                                                              \
    int name(int dirfd, const char *path, int flags, ...)                                                              \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;                                        \
        va_end(list);                                                                                                  \
        return do_open(dirfd, path, flags, mode);                                                                      \
    }
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

FILE *fopen64(const char *path, const char *mode)
{
    FAIL_IF(fault_of_path(OPEN, AT_FDCWD, path), 0);
    return ((FILE * (*)(const char *, const char *)) next("fopen64"))(path, mode);
}

DIR *opendir(const char *path)
{
    FAIL_IF(fault_of_path(OPEN, AT_FDCWD, path), 0);
    return ((DIR * (*)(const char *)) next("opendir"))(path);
}

struct dirent64 *readdir64(DIR *directory)
{
    FAIL_IF(fault_of_fd(READDIR, dirfd(directory)), 0);
    return ((struct dirent64 * (*)(DIR *)) next("readdir64"))(directory);
}

static size_t cut(int fault, size_t len)
{
    return fault == SHORT && len > 1 ? len / 2 : len;
}

// Keeps of IN what its first half of bytes takes.
static int cut_vector(int fault, const struct iovec *in, int count, struct iovec *out)
{
    size_t all = 0;
    for (int i = 0; i < count; i++)
        all += in[i].iov_len;
    size_t left = cut(fault, all);
    int kept = 0;
    for (; kept < count && (left || kept == 0); kept++) {
        out[kept] = in[kept];
        if (out[kept].iov_len > left)
            out[kept].iov_len = left;
        left -= out[kept].iov_len;
    }
    return kept;
}

ssize_t read(int fd, void *data, size_t len)
{
    char name[PATH_MAX];
    int fault = NONE;
    if (top_len && name_of_fd(fd, name))
        fault = is_below(name) ? fault_at(READ, name) : strstr(name, "inotify") ? fault_of(INOTIFY_READ) : NONE;
    FAIL_IF(fault, -1);
    return ((ssize_t (*)(int, void *, size_t))next("read"))(fd, data, cut(fault, len));
}

ssize_t readv(int fd, const struct iovec *vector, int count)
{
    struct iovec some[IOV_MAX];
    int fault = fault_of_fd(READ, fd);
    FAIL_IF(fault, -1);
    count = cut_vector(fault, vector, count, some);
    return ((ssize_t (*)(int, const struct iovec *, int))next("readv"))(fd, some, count);
}

#define PREAD_LIKE(name)                                                                                               \
    ssize_t name(int fd, void *data, size_t len, off_t at)                                                             \
    {                                                                                                                  \
        int fault = fault_of_fd(PREAD, fd);                                                                            \
        FAIL_IF(fault, -1);                                                                                            \
        return ((ssize_t (*)(int, void *, size_t, off_t))next(#name))(fd, data, cut(fault, len), at);                  \
    }
PREAD_LIKE(pread)
PREAD_LIKE(pread64)

#define PREADV_LIKE(name)                                                                                              \
    ssize_t name(int fd, const struct iovec *vector, int count, off_t at)                                              \
    {                                                                                                                  \
        struct iovec some[IOV_MAX];                                                                                    \
        int fault = fault_of_fd(PREADV, fd);                                                                           \
        FAIL_IF(fault, -1);                                                                                            \
        count = cut_vector(fault, vector, count, some);                                                                \
        return ((ssize_t (*)(int, const struct iovec *, int, off_t))next(#name))(fd, some, count, at);                 \
    }
PREADV_LIKE(preadv)
PREADV_LIKE(preadv64)

#define PREADV2_LIKE(name)                                                                                             \
    ssize_t name(int fd, const struct iovec *vector, int count, off_t at, int flags)                                   \
    {                                                                                                                  \
        struct iovec some[IOV_MAX];                                                                                    \
        int fault = fault_of_fd(PREADV, fd);                                                                           \
        FAIL_IF(fault, -1);                                                                                            \
        count = cut_vector(fault, vector, count, some);                                                                \
        return ((ssize_t (*)(int, const struct iovec *, int, off_t, int))next(#name))(fd, some, count, at, flags);     \
    }
PREADV2_LIKE(preadv2)
PREADV2_LIKE(preadv64v2)

static ssize_t traced_write(int fd, ssize_t written, off_t at, const struct iovec *vector)
{
    long left = written;
    for (; left > 0; vector++) {
        long len = (long)vector->iov_len < left ? (long)vector->iov_len : left;
        if (len)
            trace(vector->iov_base, (size_t)len, "write %d %ld %ld\n", fd, (long)at, len);
        at += len;
        left -= len;
    }
    return written;
}

static ssize_t do_write(int fd, const struct iovec *vector, int count, enum call call, off_t at)
{
    struct iovec some[IOV_MAX];
    char path[PATH_MAX];
    int watched = top_len && path_of_fd(fd, path);
    int fault = watched ? fault_at(call, path) : NONE;
    FAIL_IF(fault, -1);
    count = cut_vector(fault, vector, count, some);
    int is_traced = watched && trace_fd >= 0;
    if (is_traced)
        pthread_mutex_lock(&trace_lock);
    ssize_t written = call == PWRITE ? syscall(SYS_pwritev, fd, some, count, at, 0) : syscall(SYS_writev, fd, some, count);
    int kept = errno;
    if (is_traced) {
        if (written >= 0 && call == WRITE)
            at = syscall(SYS_lseek, fd, 0, SEEK_CUR) - written;
        traced_write(fd, written, at, some);
        pthread_mutex_unlock(&trace_lock);
    }
    errno = kept;
    return written;
}

ssize_t write(int fd, const void *data, size_t len)
{
    struct iovec one = { (void *)data, len };
    return do_write(fd, &one, 1, WRITE, 0);
}

ssize_t writev(int fd, const struct iovec *vector, int count)
{
    return do_write(fd, vector, count, WRITE, 0);
}

#define PWRITE_LIKE(name)                                                                                              \
    ssize_t name(int fd, const void *data, size_t len, off_t at)                                                       \
    {                                                                                                                  \
        struct iovec one = { (void *)data, len };                                                                      \
        return do_write(fd, &one, 1, PWRITE, at);                                                                      \
    }
PWRITE_LIKE(pwrite)
PWRITE_LIKE(pwrite64)

#define PWRITEV_LIKE(name)                                                                                             \
    ssize_t name(int fd, const struct iovec *vector, int count, off_t at)                                              \
    {                                                                                                                  \
        return do_write(fd, vector, count, PWRITE, at);                                                                \
    }
PWRITEV_LIKE(pwritev)
PWRITEV_LIKE(pwritev64)

static int watched_fd(int fd)
{
    char path[PATH_MAX];
    return top_len && path_of_fd(fd, path);
}

#define FSYNC_LIKE(name)                                                                                               \
    int name(int fd)                                                                                                   \
    {                                                                                                                  \
        FAIL_IF(fault_of_fd(FSYNC, fd), -1);                                                                           \
        TRACED(watched_fd(fd), ((int (*)(int))next(#name))(fd), "fsync %d\n", fd);                                     \
    }
FSYNC_LIKE(fsync)
FSYNC_LIKE(fdatasync)

#define FTRUNCATE_LIKE(name)                                                                                           \
    int name(int fd, off_t len)                                                                                        \
    {                                                                                                                  \
        FAIL_IF(fault_of_fd(FTRUNCATE, fd), -1);                                                                       \
        TRACED(watched_fd(fd), ((int (*)(int, off_t))next(#name))(fd, len), "truncate %d %ld\n", fd, (long)len);       \
    }
FTRUNCATE_LIKE(ftruncate)
FTRUNCATE_LIKE(ftruncate64)

int rename(const char *from, const char *to)
{
    char path[PATH_MAX], target[PATH_MAX];
    int watched = path_at(AT_FDCWD, from, path);
    path_at(AT_FDCWD, to, target);
    if (watched)
        FAIL_IF(fault_at(RENAME, path), -1);
    TRACED(watched, ((int (*)(const char *, const char *))next("rename"))(from, to), "rename %s\t%s\n", path, target);
}

static int do_unlink(int dirfd, const char *name, int flags)
{
    char path[PATH_MAX];
    int watched = path_at(dirfd, name, path);
    if (watched)
        FAIL_IF(fault_at(UNLINK, path), -1);
    TRACED(watched, (int)syscall(SYS_unlinkat, dirfd, name, flags), "unlink %s\n", path);
}

int unlink(const char *path) { return do_unlink(AT_FDCWD, path, 0); }
int unlinkat(int dirfd, const char *path, int flags) { return do_unlink(dirfd, path, flags); }
int rmdir(const char *path) { return do_unlink(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *name, mode_t mode)
{
    char path[PATH_MAX];
    int watched = path_at(AT_FDCWD, name, path);
    if (watched)
        FAIL_IF(fault_at(MKDIR, path), -1);
    TRACED(watched, ((int (*)(const char *, mode_t))next("mkdir"))(name, mode), "mkdir %s\n", path);
}

// As Linux does it: the number is free again, whatever is returned.
int close(int fd)
{
    int fault = fault_of_fd(CLOSE, fd);
    if (trace_fd >= 0 && (fd == trace_fd || fd == log_fd))
        return 0;
    if (fault > 0) {
        syscall(SYS_close, fd);
        errno = fault;
        return -1;
    }
    TRACED(watched_fd(fd), ((int (*)(int))next("close"))(fd), "close %d\n", fd);
}

#define STAT_LIKE(name, type)                                                                                          \
    int name(const char *path, struct type *found)                                                                     \
    {                                                                                                                  \
        FAIL_IF(fault_of_path(STAT, AT_FDCWD, path), -1);                                                              \
        return ((int (*)(const char *, struct type *))next(#name))(path, found);                                       \
    }
STAT_LIKE(stat, stat)
STAT_LIKE(stat64, stat64)
STAT_LIKE(lstat, stat)
STAT_LIKE(lstat64, stat64)

#define FSTAT_LIKE(name, type)                                                                                         \
    int name(int fd, struct type *found)                                                                               \
    {                                                                                                                  \
        FAIL_IF(fault_of_fd(STAT, fd), -1);                                                                            \
        return ((int (*)(int, struct type *))next(#name))(fd, found);                                                  \
    }
FSTAT_LIKE(fstat, stat)
FSTAT_LIKE(fstat64, stat64)

#define FSTATAT_LIKE(name, type)                                                                                       \
    int name(int dirfd, const char *path, struct type *found, int flags)                                               \
    {                                                                                                                  \
        FAIL_IF(fault_of_path(STAT, dirfd, path), -1);                                                                 \
        return ((int (*)(int, const char *, struct type *, int))next(#name))(dirfd, path, found, flags);               \
    }
FSTATAT_LIKE(fstatat, stat)
FSTATAT_LIKE(fstatat64, stat64)

int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *found)
{
    FAIL_IF(fault_of_path(STAT, dirfd, path), -1);
    return ((int (*)(int, const char *, int, unsigned, struct statx *))next("statx"))(dirfd, path, flags, mask, found);
}

int access(const char *path, int mode)
{
    FAIL_IF(fault_of_path(STAT, AT_FDCWD, path), -1);
    return ((int (*)(const char *, int))next("access"))(path, mode);
}

ssize_t readlink(const char *path, char *data, size_t len)
{
    FAIL_IF(fault_of_path(STAT, AT_FDCWD, path), -1);
    return ((ssize_t (*)(const char *, char *, size_t))next("readlink"))(path, data, len);
}

char *realpath(const char *path, char *data)
{
    FAIL_IF(fault_of_path(STAT, AT_FDCWD, path), 0);
    return ((char *(*)(const char *, char *))next("realpath"))(path, data);
}

int flock(int fd, int operation)
{
    FAIL_IF(fault_of_fd(FLOCK, fd), -1);
    return ((int (*)(int, int))next("flock"))(fd, operation);
}

#define FCNTL_LIKE(name)                                                                                               \
    int name(int fd, int command, ...)                                                                                 \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, command);                                                                                       \
        void *argument = va_arg(list, void *);                                                                         \
        va_end(list);                                                                                                  \
        int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;    \
        if (locks)                                                                                                     \
            FAIL_IF(fault_of_fd(FLOCK, fd), -1);                                                                       \
        int dups = command == F_DUPFD || command == F_DUPFD_CLOEXEC;                                                   \
        if (dups)                                                                                                      \
            FAIL_IF(fault_of_fd(DUP, fd), -1);                                                                         \
        int result = ((int (*)(int, int, ...))next(#name))(fd, command, argument);                                     \
        if (dups && result >= 0 && trace_fd >= 0 && watched_fd(fd)) {                                                  \
            pthread_mutex_lock(&trace_lock);                                                                           \
            trace(0, 0, "dup %d %d\n", fd, result);                                                                    \
            pthread_mutex_unlock(&trace_lock);                                                                         \
        }                                                                                                              \
        return result;                                                                                                 \
    }
FCNTL_LIKE(fcntl)
FCNTL_LIKE(fcntl64)

#define MMAP_LIKE(name)                                                                                                \
    void *name(void *address, size_t len, int protection, int flags, int fd, off_t at)                                 \
    {                                                                                                                  \
        FAIL_IF(fd >= 0 ? fault_of_fd(MMAP, fd) : NONE, MAP_FAILED);                                                   \
        if (trace_fd >= 0 && fd >= 0 && flags & MAP_SHARED && protection & PROT_WRITE && watched_fd(fd))               \
            abort(); /* writes that no trace has */                                                                    \
        return ((void *(*)(void *, size_t, int, int, int, off_t))next(#name))(address, len, protection, flags, fd, at);\
    }
MMAP_LIKE(mmap)
MMAP_LIKE(mmap64)

#define LSEEK_LIKE(name)                                                                                               \
    off_t name(int fd, off_t at, int whence)                                                                           \
    {                                                                                                                  \
        FAIL_IF(fault_of_fd(LSEEK, fd), -1);                                                                           \
        return ((off_t (*)(int, off_t, int))next(#name))(fd, at, whence);                                              \
    }
LSEEK_LIKE(lseek)
LSEEK_LIKE(lseek64)

int futimens(int fd, const struct timespec times[2])
{
    FAIL_IF(fault_of_fd(UTIMENS, fd), -1);
    return ((int (*)(int, const struct timespec *))next("futimens"))(fd, times);
}

int chmod(const char *path, mode_t mode)
{
    FAIL_IF(fault_of_path(CHMOD, AT_FDCWD, path), -1);
    return ((int (*)(const char *, mode_t))next("chmod"))(path, mode);
}

int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
    FAIL_IF(fault_of_path(UTIMENS, dirfd, path), -1);
    return ((int (*)(int, const char *, const struct timespec *, int))next("utimensat"))(dirfd, path, times, flags);
}

#define STATFS_LIKE(name, type)                                                                                        \
    int name(const char *path, struct type *found)                                                                     \
    {                                                                                                                  \
        FAIL_IF(fault_of_path(STATFS, AT_FDCWD, path), -1);                                                            \
        return ((int (*)(const char *, struct type *))next(#name))(path, found);                                       \
    }
STATFS_LIKE(statfs, statfs)
STATFS_LIKE(statfs64, statfs64)

#define FSTATFS_LIKE(name, type)                                                                                       \
    int name(int fd, struct type *found)                                                                               \
    {                                                                                                                  \
        FAIL_IF(fault_of_fd(STATFS, fd), -1);                                                                          \
        return ((int (*)(int, struct type *))next(#name))(fd, found);                                                  \
    }
FSTATFS_LIKE(fstatfs, statfs)
FSTATFS_LIKE(fstatfs64, statfs64)

static int do_link(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    char path[PATH_MAX], source[PATH_MAX];
    int watched = path_at(to_fd, to, path);
    path_at(from_fd, from, source);
    if (watched)
        FAIL_IF(fault_at(LINK, path), -1);
    TRACED(watched, (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags), "link %s\t%s\n", source, path);
}

int link(const char *from, const char *to) { return do_link(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    return do_link(from_fd, from, to_fd, to, flags);
}

int symlink(const char *content, const char *path)
{
    FAIL_IF(fault_of_path(LINK, AT_FDCWD, path), -1);
    return ((int (*)(const char *, const char *))next("symlink"))(content, path);
}

int dup(int fd)
{
    FAIL_IF(fault_of_fd(DUP, fd), -1);
    return ((int (*)(int))next("dup"))(fd);
}

int dup2(int fd, int to)
{
    FAIL_IF(fault_of_fd(DUP, fd), -1);
    return ((int (*)(int, int))next("dup2"))(fd, to);
}

int dup3(int fd, int to, int flags)
{
    FAIL_IF(fault_of_fd(DUP, fd), -1);
    return ((int (*)(int, int, int))next("dup3"))(fd, to, flags);
}

int inotify_init1(int flags)
{
    FAIL_IF(fault_of(INOTIFY_INIT), -1);
    return ((int (*)(int))next("inotify_init1"))(flags);
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    FAIL_IF(fault_of_path(INOTIFY_ADD_WATCH, AT_FDCWD, path), -1);
    return ((int (*)(int, const char *, uint32_t))next("inotify_add_watch"))(fd, path, mask);
}

int pipe(int fds[2])
{
    FAIL_IF(fault_of(PIPE), -1);
    return ((int (*)(int *))next("pipe"))(fds);
}

int pipe2(int fds[2], int flags)
{
    FAIL_IF(fault_of(PIPE), -1);
    return ((int (*)(int *, int))next("pipe2"))(fds, flags);
}

int poll(struct pollfd *all, nfds_t count, int milliseconds)
{
    // Before main, Rust looks in this way whether stdin, stdout and stderr are open, and aborts where the look fails.
    if (count != 3 || milliseconds != 0)
        FAIL_IF(fault_of(POLL), -1);
    return ((int (*)(struct pollfd *, nfds_t, int))next("poll"))(all, count, milliseconds);
}

int ppoll(struct pollfd *all, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
    FAIL_IF(fault_of(POLL), -1);
    typedef int (*ppoll_fn)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    return ((ppoll_fn)next("ppoll"))(all, count, time, mask);
}

// These return the number of the error.
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int fault = fault_of(PTHREAD_CREATE);
    if (fault > 0)
        return fault;
    typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return ((create_fn)next("pthread_create"))(thread, attributes, run, argument);
}

#define SPAWN_LIKE(name)                                                                                               \
    int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,    \
             char *const arguments[], char *const environment[])                                                       \
    {                                                                                                                  \
        int fault = fault_of(POSIX_SPAWN);                                                                             \
        if (fault > 0)                                                                                                 \
            return fault;                                                                                              \
        typedef int (*spawn_fn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,  \
                                char *const[], char *const[]);                                                         \
        return ((spawn_fn)next(#name))(pid, path, actions, how, arguments, environment);                               \
    }
SPAWN_LIKE(posix_spawn)
SPAWN_LIKE(posix_spawnp)

pid_t fork(void)
{
    FAIL_IF(fault_of(FORK), -1);
    return ((pid_t (*)(void))next("fork"))();
}

#define EXEC_LIKE(name)                                                                                                \
    int name(const char *path, char *const arguments[])                                                                \
    {                                                                                                                  \
        FAIL_IF(fault_of(EXEC), -1);                                                                                   \
        return ((int (*)(const char *, char *const *))next(#name))(path, arguments);                                   \
    }
EXEC_LIKE(execv)
EXEC_LIKE(execvp)

int execve(const char *path, char *const arguments[], char *const environment[])
{
    FAIL_IF(fault_of(EXEC), -1);
    return ((int (*)(const char *, char *const *, char *const *))next("execve"))(path, arguments, environment);
}

char *getcwd(char *path, size_t len)
{
    FAIL_IF(fault_of(GETCWD), 0);
    return ((char *(*)(char *, size_t))next("getcwd"))(path, len);
}

// Allocations of the HDF5 library. The place of one is named by the innermost addresses of its code on the stack, which are
// those of the callers, but for a few that earlier calls have left there.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static int is_hdf5(uintptr_t address)
{
    return address >= hdf5_low && address < hdf5_high;
}

static int fault_of_malloc(void *site, void **stack)
{
    if (!is_hdf5((uintptr_t)site))
        return NONE;
    enum { WORDS = 96, CALLERS = 4 };
    uint64_t hash = 0xcbf29ce484222325ull;
    for (int i = 0, found = 0; i < WORDS && found < CALLERS; i++)
        if (is_hdf5((uintptr_t)stack[i])) {
            hash = (hash ^ ((uintptr_t)stack[i] - hdf5_low)) * 0x100000001b3ull;
            found++;
        }
    // In letters that are no digits of a hexadecimal number.
    char name[12] = "hdf5-";
    for (int i = 5; i < 11; i++, hash >>= 4)
        name[i] = (char)('g' + (hash >> 20) % 16);
    name[11] = 0;
    return fault_at(MALLOC, name);
}

#define MALLOC_LIKE(name, parameters, arguments)                                                                       \
    void *name parameters                                                                                              \
    {                                                                                                                  \
        FAIL_IF(fault_of_malloc(__builtin_return_address(0), __builtin_frame_address(0)), 0);                          \
        return __libc_##name arguments;                                                                                \
    }
MALLOC_LIKE(malloc, (size_t size), (size))
MALLOC_LIKE(calloc, (size_t count, size_t size), (count, size))
MALLOC_LIKE(realloc, (void *there, size_t size), (there, size))
