/* Finds programs in the folder of this program, whose path is /proc/self/exe. */
#include "pipelined/cli/support/program_path.h"

#include <stdio.h>

int pl_cli_program_path(const char *name, char out[PATH_MAX], struct pl_err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    size_t room;

    if (n < 0)
        return pl_err_errno(err, errno, "find the folder of this program");
    while (n > 0 && out[n - 1] != '/')
        n--;
    room = PATH_MAX - (size_t)n;
    if ((size_t)snprintf(out + n, room, "%s", name) >= room)
        return pl_err_set(err, PL_EINVAL, "the path of this program is too long");
    return access(out, X_OK) == 0 ? 0 : pl_err_errno(err, errno, "%s", out);
}
