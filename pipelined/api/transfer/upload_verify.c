/* Packs to verify (unread packs) are in a list, which one thread works off, and in rows of the database
 * (notes). A thread locks a pack (hold) while it changes the pack's object or note. */
#include "pipelined/api/transfer/upload_verify.h"

#include "pipelined/db/writer/db_fsck.h"
#include "pipelined/policy/principal.h"
#include "storage/base/clock.h"
#include "storage/base/map.h"
#include "storage/http/cancel.h"
#include "storage/pack/pack_format.h"
#include "storage/pack/pack_reader.h"
#include "storage/system/log_line.h"
#include "storage/system/timed_cond.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#define DOUBT_AT_ONCE  1000 /* packs per transaction */
#define WHY_MAX        256
#define EVENT_TEXT_MAX 3000 /* bytes; an event has at most 8 KiB, before JSON escapes */

struct waiting {
    struct pl_direct_upload pack;
    struct waiting *next;
    bool again; /* the object was overwritten after the thread began to read it */
};

struct pl_read_back {
    struct pl_db *db;
    struct pl_project_stores *stores;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t change;
    pthread_t thread;
    bool started;
    struct waiting *first, **last;
    struct pl_map unread; /* pack id → struct waiting, owned by the list */
    struct pl_map held;   /* ids of the packs that a thread has locked (hold) */
    struct pl_upload_verify_stats stats;
    atomic_bool stopping;
};

void pl_upload_verify_origin(const struct pl_http_request *req, const char *project, const struct pl_hash *pack, uint64_t bytes,
                             struct pl_direct_upload *ret)
{
    const struct pl_principal *who = pl_http_context(req);

    *ret = (struct pl_direct_upload){.pack = *pack, .bytes = bytes};
    snprintf(ret->project, sizeof ret->project, "%s", project);
    snprintf(ret->session, sizeof ret->session, "%s", pl_http_query(req, "session"));
    if (who->kind == PL_PRINCIPAL_WORKER)
        snprintf(ret->writer, sizeof ret->writer, "%s of %.*s", who->name, 60, who->stage);
    else
        snprintf(ret->writer, sizeof ret->writer, "%s", who->name);
}

/* ---- lock a pack ---- */

/* Waits until no other thread has locked the pack, then locks it until let_go. PL_ENOMEM. */
static int hold(struct pl_read_back *b, const struct pl_hash *pack, struct pl_err *err)
{
    int r;

    pthread_mutex_lock(&b->lock);
    while (pl_map_get(&b->held, pack, sizeof *pack))
        pthread_cond_wait(&b->change, &b->lock);
    r = pl_map_put(&b->held, pack, sizeof *pack, b, NULL, err);
    pthread_mutex_unlock(&b->lock);
    return r;
}

static void let_go(struct pl_read_back *b, const struct pl_hash *pack)
{
    pthread_mutex_lock(&b->lock);
    pl_map_remove(&b->held, pack, sizeof *pack);
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
}

/* Returns true if the object was overwritten since the thread began to read it: the result of the
 * verification is then out of date. The caller has locked the pack (hold). */
static bool is_new(struct pl_read_back *b, const struct pl_hash *pack)
{
    const struct waiting *w;
    bool again;

    pthread_mutex_lock(&b->lock);
    w = pl_map_get(&b->unread, pack, sizeof *pack);
    again = w && w->again;
    pthread_mutex_unlock(&b->lock);
    return again;
}

/* ---- verify a pack ---- */

struct verdict {
    bool lies;
    unsigned bad; /* number of invalid records */
    char why[WHY_MAX];
    struct pl_buf bytes; /* the bytes of an invalid pack; empty if it is larger than any pack */
};

static void verdict_finish(struct verdict *v)
{
    pl_buf_finish(&v->bytes);
}

static void note_bad(void *arg, const struct pl_pack_entry *e, const struct pl_err *why)
{
    struct verdict *v = arg;

    (void)e;
    if (v->bad++ == 0)
        snprintf(v->why, sizeof v->why, "%.*s", WHY_MAX - 1, why->msg);
}

static bool is_the_packs_fault(int code)
{
    return code == PL_ECORRUPT || code == PL_EFORMAT || code == PL_ETOOBIG || code == PL_EPROTO || code == PL_EINVAL;
}

