/* request_effort: limits the work that one request may cause. The data that a request reads may have been
 * uploaded by other users, who may have made it expensive to read. */
#pragma once

#include "pipelined/net/server/http_server.h"
#include "storage/base/effort.h"

/* Limits of one request: number of steps, and time in milliseconds. */
#define PL_REQUEST_STEPS_MAX ((uint64_t)1 << 26)
#define PL_REQUEST_WORK_MS   60000

/* Makes the limits of a request's work: a number of steps, a time from now on, and the disconnection of its
 * client. Valid as long as the request. */
struct pl_effort pl_request_effort(const struct pl_http_request *req);
