/* datum_identity: hashes lists of fields. The order of the fields is part of the format and must not
 * change. */
#include "pipelined/plan/datum_identity.h"

/* The hash of an identity while its fields are added. */
struct identity {
    struct pl_hasher *h;
};

static void identity_text(struct identity *id, const char *text)
{
    pl_hasher_add_field(id->h, text, strlen(text));
}

static void identity_number(struct identity *id, uint64_t value)
{
    uint8_t n[8];

    for (size_t i = 0; i < sizeof(n); i++)
        n[i] = (uint8_t)(value >> (8 * i));
    pl_hasher_add_field(id->h, n, sizeof(n));
}

static void identity_part(struct identity *id, const char *tag, uint64_t n_values)
{
    identity_text(id, tag);
    identity_number(id, n_values);
}

static void identity_get(struct identity *id, struct pl_hash *ret)
{
    pl_hasher_get(id->h, ret);
}

/* Adds the parts in the order that datum_identity.h lists. */
void pl_stage_code_identity(const struct pl_stage *stage, const struct pl_hash *code_root, struct pl_hash *ret)
{
    struct pl_hasher hasher;
    struct identity id = {.h = pl_hasher_init(&hasher)};

    identity_text(&id, "pl-code-1");
    identity_part(&id, "image", stage->image != NULL);
    if (stage->image != NULL)
        identity_text(&id, stage->image);
    identity_part(&id, "run", stage->n_run);
    for (size_t i = 0; i < stage->n_run; i++)
        identity_text(&id, stage->run[i]);
    identity_part(&id, "script", stage->script != NULL);
    if (stage->script != NULL)
        identity_text(&id, stage->script);
    identity_part(&id, "env", 2 * stage->n_env);
    for (size_t i = 0; i < stage->n_env; i++) {
        identity_text(&id, stage->env[i].key);
        identity_text(&id, stage->env[i].value);
    }
    identity_part(&id, "user", stage->user.given ? 2 : 0);
    if (stage->user.given) {
        identity_number(&id, (uint64_t)stage->user.uid);
        identity_number(&id, (uint64_t)stage->user.gid);
    }
    identity_part(&id, "code", code_root != NULL);
    if (code_root != NULL)
        pl_hasher_add_field(id.h, code_root->b, PL_HASH_BYTES);
    identity_part(&id, "setup", 0);
    if (stage->stdin_text != NULL) {
        identity_part(&id, "stdin", 1);
        identity_text(&id, stage->stdin_text);
    }
    if (stage->python != NULL) {
        identity_part(&id, "python", 1);
        identity_text(&id, stage->python);
    }
    identity_get(&id, ret);
}

void pl_datum_id(const struct pl_datum_leaf *leaves, size_t n, struct pl_hash *ret)
{
    struct pl_hasher hasher;
    struct identity id = {.h = pl_hasher_init(&hasher)};

    identity_text(&id, "pl-datum-id-1");
    for (size_t i = 0; i < n; i++) {
        const struct pl_input *in = leaves[i].input;

        if (in->environment)
            continue; /* all datums of a job have the same */
        identity_text(&id, in->name);
        identity_text(&id, pl_input_reads(in) ? in->project : "");
        identity_text(&id, pl_input_reads(in) ? in->repo : "");
        identity_text(&id, pl_input_reads(in) ? in->branch : "");
        pl_hasher_add_field(id.h, leaves[i].path, leaves[i].path_len);
    }
    identity_get(&id, ret);
}

void pl_datum_key(const struct pl_datum_leaf *leaves, size_t n, const struct pl_hash *code_identity, const struct pl_cache *cache,
                  struct pl_hash *ret)
{
    static const struct pl_hash none;
    struct pl_hasher hasher;
    struct identity id = {.h = pl_hasher_init(&hasher)};

    identity_text(&id, "pl-datum-key-1");
    for (size_t i = 0; i < n; i++) {
        identity_text(&id, leaves[i].input->environment ? PL_ENVIRONMENT : leaves[i].input->name);
        pl_hasher_add_field(id.h, leaves[i].path, leaves[i].path_len);
        pl_hasher_add_field(id.h, &leaves[i].kind, leaves[i].input->reference ? 0 : 1);
        if (!leaves[i].input->reference)
            pl_hasher_add_field(id.h, leaves[i].content->b, PL_HASH_BYTES);
    }
    pl_hasher_add_field(id.h, cache->code ? code_identity->b : none.b, PL_HASH_BYTES);
    identity_text(&id, cache->salt);
    identity_get(&id, ret);
}