static int find(struct verdict *v, int r, const struct pl_err *err)
{
    if (r == 0 || !is_the_packs_fault(r))
        return r;
    if (!*v->why)
        snprintf(v->why, sizeof v->why, "%.*s", WHY_MAX - 1, err->msg);
    v->lies = true;
    return 0;
}

/* Verifies a pack in pieces. Invalid bytes may also come from the transfer or a proxy (see look_again). */
static int look(struct pl_store *store, const struct pl_direct_upload *pack, struct verdict *v, struct pl_err *err)
{
    char key[PL_PACK_KEY_BYTES];
    uint64_t size;
    int r = pl_object_size(pl_store_objects(store), pl_pack_key(pack->project, &pack->pack, key), &size, err);

    return r < 0 ? r : find(v, pl_store_verify_pack(store, &pack->pack, note_bad, v, err), err);
}

/* Reads all bytes of the pack's object; `v->bytes` stays empty if the object is larger than any pack. */
static int get_bytes(struct pl_store *store, const struct pl_direct_upload *pack, struct verdict *v, struct pl_hash *ret_hash,
                     struct pl_err *err)
{
    char key[PL_PACK_KEY_BYTES];
    int r;

    v->bytes.max = PL_PACK_MAX_BYTES;
    r = pl_object_get_all(pl_store_objects(store), pl_pack_key(pack->project, &pack->pack, key), &v->bytes, err);
    if (r < 0)
        pl_buf_clear(&v->bytes);
    pl_hash_sha256(v->bytes.data, v->bytes.len, ret_hash);
    return r == PL_ETOOBIG ? 0 : r;
}

/* Reads the whole object twice, requires equal bytes, and verifies them in memory, so that a transfer error
 * cannot make a valid pack invalid. */
static int look_again(struct pl_store *store, const struct pl_direct_upload *pack, struct verdict *v, struct pl_err *err)
{
    struct pl_pack_verify how = {.project = pack->project, .claimed = &pack->pack, .bad = note_bad, .arg = v};
    struct pl_pack_memory memory;
    struct pl_hash first, second;
    struct pl_pack_input in;
    int r = get_bytes(store, pack, v, &first, err);

    r = r < 0 ? r : get_bytes(store, pack, v, &second, err);
    if (r < 0 || (v->bytes.len == 0 && pl_hash_eq(&first, &second)))
        return r;
    if (!pl_hash_eq(&first, &second))
        return pl_err_set(err, PL_EIO, "the store returns different bytes each time");
    v->lies = false;
    v->bad = 0;
    *v->why = '\0';
    memory = (struct pl_pack_memory){v->bytes.data, v->bytes.len};
    in = pl_pack_input_memory(&memory);
    return find(v, pl_pack_verify(&in, &how, NULL, err), err);
}

/* Verifies a pack. 0: `v` has the result; PL_ENOTFOUND: there is no object; other errors: try again later. */
static int judge(struct pl_store *store, const struct pl_direct_upload *pack, struct verdict *v, struct pl_err *err)
{
    int r = look(store, pack, v, err);

    return r == 0 && v->lies ? look_again(store, pack, v, err) : r;
}

/* ---- quarantine a pack ---- */

/* List of the files that need a quarantined pack. */
struct hurt {
    struct pl_read_back *back;
    json_t *files;
    size_t text;
    uint64_t n;
};

static int note_hurt(void *self, const struct pl_fsck_finding *f, struct pl_err *err)
{
    struct hurt *h = self;
    json_t *name;

    (void)err;
    if (!f->commit)
        return 0;
    h->n++;
    name = json_sprintf("%s%s%s", f->commit, f->path ? ":/" : "", f->path ? f->path : "");
    if (!name || json_array_size(h->files) >= PL_UPLOAD_VERIFY_FILES || h->text + json_string_length(name) > EVENT_TEXT_MAX) {
        json_decref(name);
        return 0;
    }
    h->text += json_string_length(name) + 3;
    json_array_append_new(h->files, name);
    return 0;
}

static bool is_stopping(void *self)
{
    const struct hurt *h = self;

    return atomic_load(&h->back->stopping);
}

