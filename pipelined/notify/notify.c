/* notify: one thread owns the rules. Other threads leave a word for it under the lock: that there are new events, that rules
 * have changed, that a delivery has ended.
 *
 * New events are read once, and looked at for all rules that are QUIET. A rule that is BEHIND has a position of its own, from
 * which it finds its next event itself. */
#include "pipelined/notify/notify.h"

#include "pipelined/notify/notify_events.h"
#include "pipelined/notify/notify_send.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/system/log_line.h"
#include "storage/system/timed_cond.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#define DOUBTFUL_MAX (PL_NOTIFY_SENDS_MAX / 2)
#define AGAIN_MS     5000    /* wait after the database could not be read or written */
#define SAVE_EVENTS  1000    /* positions of quiet rules are written after so many events, */
#define SAVE_MS      3600000 /* or at the first event after an hour: one that is killed leaves no old position behind */
#define GIVE_UP_US   ((int64_t)PL_NOTIFY_GIVE_UP_S * 1000000)

enum rule_state { QUIET, BEHIND, SENDING };

struct rule {
    struct pl_notify_state at;
    char project[PL_NAME_MAX_BYTES + 1];
    json_t *settings;
    struct pl_notify_filter filter; /* of `settings` and `project` */
    enum rule_state state;
    int64_t due_ms; /* BEHIND: when it is its turn; monotonic */
    bool there;     /* found in the database by the reading that goes on */
    struct rule *next;
};

struct pl_notify {
    struct pl_db *db;
    struct pl_notify_sender *sender;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, up to `ended` */
    pthread_cond_t wake;
    struct pl_notify_send *answered;
    bool reload, fresh, stopping, ended;
    /* the thread's own: */
    struct rule *rules;
    int64_t tail;     /* events up to here were looked at for rules that are QUIET */
    int64_t saved;    /* `tail` when positions of quiet rules were written last, */
    int64_t saved_ms; /* and the time then; monotonic */
    unsigned n_sending, n_doubtful;
};

/* ---- positions ---- */

/* Writes the positions of the rules in `list`. If that fails, it is done with the next delivery. */
static void save(struct pl_notify *n, const struct pl_notify_state *const *list, size_t count)
{
    struct pl_notify_saving saving = {list, count};
    struct pl_err err = {0};

    if (count > 0 && pl_db_run(n->db, PL_TX_UNLOGGED, pl_tx_notify_save, &saving, &err) < 0)
        pl_log_warn("notify", "positions of notifications cannot be written: %s", err.msg);
}

/* Writes the positions of all rules that are not SENDING. */
static void save_all(struct pl_notify *n)
{
    const struct pl_notify_state *list[PL_NOTIFY_MAX];
    size_t count = 0;

    for (struct rule *r = n->rules; r && count < PL_ARRAY_SIZE(list); r = r->next) {
        if (r->state == QUIET)
            r->at.cursor = PL_MAX(r->at.cursor, n->tail);
        if (r->state != SENDING)
            list[count++] = &r->at;
    }
    save(n, list, count);
    n->saved = n->tail;
    n->saved_ms = pl_clock_mono_ms();
}

/* ---- the rules ---- */

static void rule_free(struct rule *r)
{
    pl_notify_state_finish(&r->at);
    json_decref(r->settings);
    free(r);
}

static struct rule *find(struct pl_notify *n, const char *name, int64_t created_us)
{
    struct rule *r = n->rules;

    while (r && !(r->at.created_us == created_us && pl_streq(r->at.name, name)))
        r = r->next;
    return r;
}

