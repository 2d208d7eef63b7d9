/* Checks the checkpoints, then the numbers of the log objects, then, if `full`, every log object in order,
 * and last the newest object that the database has applied. */
#include "storage/dataset/fsck/fsck_log.h"

#include "storage/dataset/log/log_checkpoint.h"
#include "storage/dataset/log/log_reader.h"
#include "storage/dataset/log/log_record.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

/* maximum number of missing log objects that are reported one by one for each gap; the rest of the gap is
 * only counted */
#define MISSING_TOLD_MAX 1000u

struct log_check {
    struct pl_object_store *objects;
    const struct pl_fsck_options *options;
    struct pl_fsck_report *sum;
    struct pl_log_head head; /* log head after the object that precedes the one being checked */
    uint64_t last;           /* number of the newest object when the check began */
    struct pl_log_checkpoint_head ckpts[PL_LOG_CHECKPOINT_LISTED_MAX];
    /* number of intact checkpoints that must still be compared with the log objects that they name */
    unsigned n_ckpts;
};

static int tell(struct log_check *c, const char *key, const char *what, struct pl_err *err)
{
    struct pl_fsck_finding finding = {.what = what, .object = key};

    c->sum->findings++;
    return c->options->finding ? c->options->finding(c->options->self, &finding, err) : 0;
}

static int step(struct log_check *c, const char *stage, uint64_t done, uint64_t total, struct pl_err *err)
{
    struct pl_fsck_progress progress = {.stage = stage, .done = done, .total = total};

    if (c->options->stop && c->options->stop(c->options->self))
        return pl_err_set(err, PL_ECANCELED, "the check was stopped");
    return c->options->progress ? c->options->progress(c->options->self, &progress, err) : 0;
}

static bool is_damage(int r)
{
    return r == PL_ECORRUPT || r == PL_EFORMAT || r == PL_ELOG || r == PL_ENOTFOUND || r == PL_ETOOBIG || r == PL_EIO;
}

/* ---- numbers of log objects ---- */

struct numbers {
    struct log_check *check;
    uint64_t last;
};

/* Called with the keys in order: reports the numbers missing between two objects. */
static int number_seen(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct numbers *n = arg;
    char missing[PL_LOG_KEY_BYTES];
    uint64_t seq, first = n->last + 1;
    int r = 0;

    (void)size;
    if (!pl_log_key_parse(key, &seq) || seq <= n->last)
        return 0;
    for (; first < seq && r == 0 && first - n->last <= MISSING_TOLD_MAX; first++) {
        pl_log_key(first, missing);
        r = tell(n->check, missing, "a log object is missing: recovery stops there, unless a checkpoint is newer", err);
    }
    n->check->sum->findings += seq - first;
    n->last = seq;
    return r;
}

/* Reports missing log objects: those in gaps, and those after the newest log object if a checkpoint or the
 * database names a higher number. */
static int check_numbers(struct log_check *c, const struct pl_log_head *database, struct pl_err *err)
{
    struct numbers n = {.check = c};
    char key[PL_LOG_KEY_BYTES];
    int r = pl_object_list(c->objects, "log/", number_seen, &n, err);

    c->last = n.last;
    for (unsigned i = 0; r == 0 && i < c->n_ckpts; i++) {
        if (c->ckpts[i].seq <= n.last)
            continue;
        pl_log_key(c->ckpts[i].seq, key);
        r = tell(c, key, "a log object that a checkpoint needs is missing", err);
    }
    if (r < 0 || !database || database->seq <= n.last)
        return r;
    pl_log_key(database->seq, key);
    return tell(c, key, "a log object that the database has applied is missing", err);
}

/* ---- log objects ---- */