/* Copies the bytes to the quarantine key, which the store does not search for packs. */
static int set_aside(struct pl_store *store, const struct pl_direct_upload *pack, const struct pl_buf *bytes, struct pl_err *err)
{
    char key[PL_PACK_KEY_BYTES], aside[PL_PACK_KEY_BYTES + 2];
    struct iovec iov = {bytes->data, bytes->len};
    int r;

    if (bytes->len == 0) /* the object is larger than any pack: not worth keeping */
        return 0;
    snprintf(aside, sizeof aside, PL_QUARANTINE_KEY, pl_pack_key(pack->project, &pack->pack, key) + 1);
    r = pl_object_put(pl_store_objects(store), aside, &iov, 1, true, err);
    return r == PL_EEXISTS ? 0 : r;
}

static int take_out(struct pl_store *store, const struct pl_direct_upload *pack, struct pl_err *err)
{
    char key[PL_PACK_KEY_BYTES];
    int r = pl_object_remove(pl_store_objects(store), pl_pack_key(pack->project, &pack->pack, key), err);

    pl_store_drop_pack(store, &pack->pack);
    return r < 0 ? r : pl_store_flush(store, err);
}

static json_t *event_of(const struct pl_direct_upload *pack, const struct verdict *v, const struct hurt *h)
{
    char hex[PL_HASH_HEX + 1];

    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:I, s:O}", "project", pack->project, "pack", pl_hash_hex(&pack->pack, hex),
                     "writer", pack->writer, "bytes", (json_int_t)pack->bytes, "bad_records", (json_int_t)v->bad, "why", v->why,
                     "hurt", (json_int_t)h->n, "files", h->files);
}

/* Makes the store forget the pack's records. 1: not done, because the object was overwritten. */
static int drop(struct pl_read_back *b, struct pl_store *store, const struct pl_hash *pack, struct pl_err *err)
{
    int r = hold(b, pack, err);
    bool again;

    if (r < 0)
        return r;
    again = is_new(b, pack);
    if (!again)
        pl_store_drop_pack(store, pack);
    let_go(b, pack);
    return again;
}

/* Records the quarantine and removes the object. 1: not done, because the object was overwritten. */
static int put_away(struct pl_read_back *b, struct pl_store *store, const struct pl_direct_upload_mismatch *lie,
                    struct pl_err *err)
{
    int r = hold(b, &lie->pack->pack, err);

    if (r < 0)
        return r;
    if (is_new(b, &lie->pack->pack))
        r = 1;
    r = r != 0 ? r : pl_db_run(b->db, PL_TX_LOGGED, pl_tx_direct_upload_quarantine, (void *)lie, err);
    r = r != 0 ? r : take_out(store, lie->pack, err);
    let_go(b, &lie->pack->pack);
    return r;
}

/* Copies the pack to its quarantine key, drops its records from the store, finds the files that need them,
 * and removes the pack's object. Returns 1 if the object was overwritten meanwhile; the object then stays. */
static int quarantine(struct pl_read_back *b, struct pl_store *store, const struct pl_direct_upload *pack,
                      const struct verdict *v, struct pl_err *err)
{
    struct hurt hurt = {.back = b, .files = json_array()};
    struct pl_db_fsck check = {.stores = b->stores, .db = b->db, .finding = note_hurt, .stop = is_stopping, .self = &hurt};
    struct pl_direct_upload_mismatch lie = {.pack = pack, .why = v->why};
    struct pl_fsck_report sum = {0};
    char hex[PL_HASH_HEX + 1];
    int r = hurt.files ? set_aside(store, pack, &v->bytes, err) : pl_err_nomem(err);

    r = r < 0 ? r : drop(b, store, &pack->pack, err);
    if (r == 0 && pl_db_fsck_run(&check, &sum, err) < 0 && !atomic_load(&b->stopping))
        pl_log_warn("store", "cannot find out which files need pack %.12s: %s", pl_hash_hex(&pack->pack, hex), err->msg);
    if (r == 0 && atomic_load(&b->stopping)) /* the daemon repeats the quarantine after its restart */
        r = pl_err_set(err, PL_ECANCELED, "the daemon is stopping");
    if (r == 0 && !(lie.told = event_of(pack, v, &hurt)))
        r = pl_err_nomem(err);
    r = r != 0 ? r : put_away(b, store, &lie, err);
    if (r == 0)
        pl_log_error("store",
                     "pack %s of project %s, uploaded by %s, is quarantined: %s; %llu files need it: run pipelinectl fsck",
                     pl_hash_hex(&pack->pack, hex), pack->project, pack->writer, v->why, (unsigned long long)hurt.n);
    json_decref(lie.told);
    json_decref(hurt.files);
    return r;
}