/* Adds a rule of the database, whose columns are name, project, spec, created_us and its state. */
static int add_rule(struct pl_notify *n, const struct pl_rows *rows, int64_t newest, struct rule **ret, struct pl_err *err)
{
    struct rule *rule = calloc(1, sizeof *rule);
    int r;

    if (!rule)
        return pl_err_nomem(err);
    snprintf(rule->at.name, sizeof rule->at.name, "%s", pl_col_text(rows, 0));
    snprintf(rule->project, sizeof rule->project, "%s", pl_col_text(rows, 1));
    rule->at.created_us = pl_col_int(rows, 3);
    r = pl_notify_state_read(rows, 4, &rule->at, err);
    if (r < 0) {
        rule_free(rule);
        return r;
    }
    if (pl_col_int(rows, 4 + PL_NOTIFY_STATE_N) == 0) { /* it came from the log, without a position */
        rule->at.cursor = newest;
        snprintf(rule->at.gap, sizeof rule->at.gap,
                 "events before the daemon was recovered from its log, which does not have them");
    }
    rule->at.failures = 0; /* the first attempt after a start is made at once */
    rule->state = BEHIND;
    rule->next = n->rules;
    n->rules = rule;
    *ret = rule;
    return 0;
}

/* Sets the settings of a rule to those of the database. If they changed, the next attempt is made at once. */
static int take_settings(struct rule *rule, const struct pl_rows *rows, struct pl_err *err)
{
    json_t *settings = pl_col_json(rows, 2);

    if (!settings)
        return pl_err_nomem(err);
    if (json_equal(settings, rule->settings)) {
        json_decref(settings);
        return 0;
    }
    if (rule->settings) {
        rule->at.failures = 0;
        rule->due_ms = 0;
    }
    if (rule->state == QUIET)
        rule->state = BEHIND;
    json_decref(rule->settings);
    rule->settings = settings;
    pl_notify_filter_make(settings, rule->project, &rule->filter);
    return 0;
}

/* Takes rules that are not in the database any more off the list. */
static void remove_gone(struct pl_notify *n)
{
    for (struct rule **at = &n->rules; *at;) {
        struct rule *r = *at;

        if (r->there) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        rule_free(r);
    }
}

/* Brings the list of rules up to date with the database. */
static int read_rules(struct pl_notify *n, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(n->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t newest = 0;
    int r = pl_sql_int(rd.conn, err, &newest, "SELECT coalesce(max(id), 0) FROM event", "");

    if (!n->rules)
        n->tail = newest; /* new events are not looked at while there is no rule */
    for (struct rule *rule = n->rules; rule; rule = rule->next) {
        rule->there = false;
        if (rule->state == QUIET) /* all events up to `tail` were looked at with the settings of before */
            rule->at.cursor = PL_MAX(rule->at.cursor, n->tail);
    }
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             "SELECT n.name, n.project, n.spec, n.created_us, " PL_NOTIFY_STATE_COLUMNS ", s.cursor IS NOT NULL"
                             " FROM notify n LEFT JOIN notify_state s ON s.name = n.name",
                             "");
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        struct rule *rule = find(n, pl_col_text(&rows, 0), pl_col_int(&rows, 3));

        r = rule ? 0 : add_rule(n, &rows, newest, &rule, err);
        r = r < 0 ? r : take_settings(rule, &rows, err);
        if (r == 0)
            rule->there = true;
    }
    if (r == 0)
        remove_gone(n);
    return r;
}

/* ---- new events ---- */

/* Marks the quiet rules that want the event of this row. */
static int show_event(struct pl_notify *n, struct pl_conn *c, const struct pl_rows *rows, struct pl_err *err)
{
    const int64_t id = pl_col_int(rows, 0);
    const char *type = pl_col_text(rows, 1);
    const int index = pl_notify_type_index(type);
    _cleanup_(json_decrefp) json_t *data = NULL;
    int r = 0;

    for (struct rule *rule = n->rules; rule && r == 0 && index >= 0; rule = rule->next) {
        bool wanted = false;

        if (rule->state != QUIET || rule->at.cursor >= id || !rule->filter.states[index])
            continue;
        data = data ? data : pl_col_json(rows, 2);
        r = data ? pl_notify_events_wanted(c, &rule->filter, type, data, &wanted, err) : pl_err_nomem(err);
        if (r == 0 && wanted) {
            rule->state = BEHIND;
            rule->at.cursor = id - 1;
            rule->due_ms = pl_clock_mono_ms();
        }
    }
    return r;
}

