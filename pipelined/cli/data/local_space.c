/* Compares what is to be written with what statvfs says. */
#include "pipelined/cli/data/local_space.h"

#include "storage/base/path.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* Calls statvfs for the folder, or for the nearest one above it that exists. */
static bool look(const char *folder, struct statvfs *ret)
{
    char path[PATH_MAX];
    char *slash;

    if (snprintf(path, sizeof path, "%s", *folder ? folder : ".") >= (int)sizeof path)
        return false;
    while (statvfs(path, ret) < 0) {
        if (errno != ENOENT)
            return false;
        slash = strrchr(path, '/');
        if (slash && slash > path)
            *slash = '\0';
        else if (!pl_streq(path, "/") && !pl_streq(path, "."))
            snprintf(path, sizeof path, slash ? "/" : ".");
        else
            return false;
    }
    return true;
}

int pl_local_space_check(const char *folder, uint64_t files, uint64_t bytes, uint64_t (*freed)(void *self), void *self,
                         struct pl_err *err)
{
    char need[32], have[32];
    uint64_t space;
    struct statvfs fs;

    if (!look(folder, &fs) || fs.f_blocks == 0)
        return 0;
    space = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (bytes > space && freed)
        space += freed(self);
    if (bytes <= space)
        return 0;
    return pl_err_hint(err,
                       pl_err_set(err, PL_ENOSPC, "the disk of %s has %s free, but %llu file%s of %s are to be written there",
                                  folder, pl_size_text(space, have), (unsigned long long)files, files == 1 ? "" : "s",
                                  pl_size_text(bytes, need)),
                       "Free space there, or write to another disk; nothing was written.%s",
                       space ? " If that disk compresses files, --no-space-check writes as far as there is space." : "");
}
