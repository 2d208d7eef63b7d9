/* One round of collection: marks, decides the next state of each pack, changes the states in logged
 * transactions, removes doomed packs and copies live records out of mostly dead ones. */
#include "pipelined/db/gc/gc_round.h"

#include "pipelined/db/gc/gc_roots.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "storage/base/clock.h"
#include "storage/dataset/commit/commit.h"
#include "storage/store/project_stores.h"
#include "storage/system/log_line.h"

#define REMOVE_MANY 1000u /* objects per S3 request */

/* A row of pack_state. */
struct state_row {
    struct pl_hash pack;
    int64_t seq, at_us;
    bool doomed;
    bool met; /* the store has the pack */
};

/* A list of packs and their new states, changed together. */
struct step {
    struct pl_gc_change *list;
    size_t n, cap;
};

struct round {
    struct pl_gc_round *g;
    struct pl_store *store;
    struct pl_gc_mark *mark;
    struct pl_gc_pack *packs;
    size_t n_packs;
    struct state_row *rows;
    size_t n_rows, cap_rows;
    struct pl_map by_pack; /* pack → index of its element in `rows`, + 1 */
    int64_t oldest;        /* log position of the oldest session or lease; a pack condemned later must wait */
    /* all store holds (pl_store_hold) that existed when a pack was last condemned have been released */
    bool quiet;
    bool condemned; /* this round condemned a pack */
    bool waits;     /* a pack that an earlier round condemned cannot be doomed yet */
    struct step condemn, revive, doom, gone;
};

static void round_finish(struct round *r)
{
    pl_gc_mark_destroy(r->mark);
    free(r->packs);
    free(r->rows);
    pl_map_finish(&r->by_pack, NULL);
    free(r->condemn.list);
    free(r->revive.list);
    free(r->doom.list);
    free(r->gone.list);
}

static uint64_t object_bytes(const struct pl_gc_pack *p)
{
    return p->bytes + PL_PACK_OVERHEAD(p->records);
}

static void note(struct round *r, const char *phase, uint64_t done, uint64_t all)
{
    if (r->g->watch.note)
        r->g->watch.note(r->g->watch.self, phase, done, all);
}

static int stopped(const struct round *r, struct pl_err *err)
{
    return r->g->watch.stop && r->g->watch.stop(r->g->watch.self) ? pl_err_set(err, PL_ECANCELED, "the collection was stopped")
                                                                  : 0;
}

/* ---- before the mark ---- */

static int add_row(struct round *r, const struct state_row *row, struct pl_err *err)
{
    if (r->n_rows == r->cap_rows) {
        size_t cap = r->cap_rows ? r->cap_rows * 2 : 64;
        struct state_row *rows = reallocarray(r->rows, cap, sizeof *rows);

        if (!rows)
            return pl_err_nomem(err);
        r->rows = rows;
        r->cap_rows = cap;
    }
    r->rows[r->n_rows++] = *row;
    return pl_map_put(&r->by_pack, row->pack.b, PL_HASH_BYTES, (void *)(uintptr_t)r->n_rows, NULL, err);
}

static struct state_row *row_of(const struct round *r, const struct pl_hash *pack)
{
    uintptr_t at = (uintptr_t)pl_map_get(&r->by_pack, pack->b, PL_HASH_BYTES);

    return at ? &r->rows[at - 1] : NULL;
}

static int read_states(struct round *r, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int e = pl_sql_query(c, err, &rows, "SELECT pack, seq, at_us, state = 'doomed' FROM pack_state WHERE project = ?", "s",
                         r->g->project);

    while (e >= 0 && (e = pl_sql_next(c, &rows, err)) > 0) {
        struct state_row row = {.pack = pl_col_hash(&rows, 0),
                                .seq = pl_col_int(&rows, 1),
                                .at_us = pl_col_int(&rows, 2),
                                .doomed = pl_col_int(&rows, 3) != 0};

        e = add_row(r, &row, err);
    }
    return e;
}

/* Reads the oldest session or lease and the packs' states, before the roots are read. */
static int look(struct round *r, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(r->g->db);
    int e = read_states(r, rd.conn, err);

    e = e < 0 ? e : pl_pack_state_oldest_reader(rd.conn, r->g->project, pl_clock_wall_us(), &r->oldest, err);
    r->quiet = pl_store_quiet_since(r->store, r->g->condemned_at);
    return e;
}

/* ---- the mark ---- */

static void commits_marked(void *self, uint64_t done, uint64_t all)
{
    note(self, "mark", done, all);
}

