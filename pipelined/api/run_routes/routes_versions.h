/* routes_versions: what other routes say of the versions of a pipeline. */
#pragma once

#include "pipelined/db/writer/sql.h"

#define PL_VERSION_MAX INT64_MAX

/* Returns the git commit of an origin that a version recorded (docs/format.md, record `pipeline`), without what else is
 * recorded there; {} if it does not come from git. New reference; NULL: out of memory. */
json_t *pl_api_origin_json(const json_t *origin);
/* Sets and returns PL_ENOTFOUND for a pipeline that does not exist, or has no such version; `version` 0 = none was
 * named. Returns errors of the database as they are. */
PL_MUST_CHECK
int pl_api_no_version(struct pl_conn *c, const char *project, const char *pipeline, int64_t version, struct pl_err *err);
