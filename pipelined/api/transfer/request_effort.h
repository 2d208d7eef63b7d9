/* request_effort: what one request may cost on data that others may have uploaded. */
#pragma once

#include "pipelined/net/server/http_server.h"
#include "storage/base/effort.h"

/* Steps, and milliseconds. */
#define PL_REQUEST_STEPS_MAX ((uint64_t)1 << 26)
#define PL_REQUEST_WORK_MS   60000

/* Makes the limits of a request's work, starting now: steps, time, and the end when its client disconnects.
 * Valid as long as the request. */
struct pl_effort pl_request_effort(const struct pl_http_request *req);
