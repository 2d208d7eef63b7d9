/* datum_checkpoints: stores checkpoints by datum key. A checkpoint is a tree that a command left for the next
 * attempt at its datum. Workers report checkpoints; leases carry them to the next attempt; the success of the
 * datum deletes them. */
#include "pipelined/engine/engine_internal.h"

#define CHECKPOINTS_MAX 1000 /* most checkpoints kept per stage; the oldest ones are deleted */

struct told {
    struct pl_engine *engine;
    struct pl_http_request *req;
    struct pl_ejob *job;
    struct pl_hash key, root;
    struct pl_err err;
};

static int keep_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct told *t = arg;
    const char *project = t->job->stage->project, *stage = t->job->stage->def->name;
    int r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT OR REPLACE INTO checkpoint(project, stage, key, root, at_us) SELECT ?, ?, ?, ?, ?"
                        /* the stage may have been deleted */
                        " WHERE EXISTS (SELECT 1 FROM stage WHERE id = ?)",
                        "ssbbii", project, stage, t->key.b, (size_t)PL_HASH_BYTES, t->root.b, (size_t)PL_HASH_BYTES,
                        pl_tx_now_us(tx), (int64_t)t->job->stage->version);

    r = r < 0 ? r
              : pl_sql_exec(pl_tx_conn(tx), err,
                            "DELETE FROM checkpoint WHERE project = ? AND stage = ? AND key IN (SELECT key FROM checkpoint WHERE"
                            " project = ? AND stage = ? ORDER BY at_us DESC LIMIT -1 OFFSET ?)",
                            "ssssi", project, stage, project, stage, (int64_t)CHECKPOINTS_MAX);
    return r < 0 ? r : 0;
}

static void kept(void *arg, int r, const struct pl_err *err)
{
    struct told *t = arg;

    if (r < 0)
        pl_http_reply_error(t->req, err);
    else
        pl_http_reply_json(t->req, 200, json_object());
    pl_engine_job_unref(t->job);
    free(t);
}

void pl_engine_checkpoint(struct pl_engine *e, struct pl_http_request *req, struct pl_ejob *job, uint32_t row,
                          const struct pl_hash *root)
{
    struct told *t = calloc(1, sizeof *t);
    struct pl_err err = {0};

    if (!t) {
        pl_err_nomem(&err);
        pl_http_reply_error(req, &err);
        return;
    }
    *t = (struct told){
        .engine = e, .req = req, .job = pl_engine_job_ref(job), .key = job->plan->keys[job->rows[row]], .root = *root};
    pl_engine_submit(e, PL_TX_UNLOGGED, keep_tx, kept, t);
}

json_t *pl_checkpoint_json(const struct pl_ejob *job, const struct pl_hash *key, int64_t since_us)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(job->engine->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char hex[PL_HASH_HEX + 1];
    struct pl_hash root;
    int r = pl_sql_query(rd.conn, NULL, &rows,
                         "SELECT root FROM checkpoint WHERE project = ? AND stage = ? AND key = ? AND at_us >= ?", "ssbi",
                         job->stage->project, job->stage->def->name, key->b, (size_t)PL_HASH_BYTES, since_us);

    if (r < 0 || pl_sql_next(rd.conn, &rows, NULL) <= 0)
        return NULL;
    root = pl_col_hash(&rows, 0);
    return json_string(pl_hash_hex(&root, hex));
}

int pl_checkpoints_drop(const struct pl_ejob *job, struct pl_conn *c, const json_t *rows, struct pl_err *err)
{
    const json_t *item;
    size_t i;
    int r = 0;

    json_array_foreach(rows, i, item)
    {
        struct pl_hash key;

        r = pl_hash_parse(json_string_value(json_array_get(item, 2)), &key, err);
        r = r < 0 ? r
                  : pl_sql_exec(c, err, "DELETE FROM checkpoint WHERE project = ? AND stage = ? AND key = ?", "ssb",
                                job->stage->project, job->stage->def->name, key.b, (size_t)PL_HASH_BYTES);
        if (r < 0)
            return r;
    }
    return 0;
}