/* ---- the thread ---- */

/* Records that a pack is valid, or (`gone`) missing. 1: not done, because the object was overwritten. */
static int settle(struct pl_read_back *b, struct pl_store *store, const struct pl_direct_upload *pack, bool gone,
                  struct pl_err *err)
{
    int r = hold(b, &pack->pack, err);

    if (r < 0)
        return r;
    if (is_new(b, &pack->pack))
        r = 1;
    r = r != 0 ? r : pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_direct_upload_settle, (void *)pack, err);
    if (r == 0 && gone)
        pl_store_drop_pack(store, &pack->pack);
    if (r == 0)
        pl_store_set_unread(store, &pack->pack, false);
    let_go(b, &pack->pack);
    return r;
}

/* Verifies one pack. Returns 0 if that is done, 1 if the pack must be read again. */
static int read_one(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err)
{
    _cleanup_(verdict_finish) struct verdict v = {0};
    struct pl_store *store;
    int r = pl_project_stores_get(b->stores, pack->project, &store, err);

    r = r < 0 ? r : judge(store, pack, &v, err);
    if (r == 0 && v.lies)
        r = quarantine(b, store, pack, &v, err);
    else if (r == 0 || r == PL_ENOTFOUND)
        r = settle(b, store, pack, r == PL_ENOTFOUND, err);
    if (r == 0) {
        pthread_mutex_lock(&b->lock);
        *(v.lies ? &b->stats.quarantined : &b->stats.good) += 1;
        pthread_mutex_unlock(&b->lock);
    }
    return r;
}

/* Removes the first pack of the list, which was verified. The caller holds the lock. */
static void drop_first(struct pl_read_back *b)
{
    struct waiting *w = b->first;

    b->first = w->next;
    if (!b->first)
        b->last = &b->first;
    pl_map_remove(&b->unread, &w->pack.pack, sizeof w->pack.pack);
    b->stats.unread--;
    free(w);
}

/* Waits until the time has passed, or the verifier stops. The caller holds the lock. */
static void wait_ms(struct pl_read_back *b, int64_t ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!atomic_load(&b->stopping) && pthread_cond_timedwait(&b->change, &b->lock, &until) == 0)
        ;
}

