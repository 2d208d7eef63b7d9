/* Copies the log object by object, each checked against the chain of hashes, and then the newest
 * checkpoints. */
#include "storage/dataset/mirror/mirror_internal.h"

#include "storage/dataset/log/log_reader.h"
#include "storage/dataset/log/log_record.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>

int pl_mirror_log_end(struct pl_mirror *m, uint64_t *ret, struct pl_err *err)
{
    int r = pl_log_complete(m->from, 0, ret, err);

    return r < 0 ? pl_err_wrap(err, r, "source") : 0;
}

static int get_object(struct pl_object_store *s, uint64_t seq, struct pl_buf *bytes, struct pl_err *err)
{
    char key[PL_LOG_KEY_BYTES];

    pl_log_key(seq, key);
    pl_buf_clear(bytes);
    return pl_object_get_all(s, key, bytes, err);
}

/* ---- packs that garbage collection doomed ---- */

static int see_record(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err)
{
    bool *dooms = self;
    json_t *payload;
    const char *state;

    (void)seq;
    if (record->kind != PL_RECORD_PACK_STATE)
        return 0;
    payload = json_loadb(record->payload, record->len, JSON_REJECT_DUPLICATES, NULL);
    if (!payload)
        return pl_err_set(err, PL_ECORRUPT, "a record of a pack's state is not valid JSON");
    state = json_string_value(json_object_get(payload, "state"));
    *dooms = *dooms || (state && pl_streq(state, "doomed"));
    json_decref(payload);
    return 0;
}

/* Makes the log head that object `seq` expects before it, with the previous hash copied from the object
 * itself. With this head the object's records can be read without reading the objects before it; the chain
 * of hashes is checked elsewhere. */
static void head_before(const struct pl_mirror *m, const struct pl_buf *bytes, uint64_t seq, struct pl_log_head *ret)
{
    struct pl_cursor at = pl_cursor_of(bytes->data, bytes->len);
    const uint8_t *prev;

    *ret = (struct pl_log_head){.seq = seq - 1};
    memcpy(ret->store_id, m->store_id, sizeof ret->store_id);
    (void)pl_cursor_bytes(&at, 40);
    prev = pl_cursor_bytes(&at, PL_HASH_BYTES);
    if (prev)
        memcpy(ret->hash.b, prev, PL_HASH_BYTES);
}

int pl_mirror_dooms(struct pl_mirror *m, uint64_t after, uint64_t upto, bool *ret, struct pl_err *err)
{
    _cleanup_(pl_log_reader_closep) struct pl_log_reader *reader = NULL;
    struct pl_log_sink sink = {.self = ret, .record = see_record};
    const struct pl_buf *bytes;
    struct pl_log_head head;
    uint64_t seq;
    int r = pl_log_reader_open(m->from, after + 1, upto, &reader, err);

    *ret = false;
    while (r >= 0 && !*ret && (r = pl_log_reader_next(reader, &seq, &bytes, err)) > 0) {
        head_before(m, bytes, seq, &head);
        r = pl_log_decode(bytes->data, bytes->len, &head, &sink, err);
        r = r < 0 ? r : pl_mirror_stopped(m, err);
    }
    return PL_MIN(r, 0);
}

/* ---- the log ---- */

struct target_log {
    uint64_t last;
    uint64_t first_missing; /* 0 = no gap before `last` */
};

static int see_target(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct target_log *t = arg;
    uint64_t seq;

    (void)size;
    (void)err;
    if (!pl_log_key_parse(key, &seq))
        return 0;
    if (seq != t->last + 1 && !t->first_missing)
        t->first_missing = t->last + 1;
    t->last = seq;
    return 0;
}

static int own_way(uint64_t seq, struct pl_err *err)
{
    pl_err_set(err, PL_ELOG, "the target's log differs from the source's: its object %" PRIu64 " is another one", seq);
    return pl_err_hint(
        err, PL_ELOG,
        "A daemon has run on the target, or the source was reset to an earlier state. Mirror in the other direction, or into "
        "an empty place.");
}

/* Checks that object `seq` exists in source and target with the same bytes. `head` becomes the state after
 * that object. */
static int compare(struct pl_mirror *m, uint64_t seq, struct pl_log_head *head, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf from = {.max = PL_LOG_OBJECT_MAX_BYTES}, to = {.max = PL_LOG_OBJECT_MAX_BYTES};
    int r = get_object(m->to, seq, &to, err);

    r = r < 0 ? r : get_object(m->from, seq, &from, err);
    if (r == PL_ENOTFOUND)
        return own_way(seq, err);
    if (r < 0)
        return r;
    if (from.len != to.len || memcmp(from.data, to.data, to.len) != 0)
        return own_way(seq, err);
    head_before(m, &from, seq, head);
    return pl_log_decode(from.data, from.len, head, NULL, err);
}

/* Checks an object of the source and puts it into the target. An object that exists there must be the
 * same. */
static int copy_object(struct pl_mirror *m, uint64_t seq, const struct pl_buf *bytes, struct pl_log_head *head,
                       struct pl_err *err)
{
    char key[PL_LOG_KEY_BYTES];
    struct iovec iov = {bytes->data, bytes->len};
    int r = pl_log_decode(bytes->data, bytes->len, head, NULL, err);

    pl_log_key(seq, key);
    if (r < 0)
        return pl_err_wrap(err, r, "source: %s", key);
    r = pl_object_put(m->to, key, &iov, 1, true, err);
    if (r == PL_EEXISTS) {
        struct pl_log_head same = *head;

        /* the target already has this object: its log had a gap before it */
        return compare(m, seq, &same, err);
    }
    r = r < 0 ? r : pl_object_flush(m->to, err);
    if (r < 0)
        return pl_err_wrap(err, r, "target: %s", key);
    m->sum->log_objects++;
    m->sum->bytes += bytes->len;
    return 0;
}

