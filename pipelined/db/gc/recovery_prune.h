/* recovery_prune: after a recovery, drops results and logs that the checkpoint brought back although their data is
 * gone. Kept results and logs are deleted without a log record: by retention rules, or when newer results replace
 * them. Their data is then collected. So after a recovery (db_recover.h) each restored row is checked once, before
 * it is used.
 *
 *   recovery sets meta 'regained' ──▶ at start, for each job with results or a log: if a record is missing,
 *                                     delete the rows ──▶ after all jobs delete meta 'regained'
 *
 * If one record of a job's results is missing, all results of the job are dropped, because the remaining part would
 * not show that something is missing. The same holds for its log. A dropped log is replaced by a segment without a
 * blob, which tells readers of the log why the log is gone (pl_retention_check_job). */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/project_stores.h"

/* Drops the results and logs whose data is gone, after a recovery; otherwise does nothing. An interrupted
 * pass starts over with the next call. Call it before results are reused, logs are read or garbage is
 * collected. Blocks: it reads the trees of all restored results. The errors of the database; errors of the
 * store that leave it open whether a record exists. */
PL_MUST_CHECK
int pl_recovery_prune_results(struct pl_db *db, struct pl_project_stores *stores, struct pl_err *err);
/* Does the same for logs only, in a database that no daemon will use. `conn` may write to it. */
PL_MUST_CHECK
int pl_recovery_prune_logs(struct pl_conn *conn, struct pl_project_stores *stores, struct pl_err *err);
