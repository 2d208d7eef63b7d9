/* Reads lines in batches: a batch is copied while a reader is held, and handed out after the reader is released. */
#include "pipelined/api/answer_routes/metric_lines.h"

#include <math.h>

#define BATCH 4000 /* lines that are copied with one reader; each has at most 1 KiB */

/* A line in a batch: this head, then the text with its NUL. */
struct head {
    struct pl_hash datum;
    int64_t fence;
    size_t text_bytes; /* with the NUL */
};

struct batch {
    struct pl_buf bytes;
    int64_t last; /* id of its last line */
    size_t n;
};

static int copy_line(struct batch *b, const struct pl_rows *rows, struct pl_err *err)
{
    const char *text = pl_col_text(rows, 3);
    const struct head h = {.datum = pl_col_hash(rows, 1), .fence = pl_col_int(rows, 2), .text_bytes = strlen(text) + 1};
    int r = pl_buf_add(&b->bytes, &h, sizeof h, err);

    r = r < 0 ? r : pl_buf_add(&b->bytes, text, h.text_bytes, err);
    b->last = pl_col_int(rows, 0);
    b->n++;
    return r;
}

/* Copies the lines after `after`, at most `most`. */
static int read_batch(struct pl_api *a, int64_t job, const struct pl_hash *datum, int64_t after, size_t most, struct batch *ret,
                      struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows,
                         "SELECT id, datum, coalesce(fence, 0), data FROM metric WHERE job = ?1 AND id > ?2"
                         " AND (?3 IS NULL OR datum = ?3) ORDER BY id LIMIT ?4",
                         "iihi", job, after, datum, (int64_t)most);

    pl_buf_clear(&ret->bytes);
    ret->n = 0;
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0)
        r = copy_line(ret, &rows, err);
    return r < 0 ? r : 0;
}

static int hand_out(const struct batch *b, pl_metric_line_fn fn, void *self, struct pl_err *err)
{
    const uint8_t *at = b->bytes.data;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < b->n; i++) {
        struct pl_metric_line line;
        struct head h;

        memcpy(&h, at, sizeof h);
        line = (struct pl_metric_line){.datum = h.datum, .fence = h.fence, .text = (const char *)at + sizeof h};
        if (pl_streq(line.text, "null"))
            line.text = NULL;
        at += sizeof h + h.text_bytes;
        r = fn(self, &line, err);
    }
    return r < 0 ? r : 0;
}

/* The id before the first of the job's newest `most` lines. Ids of a job's lines are counted from 0. */
static int first_place(struct pl_api *a, int64_t job, size_t most, int64_t *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    int64_t last = -1;
    int r = pl_sql_int(rd.conn, err, &last, "SELECT coalesce(max(id), -1) FROM metric WHERE job = ?", "i", job);

    *ret = PL_MAX(last - (int64_t)most, (int64_t)-1);
    return r;
}

int pl_metric_lines_read(struct pl_api *a, int64_t job, const struct pl_hash *datum, size_t most, pl_metric_line_fn fn,
                         void *self, size_t *ret_read, bool *ret_cut, struct pl_err *err)
{
    struct batch b = {0};
    size_t read = 0;
    int64_t first = -1;
    int r = first_place(a, job, most, &first, err);

    b.last = first;
    while (r == 0 && read < most) {
        const size_t wanted = PL_MIN((size_t)BATCH, most - read);

        r = read_batch(a, job, datum, b.last, wanted, &b, err);
        r = r < 0 ? r : hand_out(&b, fn, self, err);
        read += b.n;
        if (b.n < wanted)
            break;
    }
    pl_buf_finish(&b.bytes);
    *ret_read = read;
    *ret_cut = first >= 0;
    return r;
}

double pl_metric_line_step(const json_t *line, size_t number)
{
    const json_t *step = json_object_get(line, "step"), *epoch = json_object_get(line, "epoch");
    const double found = json_is_number(step) ? json_number_value(step) : json_is_number(epoch) ? json_number_value(epoch) : NAN;

    return isfinite(found) ? found : (double)number;
}

bool pl_metric_is_place(const char *name)
{
    return pl_streq(name, "step") || pl_streq(name, "epoch") || pl_streq(name, "progress");
}