/* Copies the objects from `next` on, one by one. `head` is the state before `next`. */
static int copy_from(struct pl_mirror *m, uint64_t next, uint64_t upto, struct pl_log_head *head, struct pl_err *err)
{
    _cleanup_(pl_log_reader_closep) struct pl_log_reader *reader = NULL;
    const struct pl_buf *bytes;
    uint64_t seq;
    int r = pl_log_reader_open(m->from, next, upto, &reader, err);

    while (r >= 0 && (r = pl_log_reader_next(reader, &seq, &bytes, err)) > 0) {
        r = pl_mirror_stopped(m, err);
        r = r < 0 ? r : copy_object(m, seq, bytes, head, err);
        if (r == 0)
            pl_mirror_progress(m, "log", seq);
    }
    return PL_MIN(r, 0);
}

static int copy_log(struct pl_mirror *m, uint64_t upto, struct pl_err *err)
{
    struct pl_log_head head = {0};
    struct target_log target = {0};
    uint64_t next;
    int r = pl_object_list(m->to, "log/", see_target, &target, err);

    memcpy(head.store_id, m->store_id, sizeof head.store_id);
    if (r < 0)
        return pl_err_wrap(err, r, "target");
    /* the target has objects after `upto`: an earlier round copied them, or a daemon has run on the target */
    if (target.last > upto)
        r = compare(m, target.last, &head, err);
    next = target.first_missing ? target.first_missing : target.last + 1;
    if (r == 0 && next > 1)
        r = compare(m, next - 1, &head, err);
    r = r < 0 ? r : copy_from(m, next, upto, &head, err);
    m->sum->log_seq = PL_MAX(upto, target.last);
    return r;
}

/* ---- checkpoints ---- */

/* Copies an object to a file, one window at a time. */
static int fetch(struct pl_object_store *s, const char *key, int fd, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf window = {0};
    uint64_t size = 0;
    int r = pl_object_size(s, key, &size, err);

    for (uint64_t at = 0; r == 0 && at < size; at += window.len) {
        r = pl_object_get(s, key, at, PL_MIN((uint64_t)PL_LOG_CHECKPOINT_IO_BYTES, size - at), &window, err);
        r = r < 0 ? r : pl_io_write(fd, window.data, window.len, key, err);
    }
    return r;
}

static int put_fd(struct pl_object_store *s, const char *key, int fd, struct pl_err *err)
{
    struct stat st;
    struct iovec iov;
    void *map;
    int r;

    if (fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "%s", key);
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return pl_err_errno(err, errno, "%s", key);
    iov = (struct iovec){map, (size_t)st.st_size};
    r = pl_object_put(s, key, &iov, 1, true, err);
    munmap(map, (size_t)st.st_size);
    return r == PL_EEXISTS ? 0 : r;
}

/* Verifies a checkpoint of the source and copies it through a temporary file. */
static int copy_ckpt(struct pl_mirror *m, uint64_t seq, struct pl_err *err)
{
    char key[PL_LOG_CHECKPOINT_KEY_BYTES], path[PATH_MAX];
    _cleanup_close_ int fd = -1;
    struct pl_log_checkpoint_head head;
    struct pl_err why = {0};
    int r = pl_log_checkpoint_get(m->from, seq, NULL, &head, &why);

    pl_log_checkpoint_key(seq, key);
    if (r == PL_ENOTFOUND) /* an older checkpoint was removed meanwhile */
        return 0;
    if (r == PL_ECORRUPT || r == PL_EFORMAT)
        return pl_mirror_tell(m, key, why.msg, err);
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    if (snprintf(path, sizeof path, "%s/ckpt-XXXXXX", m->options->temp_dir) >= (int)sizeof path)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", m->options->temp_dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return pl_err_errno(err, errno, "%s", path);
    unlink(path);
    r = fetch(m->from, key, fd, err);
    r = r < 0 ? r : put_fd(m->to, key, fd, err);
    r = r < 0 ? r : pl_object_flush(m->to, err);
    m->sum->checkpoints += r == 0;
    return r < 0 ? pl_err_wrap(err, r, "%s", key) : 0;
}

static bool has(const uint64_t *seqs, int n, uint64_t seq)
{
    for (int i = 0; i < n; i++)
        if (seqs[i] == seq)
            return true;
    return false;
}

static int copy_ckpts(struct pl_mirror *m, uint64_t upto, struct pl_err *err)
{
    uint64_t from[PL_LOG_CHECKPOINT_LISTED_MAX], to[PL_LOG_CHECKPOINT_LISTED_MAX];
    int n_from = pl_log_checkpoint_list(m->from, from, err), n_to, kept = 0, r = 0;

    n_to = n_from < 0 ? n_from : pl_log_checkpoint_list(m->to, to, err);
    if (n_to < 0)
        return n_to;
    for (int i = 0; r == 0 && i < n_from && kept < PL_LOG_CHECKPOINT_KEPT; i++) {
        if (from[i] > upto) /* the target lacks log objects that this checkpoint covers */
            continue;
        kept++;
        r = pl_mirror_stopped(m, err);
        if (r == 0 && !has(to, n_to, from[i]))
            r = copy_ckpt(m, from[i], err);
        if (r == 0)
            pl_mirror_progress(m, "checkpoints", (uint64_t)kept);
    }
    return r < 0 ? r : pl_log_checkpoint_trim(m->to, err);
}

int pl_mirror_log(struct pl_mirror *m, uint64_t upto, struct pl_err *err)
{
    int r = copy_log(m, upto, err);

    return r < 0 ? r : copy_ckpts(m, upto, err);
}
