/* A file system whose locks each node sees alone, and nodes of other names: NODE is this one's. A process that syncs the file
 * that it writes a part to waits there as long as the file HOLD exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* GPFS, whose BSD locks are a node's own. */
#define GPFS 0x47504653

int gethostname(char *name, size_t length) {
    const char *node = getenv("NODE");
    strncpy(name, node ? node : "nobody", length);
    return 0;
}

int flock(int file, int operation) {
    (void)file, (void)operation;
    return 0;
}

int statfs(const char *path, struct statfs *out) {
    int (*real)(const char *, struct statfs *) = (int (*)(const char *, struct statfs *))dlsym(RTLD_NEXT, "statfs");
    int result = real(path, out);
    out->f_type = GPFS;
    return result;
}

int statfs64(const char *path, struct statfs64 *out) {
    int (*real)(const char *, struct statfs64 *) = (int (*)(const char *, struct statfs64 *))dlsym(RTLD_NEXT, "statfs64");
    int result = real(path, out);
    out->f_type = GPFS;
    return result;
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *hold = getenv("HOLD");
    struct stat what;
    if (hold && fstat(file, &what) == 0 && S_ISREG(what.st_mode))
        while (access(hold, F_OK) == 0)
            usleep(1000);
    return real(file);
}
