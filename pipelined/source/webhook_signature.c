/* webhook_signature: a table of headers and of what each must hold. The HMAC is computed once for all, whatever headers there
 * are. */
#include "pipelined/source/webhook_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <strings.h>

enum proof {
    PROOF_PREFIXED, /* "sha256=" and the HMAC */
    PROOF_HMAC,     /* the HMAC */
    PROOF_TOKEN,    /* the secret */
    PROOF_BEARER,   /* "Bearer " and the secret */
};

static const struct {
    const char *header;
    enum proof proof;
} rows[] = {
    {"X-Hub-Signature-256", PROOF_PREFIXED},   {"X-Hub-Signature", PROOF_PREFIXED}, {"X-Gitea-Signature", PROOF_HMAC},
    {"X-Forgejo-Signature", PROOF_HMAC},       {"X-Gitlab-Token", PROOF_TOKEN},     {"Authorization", PROOF_BEARER},
    {"X-Pipelined-Signature", PROOF_PREFIXED},
};

struct pl_webhook_key pl_webhook_key_none(void)
{
    struct pl_webhook_key key = {.n = sizeof key.hmac};

    pl_random_bytes(key.hmac, sizeof key.hmac);
    pl_random_bytes(key.token.b, sizeof key.token.b);
    return key;
}

struct pl_webhook_key pl_webhook_key_make(const void *secret, size_t n)
{
    struct pl_webhook_key key = {.there = true};
    const uint8_t *bytes = secret;
    struct pl_hash hashed;

    if (n > 0 && bytes[n - 1] == '\n')
        n--;
    if (n > 0 && bytes[n - 1] == '\r')
        n--;
    if (n == 0 || n > PL_WEBHOOK_SECRET_MAX)
        return pl_webhook_key_none();
    pl_hash_sha256(bytes, n, &key.token);
    hashed = key.token;
    if (n > sizeof key.hmac) { /* as HMAC does with a key longer than a block */
        bytes = hashed.b;
        n = sizeof hashed.b;
    }
    memcpy(key.hmac, bytes, n);
    key.n = n;
    return key;
}

/* True if `text` is the HMAC in hex digits of either case. */
static bool is_hmac(const char *text, const uint8_t mac[PL_HASH_BYTES])
{
    uint8_t given[PL_HASH_BYTES];
    char hex[PL_HASH_HEX + 1];

    if (strlen(text) != PL_HASH_HEX)
        return false;
    for (size_t i = 0; i < PL_HASH_HEX; i++)
        hex[i] = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] + 'a' - 'A') : text[i];
    hex[PL_HASH_HEX] = '\0';
    return pl_hex_decode(hex, given, sizeof given) && pl_secret_eq(given, mac, sizeof given);
}

static bool is_token(const char *text, const struct pl_webhook_key *key)
{
    struct pl_hash given;

    pl_hash_sha256(text, strlen(text), &given);
    return pl_secret_eq(given.b, key->token.b, sizeof given.b);
}

/* Returns what follows `prefix` in the text, or NULL. */
static const char *after(const char *text, const char *prefix)
{
    const size_t n = strlen(prefix);

    return strncasecmp(text, prefix, n) == 0 ? text + n : NULL;
}

static bool proves(enum proof proof, const char *value, const struct pl_webhook_key *key, const uint8_t mac[PL_HASH_BYTES])
{
    const char *rest = proof == PROOF_PREFIXED ? after(value, "sha256=")
                       : proof == PROOF_BEARER ? after(value, "Bearer ")
                                               : value;

    if (!rest)
        return false;
    return proof == PROOF_TOKEN || proof == PROOF_BEARER ? is_token(rest, key) : is_hmac(rest, mac);
}

bool pl_webhook_signed(const struct pl_webhook_key *key, pl_webhook_header_fn header, const void *self, const void *body,
                       size_t n)
{
    uint8_t mac[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;
    bool proved = false;

    if (!HMAC(EVP_sha256(), key->hmac, (int)key->n, n ? body : (const void *)"", n, mac, &len))
        len = 0; /* without memory only tokens are compared */
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const char *value = header(self, rows[i].header);

        if (value && (len == PL_HASH_BYTES || rows[i].proof >= PROOF_TOKEN))
            proved = proves(rows[i].proof, value, key, mac) || proved;
    }
    return proved && key->there;
}