/* The thread: verifies the first pack of the list until it succeeds, with growing pauses after errors. */
static void *read_back_run(void *arg)
{
    struct pl_read_back *b = arg;
    int64_t pause_ms = PL_UPLOAD_VERIFY_LEAST;
    struct pl_err err = {0};

    pl_cancel_by(&b->stopping);
    pthread_mutex_lock(&b->lock);
    while (!atomic_load(&b->stopping)) {
        struct waiting *w = b->first; /* only this thread removes packs from the list */
        struct pl_direct_upload pack;
        int r;

        if (!w) {
            pthread_cond_wait(&b->change, &b->lock);
            continue;
        }
        w->again = false;
        pack = w->pack;
        pthread_mutex_unlock(&b->lock);
        r = read_one(b, &pack, &err);
        if (r < 0 && pause_ms == PL_UPLOAD_VERIFY_LEAST && !atomic_load(&b->stopping))
            pl_log_warn("store", "uploaded packs cannot be verified now: %s", err.msg);
        pthread_mutex_lock(&b->lock);
        if (r < 0) {
            wait_ms(b, pause_ms);
            pause_ms = PL_MIN(2 * pause_ms, PL_UPLOAD_VERIFY_MOST);
            continue;
        }
        pause_ms = PL_UPLOAD_VERIFY_LEAST;
        if (r == 0 && !w->again)
            drop_first(b);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Starts the thread if needed. If that fails, adding the next pack tries again. The caller holds the lock. */
static void start_thread(struct pl_read_back *b)
{
    sigset_t all, old;

    if (b->started || atomic_load(&b->stopping))
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    b->started = pthread_create(&b->thread, NULL, read_back_run, b) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- the list ---- */

/* Marks a pack as unread, without adding it to the list; NULL without memory. `*ret_known`: the pack was
 * marked before; it is in the list already and will be read again. */
static struct waiting *reserve(struct pl_read_back *b, const struct pl_direct_upload *pack, bool *ret_known)
{
    struct waiting *w;

    pthread_mutex_lock(&b->lock);
    w = pl_map_get(&b->unread, &pack->pack, sizeof pack->pack);
    *ret_known = w != NULL;
    if (w) {
        w->pack = *pack;
        w->again = true;
    } else if ((w = calloc(1, sizeof *w)) != NULL) {
        w->pack = *pack;
        if (pl_map_put(&b->unread, &pack->pack, sizeof pack->pack, w, NULL, NULL) < 0) {
            free(w);
            w = NULL;
        } else {
            b->stats.unread++;
        }
    }
    pthread_mutex_unlock(&b->lock);
    return w;
}

static void enlist(struct pl_read_back *b, struct waiting *w)
{
    pthread_mutex_lock(&b->lock);
    *b->last = w;
    b->last = &w->next;
    start_thread(b);
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
}

/* ---- packs left by an earlier daemon ---- */

static int go_on(void *self, const struct pl_direct_upload *pack, struct pl_err *err)
{
    struct pl_read_back *b = self;
    struct pl_store *store;
    struct waiting *w;
    bool known;
    int r = pl_project_stores_get(b->stores, pack->project, &store, err);

    if (r < 0)
        return r;
    w = reserve(b, pack, &known);
    if (!w)
        return pl_err_nomem(err);
    pl_store_set_unread(store, &pack->pack, true);
    if (!known)
        enlist(b, w);
    return 0;
}

/* Adds to the list a pack that an earlier daemon expected or quarantined, if the store has the pack: it was
 * uploaded meanwhile, or its quarantine was not finished. */
static int go_on_if_there(void *self, const struct pl_direct_upload *pack, struct pl_err *err)
{
    struct pl_read_back *b = self;
    struct pl_store *store;
    int r = pl_project_stores_get(b->stores, pack->project, &store, err);

    if (r < 0 || !pl_store_has_pack(store, &pack->pack))
        return r;
    r = pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_direct_upload_add, (void *)pack, err);
    return r < 0 ? r : go_on(b, pack, err);
}

struct notes {
    struct pl_direct_upload *packs;
    size_t n, cap;
};

static void notes_finish(struct notes *v)
{
    free(v->packs);
}

static int add_note(void *self, const struct pl_direct_upload *pack, struct pl_err *err)
{
    struct notes *v = self;

    if (v->n == v->cap) {
        const size_t cap = v->cap ? v->cap * 2 : 64;
        struct pl_direct_upload *packs = reallocarray(v->packs, cap, sizeof *packs);

        if (!packs)
            return pl_err_nomem(err);
        v->packs = packs;
        v->cap = cap;
    }
    v->packs[v->n++] = *pack;
    return 0;
}

/* Calls `visit` for each pack whose note has that state; no database reader is open during the calls. */
static int each_noted(struct pl_read_back *b, enum pl_direct_upload_state state,
                      int (*visit)(void *self, const struct pl_direct_upload *b, struct pl_err *err), struct pl_err *err)
{
    _cleanup_(notes_finish) struct notes v = {0};
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(b->db);

        r = pl_direct_upload_list(rd.conn, state, add_note, &v, err);
    }
    for (size_t i = 0; i < v.n && r >= 0; i++)
        r = visit(b, &v.packs[i], err);
    return PL_MIN(r, 0);
}

/* Adds an object's pack to the struct notes. The key is p/<project>/<two digits>/<id> (pack_format.h). */
static int doubt_pack(void *self, const char *key, uint64_t size, struct pl_err *err)
{
    struct pl_direct_upload pack = {.bytes = size, .writer = "a client before the recovery"};
    const char *project = key + 2, *end = strchr(project, '/');

    if (!end || end - project >= (ptrdiff_t)sizeof pack.project || !pl_pack_key_parse(key, &pack.pack))
        return 0;
    snprintf(pack.project, sizeof pack.project, "%.*s", (int)(end - project), project);
    return add_note(self, &pack, err);
}

/* Verifies all packs again after a recovery, because the notes of the checkpoint may be out of date. Needed
 * only if clients can upload directly. */
static int doubt_all(struct pl_read_back *b, struct pl_err *err)
{
    struct pl_object_store *objects = pl_project_stores_objects(b->stores);
    _cleanup_(notes_finish) struct notes v = {0};
    bool forgotten = false;
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(b->db);

        r = pl_brought_is_forgotten(rd.conn, &forgotten, err);
    }
    if (r < 0 || !forgotten || !(pl_object_caps(objects) & PL_OBJECT_SIGNED_PUT))
        return r;
    r = pl_object_list(objects, "p/", doubt_pack, &v, err);
    for (size_t i = 0; i < v.n && r == 0; i += DOUBT_AT_ONCE) {
        struct pl_brought_many many = {v.packs + i, PL_MIN(v.n - i, (size_t)DOUBT_AT_ONCE)};

        r = pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_brought_add_many, &many, err);
    }
    if (r == 0 && v.n)
        pl_log_info("store",
                    "after the recovery %zu packs are verified again, because it is not known which were verified before", v.n);
    return r < 0 ? r : pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_brought_remembered, NULL, err);
}

