/* notify_tx: validates, emits the records of notification rules, and writes how far they have come. */
#include "pipelined/db/tx/notify_tx.h"

#include "pipelined/db/tx/repo_tx.h"

#include <stdio.h>
#include <string.h>

static int no_rule(const char *name, struct pl_err *err)
{
    int r = pl_err_set(err, PL_ENOTFOUND, "notification \"%s\" does not exist", name);

    return pl_err_hint(err, r, "pipelinectl list notify");
}

/* Reads project, settings and age of a rule. Returns 1, or 0 if there is none. */
static int read_rule(struct pl_tx *tx, const char *name, char **ret_project, json_t **ret_settings, int64_t *ret_created_us,
                     struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(pl_tx_conn(tx), err, &rows, "SELECT project, created_us, spec FROM notify WHERE name = ?", "s", name);

    r = r < 0 ? r : pl_sql_next(pl_tx_conn(tx), &rows, err);
    if (r <= 0)
        return r;
    *ret_project = strdup(pl_col_text(&rows, 0));
    *ret_settings = pl_col_json(&rows, 2);
    *ret_created_us = pl_col_int(&rows, 1);
    return *ret_project && *ret_settings ? 1 : pl_err_nomem(err);
}

static int check_new(struct pl_tx *tx, const struct pl_notify_args *a, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &n, "SELECT count(*) FROM notify", "");

    if (r == 0 && n >= PL_NOTIFY_MAX)
        r = pl_err_set(err, PL_ELIMIT, "there are %u notifications already, the largest number allowed: delete unused ones",
                       PL_NOTIFY_MAX);
    /* creates the project "default" if needed */
    return r < 0 ? r : pl_tx_project_update(tx, &(struct pl_repo_args){.name = a->project}, err);
}

static int rule_event(struct pl_tx *tx, const char *project, const char *name, const char *change, struct pl_err *err)
{
    return pl_tx_event(tx, "notify", json_pack("{s:s, s:s, s:s}", "project", project, "notify", name, "change", change), err);
}

/* Sets where a new rule begins: after the newest event, and so before those of this transaction. */
static int begin_state(struct pl_tx *tx, const char *name, struct pl_err *err)
{
    return pl_sql_exec(pl_tx_conn(tx), err,
                       "INSERT OR REPLACE INTO notify_state(name, cursor) SELECT ?, coalesce(max(id), 0) FROM event", "s", name);
}

int pl_tx_notify_set(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_notify_args *a = arg;
    _cleanup_(json_decrefp) json_t *before = NULL, *merged = NULL;
    _cleanup_free_ char *project = NULL;
    int64_t created_us = pl_tx_now_us(tx);
    int r = pl_name_check("notification", a->name, err);

    r = r < 0 ? r : read_rule(tx, a->name, &project, &before, &created_us, err);
    if (r < 0)
        return r;
    if (a->update && (r == 0 || strcmp(project, a->project) != 0))
        return no_rule(a->name, err);
    if (r > 0 && !a->update) {
        r = pl_err_set(err, PL_EEXISTS, "notification \"%s\" exists already", a->name);
        return pl_err_hint(err, r, "pipelinectl update notify %s changes it", a->name);
    }
    r = a->update ? a->merge(a->self, a->spec, before, &merged, err) : check_new(tx, a, err);
    r = r < 0 ? r
              : pl_tx_emit(tx, PL_RECORD_NOTIFY,
                           json_pack("{s:s, s:s, s:O, s:I}", "name", a->name, "project", project ? project : a->project, "spec",
                                     a->update ? merged : a->spec, "at", (json_int_t)created_us),
                           err);
    r = r < 0 || a->update ? r : begin_state(tx, a->name, err);
    a->created_us = created_us;
    return r < 0 ? r : rule_event(tx, project ? project : a->project, a->name, a->update ? "updated" : "created", err);
}

int pl_tx_notify_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_notify_args *a = arg;
    _cleanup_(json_decrefp) json_t *settings = NULL;
    _cleanup_free_ char *project = NULL;
    int64_t created_us = 0;
    int r = read_rule(tx, a->name, &project, &settings, &created_us, err);

    if (r <= 0)
        return r < 0 ? r : no_rule(a->name, err);
    r = pl_tx_emit(tx, PL_RECORD_NOTIFY_DELETE, json_pack("{s:s}", "name", a->name), err);
    return r < 0 ? r : rule_event(tx, project, a->name, "deleted", err);
}

/* ---- how far a rule has come ---- */

int pl_notify_state_read(const struct pl_rows *rows, int at, struct pl_notify_state *ret, struct pl_err *err)
{
    const char *part = pl_col_text(rows, at + 1);

    ret->cursor = pl_col_int(rows, at);
    ret->part = *part ? strdup(part) : NULL;
    ret->sent = pl_col_int(rows, at + 2);
    ret->given_up = pl_col_int(rows, at + 3);
    ret->missed = pl_col_int(rows, at + 4);
    snprintf(ret->gap, sizeof ret->gap, "%s", pl_col_text(rows, at + 5));
    ret->failures = (unsigned)pl_col_int(rows, at + 6);
    ret->sent_us = pl_col_int(rows, at + 7);
    ret->sent_ms = pl_col_int(rows, at + 8);
    snprintf(ret->sent_event, sizeof ret->sent_event, "%s", pl_col_text(rows, at + 9));
    ret->error_us = pl_col_int(rows, at + 10);
    snprintf(ret->error, sizeof ret->error, "%s", pl_col_text(rows, at + 11));
    return *part && !ret->part ? pl_err_nomem(err) : 0;
}

void pl_notify_state_finish(struct pl_notify_state *state)
{
    free(TAKE_PTR(state->part));
}

int pl_tx_notify_save(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_notify_saving *a = arg;
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        const struct pl_notify_state *s = a->states[i];

        r = pl_sql_exec(pl_tx_conn(tx), err,
                        "INSERT OR REPLACE INTO notify_state(name, cursor, part, sent, given_up, missed, gap, failures, sent_us,"
                        " sent_ms, sent_event, error_us, error)"
                        " SELECT ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14"
                        " FROM notify WHERE name = ?1 AND created_us = ?2",
                        "siisiiisiiisis", s->name, s->created_us, s->cursor, s->part ? s->part : "", s->sent, s->given_up,
                        s->missed, s->gap, (int64_t)s->failures, s->sent_us, s->sent_ms, s->sent_event, s->error_us, s->error);
    }
    return PL_MIN(r, 0);
}
