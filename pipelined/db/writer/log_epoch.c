/* Appends the object that opens a new epoch, and follows the log when another daemon was faster. */
#include "pipelined/db/writer/log_epoch.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/dataset/log/log_record.h"

#include <jansson.h>

#define UNKNOWN_TRIES 10

static int make_record(const struct pl_log_head *head, struct pl_log_batch *b, struct pl_err *err)
{
    _cleanup_free_ char *text = NULL;
    char host[256] = "", nonce[33];
    uint8_t random[16];
    json_t *payload;

    /* A nonce that no other start writes: after a put with an unknown result it lets pl_log_append tell our
     * object from another daemon's. */
    pl_random_bytes(random, sizeof random);
    pl_hex_encode(random, sizeof random, nonce);
    gethostname(host, sizeof host - 1);
    payload = json_pack("{s:I, s:I, s:s, s:i, s:s}", "epoch", (json_int_t)head->epoch, "at", (json_int_t)pl_clock_wall_us(),
                        "host", host, "pid", (int)getpid(), "nonce", nonce);
    text = payload ? pl_json_text(payload, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(payload);
    pl_log_batch_clear(b);
    return text ? pl_log_batch_add(b, PL_RECORD_OPEN_EPOCH, text, strlen(text), err) : pl_err_nomem(err);
}

/* Appends the epoch's object after `known`; repeats the put while it is unknown whether the object was
 * stored. */
static int append(struct pl_object_store *objects, const struct pl_log_head *known, struct pl_log_head *ret, struct pl_err *err)
{
    struct pl_log_head at = *known;
    struct pl_log_batch b = {0};
    bool unknown = false;
    int r;

    at.epoch++;
    r = make_record(&at, &b, err);
    if (r == 0)
        r = pl_log_append(objects, &at, &b, &unknown, err);
    for (unsigned i = 1; unknown && (r == PL_ENET || r == PL_ETIMEOUT) && i < UNKNOWN_TRIES; i++)
        r = pl_log_append(objects, &at, &b, &unknown, err);
    pl_log_batch_finish(&b);
    if (r == 0)
        *ret = at;
    return r;
}

int pl_log_epoch_open(struct pl_object_store *objects, const struct pl_log_head *head, struct pl_log_head *ret,
                      struct pl_err *err)
{
    struct pl_log_head known = *head;
    int r = append(objects, &known, ret, err);

    /* Another daemon wrote the key first. Follow the log by one object only and try the next key at once, so
     * that the other daemon has little time to write that key too; every fourth attempt follows the log to
     * its end. */
    for (unsigned i = 1; r == PL_EFENCED && i < PL_LOG_EPOCH_TRIES; i++) {
        r = i % 4 ? pl_log_follow(objects, &known, err) : pl_log_replay(objects, &known, NULL, err);
        r = r < 0 ? r : append(objects, &known, ret, err);
    }
    return r;
}
