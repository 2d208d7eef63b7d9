/* Binds the socket to /proc/self/fd/N/NAME, where N is an open descriptor of the folder. This path is short
 * enough for a socket address, however long the folder's path is. */
#include "pipelined/agent/command/unix_socket.h"

#include "storage/system/io.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

int pl_unix_socket_listen(const char *folder, const char *name, int backlog, int *ret, struct pl_err *err)
{
    _cleanup_close_ int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (dir < 0 || fd < 0) {
        pl_closep(&fd);
        return pl_err_errno(err, errno, "%s", folder);
    }
    (void)unlinkat(dir, name, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir, name);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || fchmodat(dir, name, 0666, 0) < 0 ||
        listen(fd, backlog) < 0) {
        int r = pl_err_errno(err, errno, "%s/%s", folder, name);
        pl_closep(&fd);
        return r;
    }
    *ret = fd;
    return 0;
}
