/* worker_principal: makes and checks workers' tokens.
 *
 * A worker is started with its first token, which is readable for anyone who can see how it was started:
 * "plw_<id>_<MAC>", MAC = 64 hex digits of HMAC-SHA-256(master key, "worker" id). When it attaches it
 * exchanges this token for "plw_<id>_<incarnation>_<MAC>", with the MAC of (master key, "session" id
 * incarnation). */
#include "pipelined/engine/engine_internal.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

static void token_mac(const struct pl_engine *e, uint64_t id, const char *incarnation, char out[PL_HASH_HEX + 1])
{
    uint8_t message[16 + PL_INCARNATION_BYTES] = "worker", mac[PL_HASH_BYTES];
    size_t n = 6;
    unsigned len = sizeof mac;

    if (incarnation)
        n = (size_t)snprintf((char *)message, sizeof message, "session");
    for (unsigned i = 0; i < 8; i++)
        message[n++] = (uint8_t)(id >> (8 * i));
    for (const char *p = incarnation; p && *p && n < sizeof message; p++)
        message[n++] = (uint8_t)*p;
    HMAC(EVP_sha256(), e->config.master_key, 32, message, n, mac, &len);
    pl_hex_encode(mac, sizeof mac, out);
}

/* Writes the worker's token for this incarnation; `incarnation` NULL: the worker's first token. */
static void token_text(const struct pl_engine *e, uint64_t id, const char *incarnation, char out[PL_WORKER_TOKEN_BYTES])
{
    char mac[PL_HASH_HEX + 1];

    token_mac(e, id, incarnation, mac);
    snprintf(out, PL_WORKER_TOKEN_BYTES, PL_WORKER_TOKEN_START "%" PRIu64 "_%s%s%s", id, incarnation ? incarnation : "",
             incarnation ? "_" : "", mac);
}

void pl_engine_worker_token(const struct pl_engine *e, uint64_t id, char out[PL_WORKER_TOKEN_BYTES])
{
    token_text(e, id, NULL, out);
}

bool pl_engine_incarnation_ok(const char *incarnation)
{
    size_t n = strspn(incarnation, "0123456789abcdef-");

    return n >= 16 && n < PL_INCARNATION_BYTES && !incarnation[n] && strchr(incarnation, '-');
}

int pl_engine_exchange_token(struct pl_engine *e, uint64_t id, const char *incarnation, char out[PL_WORKER_TOKEN_BYTES],
                             struct pl_err *err)
{
    int r = pl_worker_tokens_exchange(e->doors, id, incarnation, err);

    if (r == 0)
        token_text(e, id, incarnation, out);
    return r;
}

int pl_engine_worker_principal(void *self, const char *token, struct pl_principal **ret, struct pl_err *err)
{
    const size_t start = strlen(PL_WORKER_TOKEN_START);
    char expected[PL_WORKER_TOKEN_BYTES], incarnation[PL_INCARNATION_BYTES] = "", *end;
    struct pl_engine *e = self;
    const char *mac;
    uint64_t id;

    if (strncmp(token, PL_WORKER_TOKEN_START, start) != 0)
        return pl_err_set(err, PL_EAUTH, "this is not a worker's token");
    id = strtoull(token + start, &end, 10);
    mac = *end == '_' ? strchr(end + 1, '_') : NULL;
    if (mac && (size_t)(mac - end) <= sizeof incarnation)
        snprintf(incarnation, sizeof incarnation, "%.*s", (int)(mac - end - 1), end + 1);
    token_text(e, id, mac ? incarnation : NULL, expected);
    if (*end != '_' || strlen(token) != strlen(expected) || !pl_secret_eq(token, expected, strlen(expected)))
        return pl_err_set(err, PL_EAUTH, "this is not a worker's token");
    return pl_worker_tokens_find(e->doors, id, mac ? incarnation : NULL, ret, err);
}