/* Looks at the events that came since the last call, up to PL_NOTIFY_PAGE; `*ret_more`: there may be others. */
static int look_at_new(struct pl_notify *n, bool *ret_more, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(n->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int64_t first = 0;
    int count = 0;
    int r = pl_sql_int(rd.conn, err, &first, "SELECT coalesce(min(id), 0) FROM event", "");

    for (struct rule *rule = n->rules; rule && r == 0 && first > n->tail + 1; rule = rule->next)
        if (rule->state == QUIET) { /* events are gone that were not looked at: the rule finds that out itself */
            rule->state = BEHIND;
            rule->at.cursor = PL_MAX(rule->at.cursor, n->tail);
        }
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows, "SELECT id, type, data FROM event WHERE id > ? ORDER BY id LIMIT ?", "ii",
                             n->tail, (int64_t)PL_NOTIFY_PAGE);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        r = show_event(n, rd.conn, &rows, err);
        if (r < 0)
            return r;
        n->tail = pl_col_int(&rows, 0);
        count++;
    }
    *ret_more = count == PL_NOTIFY_PAGE;
    return r;
}

/* ---- deliveries ---- */

/* Says what the next delivery has to say of events before it. */
static void say_missed(const struct rule *rule, char *out, size_t size)
{
    char given_up[80] = "";

    if (rule->at.missed)
        snprintf(given_up, sizeof given_up, "%" PRId64 " events, which could not be delivered for a day", rule->at.missed);
    snprintf(out, size, "%s%s%s", given_up, *given_up && *rule->at.gap ? "; " : "", rule->at.gap);
}

static void note_given_up(struct rule *rule, int64_t count)
{
    rule->at.given_up += count;
    rule->at.missed += count;
}

/* Counts a failed attempt to deliver the event, and gives it up if it is too old. */
static void note_failure(struct rule *rule, int64_t id, int64_t at_us, const struct pl_err *why, uint32_t retry_after_s)
{
    const int64_t now_us = pl_clock_wall_us();
    uint32_t random;

    pl_random_bytes(&random, sizeof random);
    if (rule->at.failures == 0)
        pl_log_warn("notify", "notification %s: event %" PRId64 " was not delivered: %s", rule->at.name, id, why->msg);
    rule->at.failures++;
    rule->at.error_us = now_us;
    snprintf(rule->at.error, sizeof rule->at.error, "%s", why->msg);
    if (now_us - at_us > GIVE_UP_US) {
        pl_log_warn("notify", "notification %s: event %" PRId64 " is given up after a day: %s", rule->at.name, id, why->msg);
        rule->at.cursor = id;
        pl_notify_state_finish(&rule->at);
        note_given_up(rule, 1);
    }
    rule->state = BEHIND;
    rule->due_ms = pl_clock_mono_ms() + PL_MAX(pl_notify_wait_ms(rule->at.failures, random),
                                               PL_MIN((int64_t)retry_after_s * 1000, PL_NOTIFY_BACK_OFF_MAX_MS));
}

/* Moves the rule past an event, or past a part of it. Takes `part`. */
static void note_done(struct rule *rule, int64_t id, char *part)
{
    pl_notify_state_finish(&rule->at);
    rule->at.part = part;
    rule->at.cursor = part ? id - 1 : id;
    rule->state = BEHIND;
    rule->due_ms = pl_clock_mono_ms();
}

static void note_success(struct rule *rule, struct pl_notify_send *send)
{
    if (rule->at.failures)
        pl_log_info("notify", "notification %s: deliveries go on after %u failed attempts", rule->at.name, rule->at.failures);
    rule->at.failures = 0;
    rule->at.missed = 0;
    *rule->at.gap = '\0';
    rule->at.sent += send->next_part ? 0 : 1;
    rule->at.sent_us = pl_clock_wall_us();
    rule->at.sent_ms = send->took_ms;
    snprintf(rule->at.sent_event, sizeof rule->at.sent_event, "%s", send->event);
    note_done(rule, send->id, TAKE_PTR(send->next_part));
}

