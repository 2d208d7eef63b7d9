/* notify_events: reads rows of the wanted types, in order of their ids, and looks into each. */
#include "pipelined/notify/notify_events.h"

#include "pipelined/text/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void pl_notify_event_finish(struct pl_notify_event *e)
{
    json_decref(TAKE_PTR(e->data));
}

int pl_notify_events_wanted(struct pl_conn *c, const struct pl_notify_filter *f, const char *type, const json_t *data, bool *ret,
                            struct pl_err *err)
{
    const enum pl_notify_match match = pl_notify_match(f, type, data);
    const char *run = pl_json_str(data, "id");
    int64_t there = match == PL_NOTIFY_YES;
    int r = 0;

    if (match == PL_NOTIFY_IF_RUN)
        r = pl_sql_int(c, err, &there,
                       "SELECT EXISTS (SELECT 1 FROM job WHERE run = ?1 AND project = ?2) OR EXISTS"
                       " (SELECT 1 FROM repo r JOIN commit_ c ON c.repo = r.id AND c.run = ?1 WHERE r.project = ?2) OR EXISTS"
                       /* a run that begins has no job yet */
                       " (SELECT 1 FROM run, json_each(run.stages) s WHERE run.id = ?1 AND json_extract(s.value, '$[0]') = ?2)",
                       "ss", run, f->project);
    *ret = there != 0;
    return r;
}

/* Starts reading rows of the wanted types after `cursor`; `types` is their list, which the caller keeps meanwhile. */
static int read_rows(struct pl_conn *c, const struct pl_notify_filter *f, int64_t cursor, int64_t most, char **types,
                     struct pl_rows *rows, struct pl_err *err)
{
    json_t *names = pl_notify_types(f);

    *types = names ? pl_json_text(names, JSON_COMPACT) : NULL;
    json_decref(names);
    if (!*types)
        return pl_err_nomem(err);
    return pl_sql_query(c, err, rows,
                        "SELECT id, at_us, type, data FROM event WHERE id > ?1 AND (type = 'recovered' OR"
                        " type IN (SELECT value FROM json_each(?2))) ORDER BY id LIMIT ?3",
                        "isi", cursor, *types, most);
}

/* Notes that events after the cursor are no longer in the table, whose first one is `first`. */
static void check_kept(struct pl_notify_search *s, int64_t first)
{
    if (first <= s->cursor + 1)
        return;
    snprintf(s->gap, sizeof s->gap, "up to %" PRId64 " older events, which the daemon no longer keeps", first - 1 - s->cursor);
    s->cursor = first - 1;
}

/* Looks at one row. Returns 1 and the event if it is wanted, 0 if not. */
static int look_at(struct pl_conn *c, const struct pl_notify_filter *f, const struct pl_rows *rows, struct pl_notify_search *s,
                   struct pl_notify_event *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *data = pl_col_json(rows, 3);
    const char *type = pl_col_text(rows, 2);
    bool wanted = false;
    int r = data ? pl_notify_events_wanted(c, f, type, data, &wanted, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    if (pl_streq(type, "recovered"))
        snprintf(s->gap, sizeof s->gap, "events before the daemon was recovered from its log, which does not have them");
    if (wanted && pl_col_int(rows, 1) >= s->give_up_us) {
        ret->id = pl_col_int(rows, 0);
        ret->at_us = pl_col_int(rows, 1);
        snprintf(ret->type, sizeof ret->type, "%s", type);
        ret->data = TAKE_PTR(data);
        return 1;
    }
    s->given_up += wanted;
    s->cursor = pl_col_int(rows, 0);
    return 0;
}

int pl_notify_events_next(struct pl_db *db, const struct pl_notify_filter *f, struct pl_notify_search *s,
                          struct pl_notify_event *ret, struct pl_err *err)
{
    _cleanup_free_ char *types = NULL;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t first = 0, last = 0, n = 0;
    int r = pl_sql_int(rd.conn, err, &first, "SELECT coalesce(min(id), 0) FROM event", "");

    r = r < 0 ? r : pl_sql_int(rd.conn, err, &last, "SELECT coalesce(max(id), 0) FROM event", "");
    if (r < 0)
        return r;
    check_kept(s, first);
    r = read_rows(rd.conn, f, s->cursor, PL_NOTIFY_PAGE, &types, &rows, err);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        n++;
        r = look_at(rd.conn, f, &rows, s, ret, err);
        if (r != 0)
            return r;
    }
    if (r < 0)
        return r;
    if (n == PL_NOTIFY_PAGE)
        return PL_EBUSY;
    s->cursor = PL_MAX(s->cursor, last); /* rows up to `last` were there when the query began */
    return 0;
}

int pl_notify_events_count(struct pl_db *db, const struct pl_notify_filter *f, int64_t cursor, int64_t most, int64_t *ret,
                           struct pl_err *err)
{
    _cleanup_free_ char *types = NULL;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t n = 0;
    int r = read_rows(rd.conn, f, cursor, -1, &types, &rows, err);

    while (r >= 0 && n < most && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *data = pl_col_json(&rows, 3);
        bool wanted = false;

        r = data ? pl_notify_events_wanted(rd.conn, f, pl_col_text(&rows, 2), data, &wanted, err) : pl_err_nomem(err);
        n += wanted;
    }
    *ret = n;
    return PL_MIN(r, 0);
}
