// link: pipelined/source storage/base
/* Headers and a body of anybody, under a secret that they do not have: nothing is signed, unless a header says the secret or the
 * body's HMAC, which the same bytes give when they are signed. The input: lines NAME: VALUE, an empty line, the body; its first
 * byte chooses the secret's length. */
#include "pipelined/source/webhook_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEADERS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct headers {
    size_t n;
    struct {
        const char *name, *value;
    } rows[HEADERS_MAX];
};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static const char *header_of(const void *self, const char *name)
{
    const struct headers *h = self;

    for (size_t i = 0; i < h->n; i++)
        if (strcasecmp(h->rows[i].name, name) == 0)
            return h->rows[i].value;
    return NULL;
}

/* Cuts the text into headers; returns where the body begins. */
static char *cut(char *text, const char *end, struct headers *ret)
{
    while (text < end && *text != '\n') {
        char *line = text, *stop = memchr(text, '\n', (size_t)(end - text)), *colon;

        if (!stop)
            return text;
        *stop = '\0';
        text = stop + 1;
        colon = strstr(line, ": ");
        if (colon && ret->n < HEADERS_MAX) {
            *colon = '\0';
            ret->rows[ret->n].name = line;
            ret->rows[ret->n++].value = colon + 2;
        }
    }
    return text < end ? text + 1 : text;
}

/* True if a value ends with the secret or the HMAC: no other request is signed. */
static bool knows(const struct headers *h, const char *secret, const char *hex)
{
    bool found = false;

    for (size_t i = 0; i < h->n; i++) {
        const char *value = h->rows[i].value;
        const size_t len = strlen(value), n = strlen(secret), m = strlen(hex);

        found =
            found || (len >= n && strcmp(value + len - n, secret) == 0) || (len >= m && strcasecmp(value + len - m, hex) == 0);
    }
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const size_t len = n ? (size_t)data[0] % 130 : 0;
    uint8_t mac[EVP_MAX_MD_SIZE];
    struct headers headers = {0};
    struct pl_webhook_key key, none = pl_webhook_key_none();
    char secret[131], hex[PL_HASH_HEX + 1], prefixed[PL_HASH_HEX + 8];
    char *text = malloc(n + 1), *body;
    unsigned mac_len = 0;
    size_t body_len;

    must(text != NULL);
    memcpy(text, data, n);
    text[n] = '\0';
    memset(secret, 's', len);
    secret[len] = '\0';
    body = cut(text + (n ? 1 : 0), text + n, &headers);
    body_len = (size_t)(text + n - body);
    key = pl_webhook_key_make(secret, len);
    must(key.there == (len > 0));
    must(HMAC(EVP_sha256(), secret, (int)len, (const uint8_t *)body, body_len, mac, &mac_len) && mac_len == PL_HASH_BYTES);
    pl_hex_encode(mac, mac_len, hex);
    must(!pl_webhook_signed(&none, header_of, &headers, body, body_len));
    must(!pl_webhook_signed(&key, header_of, &headers, body, body_len) || (len > 0 && knows(&headers, secret, hex)));
    snprintf(prefixed, sizeof prefixed, "sha256=%s", hex);
    headers = (struct headers){1, {{"X-Hub-Signature-256", prefixed}}};
    must(pl_webhook_signed(&key, header_of, &headers, body, body_len) == (len > 0));
    headers = (struct headers){1, {{"X-Gitlab-Token", secret}}};
    must(pl_webhook_signed(&key, header_of, &headers, body, body_len) == (len > 0));
    free(text);
    return 0;
}