static void on_ended(struct pl_notify_send *send)
{
    struct pl_notify *n = send->arg;

    pthread_mutex_lock(&n->lock);
    send->next = n->answered;
    n->answered = send;
    pthread_cond_broadcast(&n->wake);
    pthread_mutex_unlock(&n->lock);
}

/* Notes what came of deliveries that have ended, writes positions, and frees them. */
static void settle(struct pl_notify *n, struct pl_notify_send *answered)
{
    const struct pl_notify_state *list[PL_NOTIFY_SENDS_MAX];
    size_t count = 0;

    while (answered) {
        struct pl_notify_send *send = answered;
        struct rule *rule = find(n, send->rule, send->created_us);
        struct pl_err err = {0};
        int r = pl_notify_send_result(send, &err);

        answered = send->next;
        assert(n->n_sending > 0 && count < PL_ARRAY_SIZE(list));
        n->n_sending--;
        n->n_doubtful -= send->doubtful;
        if (rule && r == PL_ECANCELED) {
            rule->state = BEHIND; /* the daemon stops */
        } else if (rule) {
            if (r < 0)
                note_failure(rule, send->id, send->at_us, &err, send->x.retry_after_s);
            else
                note_success(rule, send);
            list[count++] = &rule->at;
        }
        pl_notify_send_free(send);
    }
    save(n, list, count);
}

/* Finds the next event of a rule. Returns 1, or 0 if there is none now. */
static int next_event(struct pl_notify *n, struct rule *rule, struct pl_notify_event *ret, struct pl_err *err)
{
    struct pl_notify_search s = {.cursor = rule->at.cursor,
                                 .give_up_us = rule->at.failures ? pl_clock_wall_us() - GIVE_UP_US : INT64_MIN};
    int r = pl_notify_events_next(n->db, &rule->filter, &s, ret, err);

    if (*s.gap)
        snprintf(rule->at.gap, sizeof rule->at.gap, "%s", s.gap);
    if (s.given_up)
        pl_log_warn("notify", "notification %s: %" PRId64 " events are given up after a day", rule->at.name, s.given_up);
    note_given_up(rule, s.given_up);
    if (r == 0 || r == PL_EBUSY || (r > 0 && ret->id != rule->at.cursor + 1))
        pl_notify_state_finish(&rule->at); /* the event that was delivered in part is no longer wanted */
    assert(r <= 0 || s.cursor < ret->id);
    rule->at.cursor = s.cursor;
    return r;
}

/* Starts the delivery of a rule's next event. */
static void deliver(struct pl_notify *n, struct rule *rule)
{
    struct pl_notify_event event = {0};
    struct pl_notify_send *send = NULL;
    struct pl_err err = {0};
    char missed[300];
    struct pl_notify_parcel p = {.rule = rule->at.name,
                                 .project = rule->project,
                                 .created_us = rule->at.created_us,
                                 .settings = rule->settings,
                                 .event = &event,
                                 .missed = missed};
    int r = next_event(n, rule, &event, &err);

    if (r == 0) {
        rule->state = QUIET;
        return;
    }
    if (r < 0) {
        if (r != PL_EBUSY)
            pl_log_warn("notify", "notification %s: events cannot be read: %s", rule->at.name, err.msg);
        rule->due_ms = pl_clock_mono_ms() + (r == PL_EBUSY ? 0 : AGAIN_MS);
        return;
    }
    say_missed(rule, missed, sizeof missed);
    p.part = rule->at.part;
    r = pl_notify_send_make(n->sender, &p, &send, &err);
    if (r < 0) {
        note_failure(rule, event.id, event.at_us, &err, 0);
        save(n, &(const struct pl_notify_state *){&rule->at}, 1);
    } else if (send->nothing) {
        note_given_up(rule, send->gone);
        note_done(rule, event.id, NULL);
        pl_notify_send_free(send);
    } else {
        rule->state = SENDING;
        send->doubtful = rule->at.failures > 0;
        n->n_sending++;
        n->n_doubtful += send->doubtful;
        pl_notify_send_start(n->sender, send, on_ended, n);
    }
    pl_notify_event_finish(&event);
}