/* Marks the project and fills r->packs and the sums. */
static int mark(struct round *r, struct pl_err *err)
{
    struct pl_gc_round *g = r->g;
    struct pl_gc_mark_config config = {.store = r->store, .stop = g->watch.stop, .self = g->watch.self};
    struct pl_gc_roots roots = {.db = g->db,
                                .opens = g->opens,
                                .keep = g->keep,
                                .keeper = g->keeper,
                                .project = g->project,
                                .going = g->going,
                                .progress = commits_marked,
                                .self = r};
    struct pl_gc_mark_stats stats;
    int e = pl_project_stores_get(g->stores, g->project, &r->store, err);

    config.store = r->store;
    e = e < 0 ? e : look(r, err);
    e = e < 0 ? e : pl_gc_mark_create(&config, &r->mark, err);
    e = e < 0 ? e : pl_gc_mark_roots(&roots, r->mark, err);
    e = e < 0 ? e : pl_gc_mark_finish(r->mark, &r->packs, &r->n_packs, err);
    if (e < 0)
        return e;
    pl_gc_mark_stats(r->mark, &stats);
    g->sums.missing += stats.missing;
    for (size_t i = 0; i < r->n_packs; i++) {
        g->sums.packs++;
        g->sums.bytes += object_bytes(&r->packs[i]);
        g->sums.live_bytes += r->packs[i].live_bytes;
    }
    return 0;
}

/* ---- the next state of each pack ---- */

static int add(struct step *s, const struct pl_hash *pack, const char *state, uint64_t bytes, struct pl_err *err)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct pl_gc_change *list = reallocarray(s->list, cap, sizeof *list);

        if (!list)
            return pl_err_nomem(err);
        s->list = list;
        s->cap = cap;
    }
    s->list[s->n++] = (struct pl_gc_change){.pack = *pack, .state = state, .bytes = bytes};
    return 0;
}

static int judge(struct round *r, const struct pl_gc_pack *p, struct pl_err *err)
{
    struct state_row *row = row_of(r, &p->id);

    if (row)
        row->met = true;
    if (!row)
        return p->judged && !pl_gc_pack_needed(p) ? add(&r->condemn, &p->id, PL_PACK_CONDEMNED, object_bytes(p), err) : 0;
    if (pl_gc_pack_needed(p))
        return add(&r->revive, &p->id, PL_PACK_REVIVED, 0, err);
    if (r->g->may_doom && r->quiet && row->seq <= r->oldest && !p->unread)
        return add(&r->doom, &p->id, PL_PACK_DOOMED, object_bytes(p), err);
    r->waits = true;
    r->g->sums.waiting_packs++;
    r->g->sums.waiting_bytes += object_bytes(p);
    return 0;
}

/* Drops the state of a condemned pack that is no longer in the store. If the pack appears again, it counts as
 * a new pack. */
static int forget_lost(struct round *r, struct pl_err *err)
{
    int e = 0;

    for (size_t i = 0; i < r->n_rows && e == 0; i++)
        if (!r->rows[i].met && !r->rows[i].doomed)
            e = add(&r->revive, &r->rows[i].pack, PL_PACK_REVIVED, 0, err);
    return e;
}

/* Sets the visibility of packs in memory before the database changes, so that no new look-up finds packs that
 * are being condemned or doomed. */
static void set_seen(struct round *r, const struct step *s, enum pl_pack_seen seen)
{
    for (size_t i = 0; i < s->n; i++)
        pl_store_set_seen(r->store, &s->list[i].pack, seen);
}

/* Restores the visibility of packs whose state the transaction did not change: reads each pack's state from
 * the database and applies it in memory. */
static int set_back(struct round *r, const struct step *s, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(r->g->db);
    int e = 0;

    for (size_t i = 0; i < s->n && e == 0; i++) {
        char state[PL_GC_STATE_BYTES];

        if (s->list[i].done)
            continue;
        e = pl_pack_state_get(rd.conn, r->g->project, &s->list[i].pack, state, err);
        if (e == 0)
            pl_pack_state_apply(r->store, &s->list[i].pack, state);
    }
    return e;
}