static int read_notes(struct pl_read_back *b, struct pl_err *err)
{
    int r = doubt_all(b, err);

    r = r < 0 ? r : each_noted(b, PL_BROUGHT_QUARANTINED, go_on_if_there, err);

    r = r < 0 ? r : each_noted(b, PL_BROUGHT_EXPECTED, go_on_if_there, err);
    r = r < 0 ? r : each_noted(b, PL_BROUGHT_UNREAD, go_on, err);
    return r < 0 ? r : pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_direct_upload_forget, NULL, err);
}

int pl_upload_verify_create(struct pl_db *db, struct pl_project_stores *stores, struct pl_read_back **ret, struct pl_err *err)
{
    struct pl_read_back *b = calloc(1, sizeof *b);
    int r;

    if (!b)
        return pl_err_nomem(err);
    *b = (struct pl_read_back){.db = db, .stores = stores, .last = &b->first};
    pthread_mutex_init(&b->lock, NULL);
    pl_timed_cond_init(&b->change);
    r = read_notes(b, err);
    if (r < 0) {
        pl_upload_verify_destroy(b);
        return pl_err_wrap(err, r, "cannot read the list of uploaded packs");
    }
    *ret = b;
    return 0;
}

void pl_upload_verify_stop(struct pl_read_back *b)
{
    bool started;

    pthread_mutex_lock(&b->lock);
    atomic_store(&b->stopping, true);
    started = b->started;
    b->started = false;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
    pl_object_wake(pl_project_stores_objects(b->stores));
    if (started)
        pthread_join(b->thread, NULL);
}

struct pl_read_back *pl_upload_verify_destroy(struct pl_read_back *b)
{
    if (!b)
        return NULL;
    pl_upload_verify_stop(b);
    while (b->first)
        drop_first(b);
    pl_map_finish(&b->unread, NULL);
    pl_map_finish(&b->held, NULL);
    pthread_cond_destroy(&b->change);
    pthread_mutex_destroy(&b->lock);
    free(b);
    return NULL;
}

/* ---- add packs ---- */

bool pl_upload_verify_is_full(struct pl_read_back *b)
{
    bool full;

    pthread_mutex_lock(&b->lock);
    full = b->stats.unread >= PL_UPLOAD_VERIFY_MAX;
    pthread_mutex_unlock(&b->lock);
    return full;
}

int pl_upload_verify_expect(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err)
{
    return pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_direct_upload_expect, (void *)pack, err);
}

/* Returns true if the pack is still unread: the thread has not finished with it. */
static bool is_going(struct pl_read_back *b, const struct pl_hash *pack)
{
    bool going;

    pthread_mutex_lock(&b->lock);
    going = pl_map_get(&b->unread, pack, sizeof *pack) != NULL;
    pthread_mutex_unlock(&b->lock);
    return going;
}

