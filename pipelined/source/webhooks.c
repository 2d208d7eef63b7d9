/* webhooks: a table of keys, found by a hash of source, project and secret, so that a source with another secret has another
 * row. Names that are no source only have the time at which a key would have been read. */
#include "pipelined/source/webhooks.h"

#include "pipelined/policy/rate_limit.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define KEYS   2048u /* rows: twice the most sources */
#define NEAR   8u    /* rows that a key may have */
#define OTHERS 1024u /* rows of other names */

/* A secret that no project has: it is read for names that are no source. */
static const struct pl_webhook_secret nobody = {"default", "no-source-has-this-secret"};

struct row {
    uint64_t tag;    /* 0 = free */
    int64_t read_ms; /* time of the last reading */
    struct pl_webhook_key key;
};

struct pl_webhook_keys {
    uint64_t seed;
    pthread_mutex_t lock; /* guards the rest */
    int64_t changed_ms;   /* keys that were read before may be wrong */
    struct pl_rate_limit wrong;
    struct pl_rate_limit_bucket buckets[PL_RATE_LIMIT_NEAR];
    struct row known[KEYS];
    struct row others[OTHERS];
};

int pl_webhook_keys_create(struct pl_webhook_keys **ret, struct pl_err *err)
{
    struct pl_webhook_keys *k = calloc(1, sizeof *k);

    if (!k)
        return pl_err_nomem(err);
    pl_random_bytes(&k->seed, sizeof k->seed);
    k->wrong = (struct pl_rate_limit){.buckets = k->buckets,
                                      .n = PL_ARRAY_SIZE(k->buckets),
                                      .burst = PL_WEBHOOK_WRONG,
                                      .leak_a_minute = PL_WEBHOOK_WRONG_A_MINUTE};
    pthread_mutex_init(&k->lock, NULL);
    *ret = k;
    return 0;
}

struct pl_webhook_keys *pl_webhook_keys_destroy(struct pl_webhook_keys *k)
{
    if (!k)
        return NULL;
    pthread_mutex_destroy(&k->lock);
    explicit_bzero(k->known, sizeof k->known);
    free(k);
    return NULL;
}

static uint64_t tag_of(const struct pl_webhook_keys *k, const char *source, const struct pl_webhook_secret *secret)
{
    uint64_t tag = pl_xxh64(source, strlen(source) + 1, k->seed);

    if (secret) {
        tag = pl_xxh64(secret->project, strlen(secret->project) + 1, tag);
        tag = pl_xxh64(secret->name, strlen(secret->name) + 1, tag);
    }
    return tag ? tag : 1;
}

/* Returns the row of the tag, or the one that it takes over: a free one, or the one that was read first. Called with the
 * lock. */
static struct row *row_of(struct pl_webhook_keys *k, uint64_t tag, bool known)
{
    struct row *oldest = NULL;

    if (!known)
        return &k->others[tag % OTHERS];
    for (size_t i = 0; i < NEAR; i++) {
        struct row *row = &k->known[(tag + i) % KEYS];

        if (row->tag == tag)
            return row;
        if (!oldest || (oldest->tag && (!row->tag || row->read_ms < oldest->read_ms)))
            oldest = row;
    }
    return oldest;
}

/* Takes the value of PL_WEBHOOK_SECRET_KEY out of the secret's values. */
static struct pl_webhook_key key_of(const json_t *values)
{
    const char *text = json_string_value(json_object_get(values, PL_WEBHOOK_SECRET_KEY));
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct pl_webhook_key key;

    if (!text || pl_base64_decode(text, &bytes, NULL) < 0)
        return pl_webhook_key_none();
    key = pl_webhook_key_make(bytes.data, bytes.len);
    if (bytes.data)
        explicit_bzero(bytes.data, bytes.len);
    return key;
}