static int take(struct round *r, struct step *s, struct pl_err *err)
{
    struct pl_err ignored;
    int e = 0;

    for (size_t at = 0; at < s->n && e == 0;) {
        struct pl_gc_tx_args args = {.project = r->g->project,
                                     .changes = s->list + at,
                                     .n = PL_MIN(s->n - at, (size_t)PL_GC_TX_PACKS),
                                     .budget_us = r->g->budget_us};

        e = pl_db_run(r->g->db, PL_TX_LOGGED, pl_tx_pack_state, &args, err);
        for (size_t i = 0; i < args.n && e < 0; i++)
            args.changes[i].done = false;
        at += args.seen;
    }
    return e < 0 ? (set_back(r, s, &ignored), e) : set_back(r, s, err);
}

static int condemn(struct round *r, struct pl_err *err)
{
    int e;

    if (!r->condemn.n)
        return 0;
    set_seen(r, &r->condemn, PL_PACK_HIDDEN);
    e = take(r, &r->condemn, err);
    r->g->condemned_at = pl_store_moment(r->store);
    for (size_t i = 0; i < r->condemn.n; i++) {
        r->condemned = r->condemned || r->condemn.list[i].done;
        r->g->sums.waiting_packs += r->condemn.list[i].done;
        r->g->sums.waiting_bytes += r->condemn.list[i].done ? r->condemn.list[i].bytes : 0;
    }
    r->condemn.n = 0;
    return e;
}

/* ---- copies ---- */

static int copy_one(struct round *r, struct pl_gc_copy *copy, const struct pl_gc_pack *p, struct pl_err *err)
{
    struct pl_err why = {0};
    int e = pl_gc_copy_pack(copy, &p->id, &why);

    if (e == PL_ECORRUPT || e == PL_EFORMAT) { /* not an error of the round: fsck reports damaged packs */
        pl_log_warn("gc", "a damaged pack of project %s is left as it is: %s", r->g->project, why.msg);
        return 0;
    }
    if (e < 0) {
        *err = why;
        return e;
    }
    r->g->sums.copied_packs++;
    r->g->sums.copied_bytes += p->live_bytes;
    return add(&r->condemn, &p->id, PL_PACK_CONDEMNED, object_bytes(p), err);
}

static int copy_chosen(struct round *r, const uint8_t *chosen, uint64_t all, struct pl_err *err)
{
    _cleanup_(pl_gc_copy_destroyp) struct pl_gc_copy *copy = NULL;
    uint64_t done = 0;
    int e = pl_gc_copy_create(r->store, r->mark, &copy, err);

    for (size_t i = 0; i < r->n_packs && e == 0; i++) {
        if ((chosen[i / 8] >> (i % 8) & 1) == 0 || row_of(r, &r->packs[i].id))
            continue;
        note(r, "copy", done++, all);
        e = stopped(r, err);
        e = e < 0 ? e : copy_one(r, copy, &r->packs[i], err);
    }
    return e < 0 ? e : pl_gc_copy_finish(copy, err);
}

/* Copies the live records of mostly dead and small packs into new packs and condemns the old ones. */
static int copy(struct round *r, struct pl_err *err)
{
    _cleanup_free_ uint8_t *chosen = calloc(r->n_packs / 8 + 1, 1);
    /* protects the copies from garbage collection, because nothing refers to them before the next mark */
    struct pl_store_hold hold = {0};
    uint64_t all = 0;
    int e;

    if (!chosen)
        return pl_err_nomem(err);
    pl_gc_copy_choose(r->packs, r->n_packs, chosen);
    for (size_t i = 0; i < r->n_packs; i++)
        all += chosen[i / 8] >> (i % 8) & 1;
    if (all == 0)
        return 0;
    pl_store_hold(r->store, &hold);
    e = copy_chosen(r, chosen, all, err);
    if (e < 0)
        r->condemn.n = 0; /* keep the old packs: the copies are incomplete and become garbage */
    pl_store_release(&hold);
    return e < 0 ? pl_err_wrap(err, e, "cannot copy the needed records out of mostly unneeded packs") : condemn(r, err);
}

/* ---- removal ---- */

static int remember(struct round *r, const struct pl_hash *pack, void *value, struct pl_err *err)
{
    struct pl_map *m = r->g->removed;

    if (m->len >= PL_GC_REMOVED_MAX && !pl_map_get(m, pack->b, PL_HASH_BYTES)) {
        pl_map_finish(m, NULL);
        *m = (struct pl_map){0};
    }
    return pl_map_put(m, pack->b, PL_HASH_BYTES, value, NULL, err);
}

/* Records that a pack was removed. Counts the pack in the sums if this daemon doomed it and it was not
 * counted before. */