static int parse_record(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err)
{
    json_error_t where;
    json_t *payload = json_loadb(record->payload, record->len, JSON_REJECT_DUPLICATES, &where);
    bool good = json_is_object(payload);

    (void)self;
    json_decref(payload);
    return good ? 0
                : pl_err_set(err, PL_ECORRUPT, "record %s of log object %" PRIu64 " is not a JSON object: %s",
                             pl_record_name(record->kind), seq, payload ? "another value" : where.text);
}

/* Reads epoch and hash of the previous object from an object's header; false if the object is too short. */
static bool says_before(const struct pl_buf *bytes, uint64_t *ret_epoch, struct pl_hash *ret_hash)
{
    struct pl_cursor at = pl_cursor_of(bytes->data, bytes->len);
    const uint8_t *prev;

    (void)pl_cursor_bytes(&at, 24);
    *ret_epoch = pl_cursor_le64(&at);
    (void)pl_cursor_le64(&at);
    prev = pl_cursor_bytes(&at, PL_HASH_BYTES);
    if (prev)
        memcpy(ret_hash->b, prev, PL_HASH_BYTES);
    return prev != NULL;
}

/* Checks that the hash named by object `seq` is that of the previous object. If it is not, the previous
 * object is reported, and the check continues as if the named hash and epoch were right. */
static int check_link(struct log_check *c, uint64_t seq, const struct pl_buf *bytes, bool trusted, struct pl_err *err)
{
    char before[PL_LOG_KEY_BYTES], what[128];
    struct pl_hash prev;
    uint64_t epoch;

    if (seq == 1 || !says_before(bytes, &epoch, &prev) || (trusted && pl_hash_eq(&prev, &c->head.hash)))
        return 0;
    c->head.hash = prev;
    if (!trusted) {
        c->head.epoch = epoch;
        return 0;
    }
    pl_log_key(seq - 1, before);
    snprintf(what, sizeof what, "its bytes do not match the hash that log object %" PRIu64 " names: one of the two is damaged",
             seq);
    return tell(c, before, what, err);
}

