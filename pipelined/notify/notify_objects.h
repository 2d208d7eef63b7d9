/* notify_objects: the files that a commit changed, as records of S3's bucket notifications. Reads the database and the
 * store; blocks. Any thread. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/notify/notify_format.h"
#include "storage/store/project_stores.h"

#define PL_NOTIFY_RECORDS_MAX 1000u /* of one delivery */

/* Lists the files that the commit of the message m->data, {project, repo, commit}, added, changed and removed, in order of
 * path, from the one after `after` on (NULL = the first), at most PL_NOTIFY_RECORDS_MAX. `ret_next`: the last path if more
 * follow, else NULL; malloc'ed. The array is empty if no file changed. PL_ENOTFOUND: the commit was deleted. */
PL_MUST_CHECK
int pl_notify_objects(struct pl_db *db, struct pl_project_stores *stores, const struct pl_notify_message *m, const char *after,
                      json_t **ret, char **ret_next, struct pl_err *err);
