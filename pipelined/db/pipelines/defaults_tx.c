/* defaults_tx: sets the defaults of the cluster or of a project through a log record, and reads them. */
#include "pipelined/db/pipelines/defaults_tx.h"

#include "storage/base/path.h"

#include <stdio.h>

#define SCOPE_BYTES (PL_NAME_MAX_BYTES + 16)

static const char *scope_of(const char *project, char out[SCOPE_BYTES])
{
    snprintf(out, SCOPE_BYTES, "%s%s", project ? "project/" : "cluster", project ? project : "");
    return out;
}

/* Checks that the project exists. Project "default" counts as existing even before its row is made together
 * with its first repo. */
static int need_project(struct pl_conn *c, const char *project, struct pl_err *err)
{
    int64_t one;
    int r = pl_streq(project, "default") ? 0 : pl_sql_int(c, err, &one, "SELECT 1 FROM project WHERE name = ?", "s", project);

    return r == PL_ENOTFOUND
               ? pl_err_set(err, r, "project \"%s\" does not exist: pipelinectl create project %s", project, project)
               : PL_MIN(r, 0);
}

int pl_tx_defaults_set(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_defaults_args *a = arg;
    char scope[SCOPE_BYTES];
    int r = a->project ? need_project(pl_tx_conn(tx), a->project, err) : 0;

    return r < 0 ? r
                 : pl_tx_emit(tx, PL_RECORD_DEFAULTS,
                              json_pack("{s:s, s:O}", "scope", scope_of(a->project, scope), "spec", a->spec), err);
}

int pl_db_defaults_read(struct pl_conn *c, const char *project, char **ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char scope[SCOPE_BYTES];
    int r = pl_sql_query(c, err, &rows, "SELECT spec FROM defaults WHERE scope = ?", "s", scope_of(project, scope));

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r < 0)
        return r;
    *ret = strdup(r > 0 ? pl_col_text(&rows, 0) : "{}");
    return *ret ? 0 : pl_err_nomem(err);
}
