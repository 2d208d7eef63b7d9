/* regained: what a recovery got back out of a checkpoint although it had gone since. Results that are kept and logs go without a word in the
 * log: by rules of retention, and since newer ones took their place. Then their bytes go too, so after a recovery (recover.h) each that
 * came back is looked up once, before anything stands on it.
 *
 *   recover: meta 'regained' ──start──▶ each job with results or a log: is all of it there? ──no──▶ its rows go ──▶ meta 'regained' goes
 *
 * A job's results go together, and so does its log: what is left of half of them tells nobody what is missing. In the place of a log that
 * went stays a segment without a blob's id, so that who asks for it is told (pl_retention_check_job). */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/project_stores.h"

/* Does nothing but after a recovery; one that is interrupted begins anew with the next call. Before results are reused, logs are read and
 * garbage is collected. Blocks: it reads the trees of all results that came back. The errors of the database, and those of the store that
 * say nothing about whether something is there. */
PL_MUST_CHECK
int pl_recovery_prune_results(struct pl_db *db, struct pl_project_stores *stores, struct pl_err *err);
/* The same of the logs alone, in a database that no daemon goes on with and that `conn` may write to. */
PL_MUST_CHECK
int pl_recovery_prune_logs(struct pl_conn *conn, struct pl_project_stores *stores, struct pl_err *err);