/* Reads the key. It stays as it is if the secret cannot be read now, but may exist. */
static void read_key(const struct pl_webhook *hook, const struct pl_webhook_secret *secret, struct pl_webhook_key *key)
{
    const struct pl_webhook_secret *at = secret ? secret : &nobody;
    const struct pl_secret_op op = {.what = PL_SECRET_READ, .project = at->project, .name = at->name};
    struct pl_err err = {0};
    json_t *values = NULL;
    int r = hook->secrets(hook->engine, &op, &values, &err);

    if (r == 0)
        *key = key_of(values);
    else if (r == PL_ENOTFOUND)
        *key = pl_webhook_key_none();
    pl_secret_values_erase(values);
    json_decref(values);
    if (secret && !key->there)
        pl_log_warn("source", "source %s: its webhooks are refused: secret %s of project %s has no key \"%s\"%s%s", hook->source,
                    at->name, at->project, PL_WEBHOOK_SECRET_KEY, r < 0 ? ": " : "", r < 0 ? err.msg : "");
}

/* Why a key is read: it is not known, it is too old, or a signature was wrong. */
enum why { WHY_NOT, WHY_NEW, WHY_OLD, WHY_WRONG };

void pl_webhook_keys_changed(struct pl_webhook_keys *k)
{
    pthread_mutex_lock(&k->lock);
    k->changed_ms = pl_clock_mono_ms();
    pthread_mutex_unlock(&k->lock);
}

/* Copies the key of the row, and says whether to read it again. Called with the lock; a row that is to be read again counts as
 * read, so that only one thread does. */
static enum why look_up(struct pl_webhook_keys *k, uint64_t tag, bool known, bool wrong, int64_t now, struct pl_webhook_key *ret)
{
    struct row *row = row_of(k, tag, known);
    const bool there = row->tag == tag;
    const int64_t age = now - row->read_ms;
    enum why why = !there                                                      ? WHY_NEW
                   : age >= PL_WEBHOOK_KEY_MS || row->read_ms <= k->changed_ms ? WHY_OLD
                   : wrong && age >= PL_WEBHOOK_AGAIN_MS                       ? WHY_WRONG
                                                                               : WHY_NOT;

    if (why == WHY_WRONG || (why != WHY_NOT && !known))
        if (pl_rate_limit_hit(&k->wrong, 1, now) != PL_RATE_UNDER)
            why = WHY_NOT;
    if (why == WHY_OLD || why == WHY_WRONG)
        row->read_ms = now;
    *ret = there && known ? row->key : pl_webhook_key_none();
    return why;
}

/* Gives the key of the tag, reading it if need be. Returns false if it is the one of before. */
static bool get_key(struct pl_webhook_keys *k, const struct pl_webhook *hook, const struct pl_webhook_secret *secret, bool wrong,
                    struct pl_webhook_key *ret)
{
    const uint64_t tag = tag_of(k, hook->source, secret);
    const int64_t now = pl_clock_mono_ms();
    struct row *row;
    enum why why;

    pthread_mutex_lock(&k->lock);
    why = look_up(k, tag, secret != NULL, wrong, now, ret);
    pthread_mutex_unlock(&k->lock);
    if (why == WHY_NOT)
        return false;
    read_key(hook, secret, ret);
    pthread_mutex_lock(&k->lock);
    row = row_of(k, tag, secret != NULL);
    *row = (struct row){.tag = tag, .read_ms = now, .key = *ret};
    pthread_mutex_unlock(&k->lock);
    return true;
}

bool pl_webhook_keys_check(struct pl_webhook_keys *k, const struct pl_webhook *hook, const struct pl_webhook_secret *secret)
{
    struct pl_webhook_key key;
    bool good;

    (void)get_key(k, hook, secret, false, &key);
    good = pl_webhook_signed(&key, hook->header, hook->self, hook->body, hook->n);
    if (!good && get_key(k, hook, secret, true, &key)) /* the secret may have changed */
        good = pl_webhook_signed(&key, hook->header, hook->self, hook->body, hook->n);
    explicit_bzero(&key, sizeof key);
    return good;
}
