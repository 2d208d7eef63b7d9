/* Checks the container name in a request for container output. */
#include "pipelined/policy/container_log_request.h"

int pl_container_log_check(const char *container, struct pl_err *err)
{
    static const char *const names[] = {"main", "agent", "install"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        if (pl_streq(container, names[i]))
            return 0;
    return pl_err_field(
        err, pl_err_set(err, PL_EINVAL, "container \"%.100s\" does not exist: a pod has main, agent and install", container),
        "container");
}