static int compare_ckpts(struct log_check *c, struct pl_err *err)
{
    char key[PL_LOG_CHECKPOINT_KEY_BYTES];

    for (unsigned i = 0; i < c->n_ckpts; i++) {
        int r;

        if (c->ckpts[i].seq != c->head.seq || pl_hash_eq(&c->ckpts[i].log_hash, &c->head.hash))
            continue;
        pl_log_checkpoint_key(c->ckpts[i].seq, key);
        r = tell(
            c, key,
            "the checkpoint contains another hash than that of the log object with its number: recovery skips the checkpoint",
            err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Checks log object `seq`; if reading it failed (`r`, `why`), reports that. `*trusted` is true while c->head
 * is known to describe the previous object. */
static int check_object(struct log_check *c, uint64_t seq, int r, const struct pl_buf *bytes, struct pl_err *why, bool *trusted,
                        struct pl_err *err)
{
    struct pl_log_sink sink = {.record = parse_record};
    char key[PL_LOG_KEY_BYTES];

    pl_log_key(seq, key);
    c->head.seq = seq - 1;
    if (r == PL_ENOTFOUND) { /* check_numbers has reported the missing object */
        *trusted = false;
        return 0;
    }
    c->sum->log_objects++;
    if (r == 0) {
        r = check_link(c, seq, bytes, *trusted, err);
        if (r < 0)
            return r;
        r = pl_log_decode(bytes->data, bytes->len, &c->head, &sink, why);
    }
    *trusted = r == 0;
    if (r == 0)
        return compare_ckpts(c, err);
    if (is_damage(r))
        return tell(c, key, why->msg, err);
    if (err)
        *err = *why;
    return r;
}

static int check_chain(struct log_check *c, struct pl_err *err)
{
    _cleanup_(pl_log_reader_closep) struct pl_log_reader *reader = NULL;
    bool trusted = true;
    int r = pl_log_reader_open(c->objects, 1, c->last, &reader, err);

    while (r == 0) {
        const struct pl_buf *bytes = NULL;
        struct pl_err why = {0};
        uint64_t seq = 0;
        int got = pl_log_reader_next(reader, &seq, &bytes, &why);

        if (got == 0)
            break;
        r = check_object(c, seq, PL_MIN(got, 0), bytes, &why, &trusted, err);
        r = r < 0 ? r : step(c, "log", seq, c->last, err);
    }
    return r;
}

/* Checks the object that the database applied last against the database's own hash of it, because no later
 * object names that hash. */
static int check_newest(struct log_check *c, const struct pl_log_head *database, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_LOG_OBJECT_MAX_BYTES};
    struct pl_err why = {0};
    struct pl_hash hash;
    char key[PL_LOG_KEY_BYTES];
    int r;

    if (!database || database->seq == 0 || database->seq > c->last)
        return 0;
    pl_log_key(database->seq, key);
    r = pl_object_get_all(c->objects, key, &bytes, &why);
    if (r == PL_ENOTFOUND)
        return 0;
    if (r < 0 && !is_damage(r)) {
        if (err)
            *err = why;
        return r;
    }
    if (r < 0)
        return tell(c, key, why.msg, err);
    c->sum->log_objects++;
    pl_hash_sha256(bytes.data, bytes.len, &hash);
    return pl_hash_eq(&hash, &database->hash) ? 0
                                              : tell(c, key, "the log object is not the one that the database has applied", err);
}

/* ---- checkpoints ---- */

/* Checks one checkpoint, completely if `full`, otherwise only its header. */
static int check_ckpt(struct log_check *c, const uint8_t store_id[16], uint64_t seq, struct pl_err *err)
{
    struct pl_log_checkpoint_head *head = &c->ckpts[c->n_ckpts];
    struct pl_err why = {0};
    char key[PL_LOG_CHECKPOINT_KEY_BYTES], what[PL_ERR_MSG_BYTES + 64];
    int r = c->options->full ? pl_log_checkpoint_get(c->objects, seq, NULL, head, &why)
                             : pl_log_checkpoint_head_read(c->objects, seq, head, &why);

    pl_log_checkpoint_key(seq, key);
    if (r == PL_ENOTFOUND) /* an older checkpoint was deleted meanwhile */
        return 0;
    c->sum->checkpoints++;
    if (r == 0 && memcmp(head->store_id, store_id, sizeof head->store_id) != 0)
        r = pl_err_set(&why, PL_ECORRUPT, "the checkpoint belongs to another store");
    if (r == 0) {
        c->n_ckpts++;
        return 0;
    }
    if (!is_damage(r)) {
        if (err)
            *err = why;
        return r;
    }
    snprintf(what, sizeof what, "%s: recovery skips the checkpoint", why.msg);
    return tell(c, key, what, err);
}

static int check_ckpts(struct log_check *c, const uint8_t store_id[16], struct pl_err *err)
{
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    int n = pl_log_checkpoint_list(c->objects, seqs, err), r = PL_MIN(n, 0);

    for (int i = 0; r == 0 && i < n; i++) {
        r = check_ckpt(c, store_id, seqs[i], err);
        r = r < 0 ? r : step(c, "checkpoints", (uint64_t)i + 1, (uint64_t)n, err);
    }
    return r;
}

int pl_fsck_log(struct pl_object_store *objects, const uint8_t store_id[16], const struct pl_log_head *head,
                const struct pl_fsck_options *options, struct pl_fsck_report *sum, struct pl_err *err)
{
    struct log_check *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return pl_err_nomem(err);
    c->objects = objects;
    c->options = options;
    c->sum = sum;
    memcpy(c->head.store_id, store_id, sizeof c->head.store_id);
    r = check_ckpts(c, store_id, err);
    r = r < 0 ? r : check_numbers(c, head, err);
    r = r < 0 ? r : options->full ? check_chain(c, err) : 0;
    r = r < 0 ? r : check_newest(c, head, err);
    free(c);
    return r;
}
