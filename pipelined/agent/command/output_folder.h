/* out_folder: WORK/pfs/out, the folder that commands write their output to, held open. With a sandbox the folder is a mount point and stays what it
 * is. Without one a command may put another folder in its place (rm -rf and mkdir, mv): that one is taken. The descriptor keeps its number when
 * the folder changes, so those who hold the number read the new folder from then on, on any thread. */
#pragma once

#include "storage/base/err.h"

#include <sys/stat.h>

struct pl_out_folder {
    char path[4200];
    int fd;      /* -1: not open */
    mode_t mode; /* that each datum finds */
};

/* Opens WORK/pfs/out. PL_EIO. */
PL_MUST_CHECK
int pl_out_folder_open(struct pl_out_folder *f, const char *work, struct pl_err *err);
void pl_out_folder_close(struct pl_out_folder *f);
/* Takes the folder that lies at the path now, if it is another one: the file descriptor leads to it then. PL_EINVAL: no folder is there; the message
 * says what the command did. PL_EIO. */
PL_MUST_CHECK
int pl_out_folder_follow(struct pl_out_folder *f, struct pl_err *err);
/* The same; then the folder has its mode again, and where none lies at the path an empty one is made in the place of what does. The code and message
 * are those of pl_out_folder_follow, but for PL_EUNAVAILABLE: no folder could be made, the worker cannot go on. */
PL_MUST_CHECK
int pl_out_folder_restore(struct pl_out_folder *f, struct pl_err *err);
