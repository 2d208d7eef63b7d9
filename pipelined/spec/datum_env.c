/* Computes a datum's environment variables. */
#include "pipelined/spec/datum_env.h"

#include <ctype.h>
#include <stdio.h>

#define ENV_FIXED_VARS 16u
#define ENV_INPUT_VARS 4u

/* The list of variables. Out of memory, `env` is NULL or `failed` is set; both are checked once at the
 * end. */
struct env_list {
    struct pl_arena *arena;
    struct pl_env_var *env;
    size_t n;
    bool failed;
};

bool pl_identifier_ok(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s != '\0'; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

static char *env_var(const char *prefix, const char *name, char out[PL_INPUT_VAR_BYTES])
{
    (void)snprintf(out, PL_INPUT_VAR_BYTES, "%s%s", prefix, name);
    for (char *p = out; *p != '\0'; p++)
        *p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
    return out;
}

char *pl_input_var(const char *input, char out[PL_INPUT_VAR_BYTES])
{
    return env_var("PL_INPUT_", input, out);
}

char *pl_param_var(const char *param, char out[PL_INPUT_VAR_BYTES])
{
    return env_var("PL_PARAM_", param, out);
}

static void env_add(struct env_list *list, const char *key, const char *value)
{
    char *k = pl_arena_strdup(list->arena, key), *v = value != NULL ? pl_arena_strdup(list->arena, value) : NULL;

    if (k == NULL || v == NULL)
        list->failed = true;
    else
        list->env[list->n++] = (struct pl_env_var){k, v};
}

static void env_add_input(struct env_list *list, const char *pfs, const struct pl_datum_env_input *input)
{
    char *path = pl_arena_printf(list->arena, "%s/%s%s%s", pfs, input->name, input->path[0] != '\0' ? "/" : "", input->path);
    char var[PL_INPUT_VAR_BYTES], commit[PL_INPUT_VAR_BYTES + 8];

    env_add(list, pl_input_var(input->name, var), path);
    if (pl_identifier_ok(input->name))
        env_add(list, input->name, path);
    if (input->commit == NULL)
        return;
    (void)snprintf(commit, sizeof(commit), "%s_COMMIT", var);
    env_add(list, commit, input->commit);
    (void)snprintf(commit, sizeof(commit), "%s_COMMIT", input->name);
    if (pl_identifier_ok(input->name))
        env_add(list, commit, input->commit);
}

static void env_add_fixed(struct env_list *list, const struct pl_datum_env_request *q)
{
    uint32_t seed = (uint32_t)q->datum_key.b[0] | (uint32_t)q->datum_key.b[1] << 8 | (uint32_t)q->datum_key.b[2] << 16 |
                    (uint32_t)q->datum_key.b[3] << 24;

    env_add(list, "PL_OUT", pl_arena_printf(list->arena, "%s/out", q->pfs));
    env_add(list, "PL_DEVICE", q->gpu_count > 0 ? "gpu" : "cpu");
    env_add(list, "PL_GPU_COUNT", pl_arena_printf(list->arena, "%u", q->gpu_count));
    env_add(list, "PL_PROJECT", q->project);
    env_add(list, "PL_PIPELINE", q->pipeline);
    env_add(list, "PL_STAGE", q->stage);
    env_add(list, "PYTHONUNBUFFERED", "1");
    if (q->datum_id == NULL)
        return;
    env_add(list, "PL_SEED", pl_arena_printf(list->arena, "%u", seed & INT32_MAX));
    env_add(list, "PL_JOB_ID", q->run);
    env_add(list, "PL_DATUM_ID", q->datum_id);
    env_add(list, "PACH_JOB_ID", q->run);
    env_add(list, "PACH_OUTPUT_COMMIT_ID", q->run);
    env_add(list, "PACH_DATUM_ID", q->datum_id);
    if (q->traceparent != NULL && q->traceparent[0] != '\0')
        env_add(list, "TRACEPARENT", q->traceparent);
}

static void env_add_params(struct env_list *list, const struct pl_datum_env_request *q)
{
    char var[PL_INPUT_VAR_BYTES];

    for (size_t i = 0; i < q->n_params; i++)
        env_add(list, pl_param_var(q->params[i].name, var), q->params[i].value);
    for (size_t i = 0; i < q->n_env; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf text = {0};
        int r = pl_param_text_expand(q->env[i].value, q->params, q->n_params, &text, NULL);

        env_add(list, q->env[i].key, r == 0 ? pl_buf_str(&text) : NULL);
    }
}

/* A variable and its number in the order in which the variables were added: if several have the same name,
 * the last one counts. */
struct env_place {
    struct pl_env_var var;
    size_t at;
};

static int env_compare(const void *a, const void *b)
{
    const struct env_place *x = a, *y = b;
    int r = strcmp(x->var.key, y->var.key);

    return r != 0 ? r : x->at < y->at ? -1 : 1;
}

int pl_datum_env(const struct pl_datum_env_request *q, struct pl_arena *arena, struct pl_env_var **ret, size_t *ret_n,
                 struct pl_err *err)
{
    size_t most = ENV_FIXED_VARS + ENV_INPUT_VARS * q->n_inputs + q->n_params + q->n_env, n = 0;
    struct env_list list = {.arena = arena, .env = pl_arena_alloc(arena, most * sizeof(struct pl_env_var))};
    _cleanup_free_ struct env_place *places = calloc(most, sizeof(*places));

    if (list.env == NULL || places == NULL)
        return pl_err_nomem(err);
    env_add_fixed(&list, q);
    for (size_t i = 0; i < q->n_inputs; i++)
        env_add_input(&list, q->pfs, &q->inputs[i]);
    env_add_params(&list, q);
    if (list.failed)
        return pl_err_nomem(err);
    for (size_t i = 0; i < list.n; i++)
        places[i] = (struct env_place){list.env[i], i};
    qsort(places, list.n, sizeof(*places), env_compare);
    for (size_t i = 0; i < list.n; i++) {
        if (n > 0 && pl_streq(list.env[n - 1].key, places[i].var.key))
            n--; /* the variable that was added later counts: the stage's own `env` */
        list.env[n++] = places[i].var;
    }
    *ret = list.env;
    *ret_n = n;
    return 0;
}
