/* webhooks: a server of repositories says that it got a push. A webhook is only a hint to look at the source now, and is
 * believed if it is signed with the source's secret (webhook_signature.h); nothing of its body is used.
 *
 *   known source ──▶ key, read at most every PL_WEBHOOK_KEY_MS ──▶ signed? ──yes──▶ look
 *                        └── read again if not, at most every PL_WEBHOOK_AGAIN_MS
 *   other names  ──▶ the same steps with a key that nobody knows ──▶ no
 *
 * Whoever does not know the secret cannot tell a source from a name that is none, neither by the answer nor by its time. */
#pragma once

#include "pipelined/policy/project_secret.h"
#include "pipelined/source/webhook_signature.h"

#define PL_WEBHOOK_SECRET_KEY     "hook" /* key in the secret that the setting `hook_secret` names */
#define PL_WEBHOOK_KEY_MS         30000  /* longest time that a key is used without reading it again */
#define PL_WEBHOOK_AGAIN_MS       2000   /* shortest time between two readings because a signature was wrong */
#define PL_WEBHOOK_WRONG          30     /* readings for wrong signatures at once, for all names together, and */
#define PL_WEBHOOK_WRONG_A_MINUTE 120    /* a minute */

struct pl_webhook_keys;

struct pl_webhook {
    const char *source; /* the name in the path */
    pl_webhook_header_fn header;
    const void *self; /* of `header` */
    const void *body;
    size_t n;
    /* reads secrets: pl_engine_ops.secrets */
    int (*secrets)(void *engine, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    void *engine;
};

/* Where the key of a webhook is; NULL = the name is not that of a source with a secret. */
struct pl_webhook_secret {
    const char *project, *name;
};

PL_MUST_CHECK
int pl_webhook_keys_create(struct pl_webhook_keys **ret, struct pl_err *err);
struct pl_webhook_keys *pl_webhook_keys_destroy(struct pl_webhook_keys *k);
/* Says that a secret was changed or deleted: all keys are read again when they are needed. */
void pl_webhook_keys_changed(struct pl_webhook_keys *k);
/* True if the webhook is signed with the secret. Reads the secret if it is not known, or too old: blocks. Any thread. */
bool pl_webhook_keys_check(struct pl_webhook_keys *k, const struct pl_webhook *hook, const struct pl_webhook_secret *secret);