/* Adds an uploaded pack to the store and the list. The caller has locked the pack (hold). */
static int add(struct pl_read_back *b, struct pl_store *store, const struct pl_direct_upload *pack, struct pl_err *err)
{
    char key[PL_PACK_KEY_BYTES];
    struct waiting *w;
    uint64_t size;
    bool known;
    int r;

    if (pl_store_has_pack(store, &pack->pack))
        return 0;
    if (is_going(b, &pack->pack))
        return pl_err_set(err, PL_EBUSY,
                          "an invalid object with the pack's name is just being removed: upload the pack through the daemon");
    r = pl_object_size(pl_store_objects(store), pl_pack_key(pack->project, &pack->pack, key), &size, err);
    if (r < 0)
        return r;
    /* write the note first: after a crash no session may use the pack before it is verified */
    r = pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_direct_upload_add, (void *)pack, err);
    if (r < 0)
        return r;
    w = reserve(b, pack, &known);
    if (!w)
        return pl_err_nomem(err);
    r = pl_store_add_pack(store, &pack->pack, PL_DOUBT_UNREAD, err);
    if (r < 0 && is_the_packs_fault(r)) /* the fault is in the bytes that the client uploaded */
        r = err->code = PL_EPROTO;
    if (!known)
        enlist(b, w); /* even if the object is not a pack: the thread must remove the object */
    return r;
}

int pl_upload_verify_add(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err)
{
    struct pl_store *store;
    int r = pl_project_stores_get(b->stores, pack->project, &store, err);

    if (r < 0 || pl_store_has_pack(store, &pack->pack))
        return r;
    if (pl_upload_verify_is_full(b))
        return pl_err_set(err, PL_EBUSY, "%d packs wait for verification: upload this one through the daemon",
                          PL_UPLOAD_VERIFY_MAX);
    r = hold(b, &pack->pack, err);
    if (r < 0)
        return r;
    r = add(b, store, pack, err);
    let_go(b, &pack->pack);
    return r;
}

static int is_noted(struct pl_read_back *b, const struct pl_direct_upload *pack, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(b->db);

    return pl_direct_upload_is_noted(rd.conn, pack->project, &pack->pack, err);
}

/* Does the work of pl_upload_verify_receive. The caller has locked the pack (hold). */
static int receive(struct pl_read_back *b, struct pl_store *store, const struct pl_direct_upload *pack, const char *path,
                   bool offered, struct pl_err *err)
{
    int r = offered ? pl_store_take_pack(store, path, &pack->pack, err) : pl_store_receive_pack(store, path, &pack->pack, err);

    r = r < 0 ? r : pl_store_flush(store, err);
    r = r < 0 ? r : is_noted(b, pack, err);
    if (r <= 0)
        return r;
    r = pl_db_run(b->db, PL_TX_UNLOGGED, pl_tx_direct_upload_add, (void *)pack, err);
    return r < 0 ? r : go_on(b, pack, err);
}

int pl_upload_verify_receive(struct pl_read_back *b, const struct pl_direct_upload *pack, const char *path, bool offered,
                             struct pl_err *err)
{
    struct pl_store *store;
    int r = pl_project_stores_get(b->stores, pack->project, &store, err);

    r = r < 0 ? r : hold(b, &pack->pack, err);
    if (r < 0) {
        unlink(path);
        return r;
    }
    r = receive(b, store, pack, path, offered, err);
    let_go(b, &pack->pack);
    return r;
}

/* True if `session` uploaded the unread pack. The caller holds the lock. */
static bool is_of(struct pl_read_back *b, const struct pl_hash *pack, const char *session)
{
    const struct waiting *w = pl_map_get(&b->unread, pack, sizeof *pack);

    return w && pl_streq(w->pack.session, session);
}

void pl_upload_verify_reveal(struct pl_read_back *b, struct pl_store *store, const char *session, const struct pl_hash *ids,
                             size_t n, uint8_t *bitmap, uint32_t *packs)
{
    struct pl_location at;

    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < n && b->stats.unread; i++) {
        if (bitmap[i / 8] >> (i % 8) & 1 || pl_store_locate(store, &ids[i], &at, NULL) < 0 || at.hidden || !at.unread ||
            !is_of(b, &at.pack, session))
            continue;
        bitmap[i / 8] |= (uint8_t)(1u << (i % 8));
        packs[i] = at.pack_no;
    }
    pthread_mutex_unlock(&b->lock);
}

void pl_upload_verify_get_stats(struct pl_read_back *b, struct pl_upload_verify_stats *ret)
{
    pthread_mutex_lock(&b->lock);
    *ret = b->stats;
    pthread_mutex_unlock(&b->lock);
}
