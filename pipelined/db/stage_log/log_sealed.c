/* Finds a segment's blob by its row; the cache is by the blob's hash. */
#include "pipelined/db/stage_log/log_sealed.h"

#include "pipelined/db/stage_log/stage_log.h"

_Static_assert(PL_LOG_SEALED_CACHE_BYTES / 8 > PL_STAGE_LOG_SEGMENT_BYTES + 4096, "record_cache takes a full segment");

/* Reads which blob has the segment's bytes; zero: its content was dropped. Returns 1, or 0 if it is not sealed. */
static int find_blob(const struct pl_log_sealed *s, int64_t job, uint64_t segment, struct pl_hash *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r =
        pl_sql_query(rd.conn, err, &rows, "SELECT blob FROM log_segment WHERE job = ? AND id = ?", "ii", job, (int64_t)segment);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r > 0)
        *ret = pl_col_hash(&rows, 0);
    return r;
}

static int load_blob(const struct pl_log_sealed *s, const char *project, const struct pl_hash *blob, struct pl_buf *ret,
                     struct pl_err *err)
{
    struct pl_store *store;
    int r = pl_project_stores_get(s->stores, project, &store, err);

    return r < 0 ? r : pl_store_get(store, blob, PL_REC_BLOB, ret, err);
}

int pl_log_sealed_load(const struct pl_log_sealed *s, const char *project, int64_t job, uint64_t segment, struct pl_buf *ret,
                       struct pl_err *err)
{
    struct pl_hash blob;
    int r = find_blob(s, job, segment, &blob, err);

    if (r <= 0 || pl_hash_is_zero(&blob) || pl_record_cache_get(s->cache, &blob, ret))
        return r;
    r = load_blob(s, project, &blob, ret, err);
    return r < 0 ? r : 1;
}

int pl_log_sealed_show(const struct pl_log_sealed *s, const char *project, int64_t job, uint64_t segment, pl_byte_view_fn look,
                       void *arg, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_hash blob;
    int r = find_blob(s, job, segment, &blob, err);

    if (r <= 0 || pl_hash_is_zero(&blob))
        return r;
    if (!pl_record_cache_show(s->cache, &blob, look, arg, &r, err)) {
        r = load_blob(s, project, &blob, &bytes, err);
        if (r < 0)
            return r;
        pl_record_cache_put(s->cache, &blob, bytes.data, bytes.len);
        r = look(arg, &(struct pl_byte_view){bytes.data, bytes.len, NULL}, err);
    }
    return r < 0 ? r : 1;
}

int pl_log_sealed_count(const struct pl_log_sealed *s, int64_t job, int64_t *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s->db);

    return pl_sql_int(rd.conn, err, ret, "SELECT count(*) FROM log_segment WHERE job = ?", "i", job);
}