/* Returns the rule whose turn it is, the one that waits longest; NULL if there is none now. `*ret_ms`: when to look again. */
static struct rule *first_due(struct pl_notify *n, int64_t *ret_ms)
{
    const int64_t now = pl_clock_mono_ms();
    struct rule *first = NULL;

    *ret_ms = INT64_MAX;
    if (n->n_sending == PL_NOTIFY_SENDS_MAX)
        return NULL; /* until one has ended, which wakes the thread */
    for (struct rule *r = n->rules; r; r = r->next)
        if (r->state == BEHIND && (r->at.failures == 0 || n->n_doubtful < DOUBTFUL_MAX) && (!first || r->due_ms < first->due_ms))
            first = r;
    if (first && first->due_ms > now) {
        *ret_ms = first->due_ms - now;
        return NULL;
    }
    return first;
}

/* ---- the thread ---- */

/* One piece of work of the thread, without the lock: what other threads have asked for, or the next delivery. Returns how long
 * to wait before the next piece, 0 = not at all. */
static int64_t work(struct pl_notify *n, struct pl_notify_send *answered, bool *reload, bool *fresh)
{
    struct pl_err err = {0};
    struct rule *rule;
    int64_t ms = 0;

    settle(n, answered);
    if (*reload || *fresh) {
        bool more = false;
        int r = *reload ? read_rules(n, &err) : 0;

        *reload = r < 0;
        r = r < 0 || !n->rules ? r : look_at_new(n, &more, &err);
        *fresh = more || r < 0;
        if (r < 0) {
            pl_log_warn("notify", "rules and events cannot be read: %s", err.msg);
            return AGAIN_MS;
        }
        if (n->tail - n->saved >= SAVE_EVENTS || pl_clock_mono_ms() - n->saved_ms >= SAVE_MS)
            save_all(n);
    }
    rule = first_due(n, &ms);
    if (rule)
        deliver(n, rule);
    return rule || *fresh ? 0 : ms;
}

