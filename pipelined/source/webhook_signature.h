/* webhook_signature: decides whether a webhook comes from somebody who knows the source's secret, from its headers and the
 * bytes of its body, which are not parsed. Pure; any thread.
 *
 *   X-Hub-Signature-256                       sha256=HMAC   GitHub, Gitea, Forgejo
 *   X-Hub-Signature                           sha256=HMAC   Bitbucket (GitHub's sha1=… in it does not count)
 *   X-Gitea-Signature, X-Forgejo-Signature    HMAC          Gitea, Forgejo
 *   X-Gitlab-Token                            the secret    GitLab
 *   X-Pipelined-Signature                     sha256=HMAC   anybody
 *   Authorization                             Bearer, the secret
 *
 * HMAC is HMAC-SHA256 of the body under the secret (RFC 2104), 64 hex digits. One header that proves it is enough: servers
 * send several for old receivers. */
#pragma once

#include "storage/base/hash.h"

#define PL_WEBHOOK_SECRET_MAX 4096u /* bytes of a secret */

/* A secret in the forms that are compared. */
struct pl_webhook_key {
    bool there;           /* false: nothing is signed with it; the rest is random, so that a check takes the same time */
    uint8_t hmac[64];     /* key of the HMAC: the secret, or its SHA-256 if it is longer */
    size_t n;             /* bytes in it */
    struct pl_hash token; /* SHA-256 of the secret */
};

/* Makes the key of a secret. One line break at its end is left out, as editors and `echo` add one. An empty secret, and one
 * longer than PL_WEBHOOK_SECRET_MAX, gives a key that is not there. */
struct pl_webhook_key pl_webhook_key_make(const void *secret, size_t n);
/* Makes a key that is not there. */
struct pl_webhook_key pl_webhook_key_none(void);

/* Returns the value of a header of the request, or NULL; letters of `name` may have either case. */
typedef const char *(*pl_webhook_header_fn)(const void *self, const char *name);
/* True if a header proves that the sender of the body knows the secret. Secrets are compared in constant time. */
bool pl_webhook_signed(const struct pl_webhook_key *key, pl_webhook_header_fn header, const void *self, const void *body,
                       size_t n);
