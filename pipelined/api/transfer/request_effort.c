#include "pipelined/api/transfer/request_effort.h"

#include "storage/base/clock.h"

static bool client_gone(const void *req)
{
    return pl_http_request_gone(req);
}

struct pl_effort pl_request_effort(const struct pl_http_request *req)
{
    return (struct pl_effort){.visits_max = PL_REQUEST_STEPS_MAX,
                              .until_ms = pl_clock_mono_ms() + PL_REQUEST_WORK_MS,
                              .gone = client_gone,
                              .self = req};
}