static void *run(void *arg)
{
    struct pl_notify *n = arg;
    int64_t ms = 0;

    pthread_mutex_lock(&n->lock);
    while (!n->stopping) {
        struct pl_notify_send *answered = TAKE_PTR(n->answered);
        bool reload = n->reload, fresh = n->fresh;

        n->reload = n->fresh = false;
        pthread_mutex_unlock(&n->lock);
        ms = work(n, answered, &reload, &fresh);
        pthread_mutex_lock(&n->lock);
        if (ms > 0 && !n->stopping && !n->answered && !n->reload && !n->fresh)
            pl_timed_cond_wait(&n->wake, &n->lock, ms);
        n->reload |= reload; /* what could not be done is tried again */
        n->fresh |= fresh;
    }
    pthread_mutex_unlock(&n->lock);
    pl_notify_sender_stop(n->sender);
    settle(n, TAKE_PTR(n->answered)); /* no delivery is left that could add to it */
    save_all(n);
    pthread_mutex_lock(&n->lock);
    n->ended = true;
    pthread_cond_broadcast(&n->wake);
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* ---- other threads ---- */

void pl_notify_event(struct pl_notify *n)
{
    pthread_mutex_lock(&n->lock);
    n->fresh = true;
    pthread_cond_broadcast(&n->wake);
    pthread_mutex_unlock(&n->lock);
}

void pl_notify_changed(struct pl_notify *n)
{
    pthread_mutex_lock(&n->lock);
    n->reload = true;
    pthread_cond_broadcast(&n->wake);
    pthread_mutex_unlock(&n->lock);
}

bool pl_notify_wants_all(const json_t *settings)
{
    return pl_notify_daemon_wide(settings);
}

int pl_notify_check(const struct pl_notify *n, const json_t *given, const json_t *before, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *all = before ? json_deep_copy(before) : json_object(), *out = NULL;
    int r;

    if (!all || (json_is_object(given) && json_object_update(all, (json_t *)given) < 0))
        return pl_err_nomem(err);
    r = pl_notify_settings_check(json_is_object(given) ? all : given, &out, err);
    r = r < 0 ? r : pl_notify_send_check_url(n->sender, pl_json_str(out, "url"), err);
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}

int pl_notify_test(struct pl_notify *n, const char *name, const char *project, const json_t *settings, json_t **ret,
                   struct pl_err *err)
{
    const struct pl_notify_parcel p = {.rule = name, .project = project, .settings = settings, .missed = ""};
    struct pl_notify_send *send = NULL;
    struct pl_err why = {0};
    int r = pl_notify_send_make(n->sender, &p, &send, &why);

    if (r == 0) {
        pl_notify_send_run(n->sender, send);
        r = pl_notify_send_result(send, &why);
    }
    *ret = json_pack("{s:i, s:I, s:s}", "status", send ? (int)send->x.status : 0, "ms", (json_int_t)(send ? send->took_ms : 0),
                     "error", r < 0 ? why.msg : "");
    pl_notify_send_free(send);
    return *ret ? 0 : pl_err_nomem(err);
}

int pl_notify_waiting(struct pl_notify *n, const char *project, const json_t *settings, int64_t cursor, int64_t *ret,
                      struct pl_err *err)
{
    struct pl_notify_filter filter;

    pl_notify_filter_make(settings, project, &filter);
    return pl_notify_events_count(n->db, &filter, cursor, PL_NOTIFY_WAITING_SHOWN, ret, err);
}

/* ---- start and stop ---- */

static void notify_free(struct pl_notify *n)
{
    while (n->rules) {
        struct rule *r = n->rules;

        n->rules = r->next;
        rule_free(r);
    }
    pl_notify_sender_destroy(n->sender);
    pthread_cond_destroy(&n->wake);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

int pl_notify_start(const struct pl_notify_config *config, struct pl_notify **ret, struct pl_err *err)
{
    const struct pl_notify_sender_config sender = {.db = config->db,
                                                   .stores = config->stores,
                                                   .outbound = config->outbound,
                                                   .secrets = config->secrets,
                                                   .secrets_self = config->secrets_self};
    struct pl_notify *n = calloc(1, sizeof *n);
    int r;

    if (!n)
        return pl_err_nomem(err);
    n->db = config->db;
    n->fresh = true;
    pl_timed_cond_init(&n->wake);
    pthread_mutex_init(&n->lock, NULL);
    r = pl_notify_sender_create(&sender, &n->sender, err);
    r = r < 0 ? r : read_rules(n, err); /* events from here on are for them, before the thread has had its first turn */
    n->saved = n->tail;
    n->saved_ms = pl_clock_mono_ms();
    if (r == 0 && pthread_create(&n->thread, NULL, run, n) != 0)
        r = pl_err_set(err, PL_EIO, "cannot start a thread for notifications");
    if (r < 0) {
        notify_free(n);
        return r;
    }
    pthread_setname_np(n->thread, "notify");
    *ret = n;
    return 0;
}

void pl_notify_drain(struct pl_notify *n)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->stopping = true;
    pthread_cond_broadcast(&n->wake);
    pthread_mutex_unlock(&n->lock);
}

bool pl_notify_drained(struct pl_notify *n, int64_t ms)
{
    bool ended = true;

    if (n) {
        pthread_mutex_lock(&n->lock);
        if (!n->ended)
            pl_timed_cond_wait(&n->wake, &n->lock, ms);
        ended = n->ended;
        pthread_mutex_unlock(&n->lock);
    }
    return ended;
}

struct pl_notify *pl_notify_destroy(struct pl_notify *n)
{
    if (!n)
        return NULL;
    pl_notify_drain(n);
    pthread_join(n->thread, NULL);
    notify_free(n);
    return NULL;
}