static int note_removed(struct round *r, const struct pl_hash *pack, struct pl_err *err)
{
    uintptr_t value = (uintptr_t)pl_map_get(r->g->removed, pack->b, PL_HASH_BYTES);

    if (value > (uintptr_t)PL_GC_REMOVED) {
        r->g->sums.freed_packs++;
        r->g->sums.freed_bytes += value;
    }
    return remember(r, pack, PL_GC_REMOVED, err);
}

/* Removes at most REMOVE_MANY packs in one request. After a start, packs that an earlier daemon doomed are
 * removed too: it may have died before it removed them. */
static int remove_some(struct round *r, const struct pl_hash *packs, size_t n, struct pl_err *err)
{
    char(*keys)[PL_PACK_KEY_BYTES] = calloc(n, sizeof *keys);
    const char **list = calloc(n, sizeof *list);
    int e = keys && list ? 0 : pl_err_nomem(err);

    for (size_t i = 0; i < n && e == 0; i++)
        list[i] = pl_pack_key(r->g->project, &packs[i], keys[i]);
    e = e < 0 ? e : pl_object_remove_many(pl_store_objects(r->store), list, n, err);
    for (size_t i = 0; i < n && e == 0; i++)
        e = note_removed(r, &packs[i], err);
    free(keys);
    free(list);
    return e;
}

static int remove_all(struct round *r, const struct pl_hash *packs, size_t n, struct pl_err *err)
{
    int e = 0;

    for (size_t at = 0; at < n && e == 0; at += REMOVE_MANY) {
        note(r, "remove", at, n);
        e = remove_some(r, packs + at, PL_MIN(n - at, (size_t)REMOVE_MANY), err);
    }
    return e < 0 ? e : pl_object_flush(pl_store_objects(r->store), err);
}

/* Deletes rows of packs that were doomed more than PL_GC_GONE_US ago. */
static int add_gone(struct round *r, struct pl_err *err)
{
    int64_t before_us = pl_clock_wall_us() - PL_GC_GONE_US;
    int e = 0;

    for (size_t i = 0; i < r->n_rows && e == 0; i++)
        if (r->rows[i].doomed && r->rows[i].at_us < before_us)
            e = add(&r->gone, &r->rows[i].pack, PL_PACK_GONE, 0, err);
    e = e < 0 ? e : take(r, &r->gone, err);
    for (size_t i = 0; i < r->gone.n; i++)
        if (r->gone.list[i].done)
            pl_map_remove(r->g->removed, r->gone.list[i].pack.b, PL_HASH_BYTES);
    return e;
}

/* Removes the packs doomed now, and those doomed earlier that this daemon has not removed yet. */
static int remove_doomed(struct round *r, struct pl_err *err)
{
    struct pl_hash *packs = reallocarray(NULL, r->doom.n + r->n_rows + 1, sizeof *packs);
    size_t n = 0;
    int e = packs ? 0 : pl_err_nomem(err);

    for (size_t i = 0; i < r->doom.n && e == 0; i++) {
        const struct pl_gc_change *c = &r->doom.list[i];

        if (!c->done)
            continue;
        /* the size of a pack's object is never 1, so it cannot be mistaken for PL_GC_REMOVED */
        e = remember(r, &c->pack, (void *)(uintptr_t)c->bytes, err);
        packs[n++] = c->pack;
    }
    for (size_t i = 0; i < r->n_rows && e == 0; i++)
        if (r->rows[i].doomed && pl_map_get(r->g->removed, r->rows[i].pack.b, PL_HASH_BYTES) != PL_GC_REMOVED)
            packs[n++] = r->rows[i].pack;
    e = e < 0 ? e : remove_all(r, packs, n, err);
    free(packs);
    return e < 0 ? e : add_gone(r, err); /* after an error the next round removes the rest */
}

/* ---- a round ---- */

/* Sets `again` if no session, lease or store hold delays the packs that were condemned in this round. */
static int look_ahead(struct round *r, uint64_t seq, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(r->g->db);
    int64_t oldest;
    int e = pl_pack_state_oldest_reader(rd.conn, r->g->project, pl_clock_wall_us(), &oldest, err);

    if (e == 0)
        r->g->again = r->g->may_doom && (int64_t)seq <= oldest && pl_store_quiet_since(r->store, r->g->condemned_at);
    return e;
}

static int carry_out(struct round *r, struct pl_err *err)
{
    int e;

    set_seen(r, &r->doom, PL_PACK_DROPPED);
    e = take(r, &r->revive, err);
    e = e < 0 ? e : take(r, &r->doom, err);
    e = e < 0 ? e : condemn(r, err);
    e = e < 0 ? e : remove_doomed(r, err);
    return e < 0 ? e : copy(r, err);
}

int pl_gc_collect(struct pl_gc_round *g, struct pl_err *err)
{
    _cleanup_(round_finish) struct round r = {.g = g};
    int e = mark(&r, err);

    g->again = false;
    /* a pack with only unreachable records may be removed only after all reachable records are durable */
    e = e < 0 ? e : pl_store_flush(r.store, err);
    for (size_t i = 0; i < r.n_packs && e == 0; i++)
        e = judge(&r, &r.packs[i], err);
    e = e < 0 ? e : forget_lost(&r, err);
    e = e < 0 ? e : carry_out(&r, err);
    if (e == 0 && r.condemned)
        e = look_ahead(&r, pl_db_log_seq(g->db), err);
    g->waiting = g->waiting || r.condemned || r.waits;
    return e;
}

/* ---- a dry run ---- */

/* Returns a repo's entry in the list of deleted history, making it if needed; NULL: the list is full. */
static json_t *repo_entry(json_t *repos, const struct pl_commit *c)
{
    json_t *one;
    size_t i;

    json_array_foreach(repos, i, one)
    {
        if (pl_streq(json_string_value(json_object_get(one, "project")), c->project) &&
            pl_streq(json_string_value(json_object_get(one, "repo")), c->repo))
            return one;
    }
    if (json_array_size(repos) >= PL_GC_REPOS_MAX)
        return NULL;
    one = json_pack("{s:s, s:s, s:I, s:I}", "project", c->project, "repo", c->repo, "commits", (json_int_t)0, "bytes",
                    (json_int_t)0);
    return one && json_array_append_new(repos, one) == 0 ? one : NULL;
}

static void count_in(json_t *entry, uint64_t bytes)
{
    json_int_t commits = json_integer_value(json_object_get(entry, "commits")),
               before = json_integer_value(json_object_get(entry, "bytes"));

    (void)json_object_set_new(entry, "commits", json_integer(commits + 1));
    (void)json_object_set_new(entry, "bytes", json_integer(before + (json_int_t)bytes));
}

/* Counts, for its repo, a commit object to which nothing refers any more and the bytes that only it marks.
 * Parts of the commit may have been removed already. */
static int dead_commit(void *self, struct pl_gc_mark *m, const struct pl_hash *id, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_gc_mark_stats before, after;
    struct round *r = self;
    struct pl_commit c;
    json_t *entry;

    if (!arena)
        return pl_err_nomem(err);
    if (pl_store_get(r->store, id, PL_REC_COMMIT, &bytes, NULL) < 0 ||
        pl_commit_decode(bytes.data, bytes.len, arena, &c, NULL) < 0)
        return 0;
    pl_gc_mark_stats(m, &before);
    (void)pl_gc_mark_record(m, id);
    (void)!pl_gc_mark_object(m, &c, NULL);
    pl_gc_mark_stats(m, &after);
    entry = repo_entry(r->g->sums.repos, &c);
    if (entry)
        count_in(entry, after.bytes - before.bytes);
    return stopped(r, err);
}

static void foresee_pack(struct round *r, const struct pl_gc_pack *p, bool chosen)
{
    struct pl_gc_report *sums = &r->g->sums;
    bool condemned = row_of(r, &p->id) != NULL;

    if (!pl_gc_pack_needed(p) && (condemned || p->judged)) {
        sums->freed_packs++;
        sums->freed_bytes += object_bytes(p);
    } else if (chosen && !condemned) {
        sums->copied_packs++;
        sums->copied_bytes += p->live_bytes;
        sums->freed_bytes += p->bytes - p->live_bytes;
    }
}

int pl_gc_foresee(struct pl_gc_round *g, struct pl_err *err)
{
    _cleanup_(round_finish) struct round r = {.g = g};
    _cleanup_free_ uint8_t *chosen = NULL;
    int e = mark(&r, err);

    if (e < 0)
        return e;
    chosen = calloc(r.n_packs / 8 + 1, 1);
    if (!g->sums.repos)
        g->sums.repos = json_array();
    if (!chosen || !g->sums.repos)
        return pl_err_nomem(err);
    pl_gc_copy_choose(r.packs, r.n_packs, chosen);
    for (size_t i = 0; i < r.n_packs; i++)
        foresee_pack(&r, &r.packs[i], chosen[i / 8] >> (i % 8) & 1);
    return pl_gc_mark_dead_commits(r.mark, dead_commit, &r, err);
}
