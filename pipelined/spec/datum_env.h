/* datum_env: the environment variables that a stage's command sees for one datum. Pure: made from what the agent was told.
 *
 *   PL_INPUT_<NAME>   PFS/<name>/<path of the match>, no slash at the end (name in upper case, other bytes than letters and
 * digits as _) <name>            the same, when the name is a valid identifier; <name>_COMMIT its commit, when known (and
 * PL_INPUT_<NAME>_COMMIT) PL_OUT            PFS/out PL_SEED           0..2^31-1 from the datum key: its first 4 bytes,
 * little-endian, without the top bit; the same in every attempt PL_DEVICE         gpu | cpu      PL_GPU_COUNT   devices of this
 * worker PL_PROJECT PL_PIPELINE PL_STAGE PL_JOB_ID (run, 32 hex) PL_DATUM_ID (64 hex) PACH_JOB_ID PACH_OUTPUT_COMMIT_ID (=
 * PL_JOB_ID) PACH_DATUM_ID (= PL_DATUM_ID) PYTHONUNBUFFERED  1
 *   PL_PARAM_<NAME>   the text of a parameter of the datum
 *
 * `env` of the stage comes last, with ${params.NAME} in its values replaced: it may replace PL_SEED, PL_DEVICE, PL_GPU_COUNT and PYTHONUNBUFFERED, the spec reader refuses
 * the rest. */
#pragma once

#include "pipelined/spec/spec.h"
#include "pipelined/text/param_text.h"

struct pl_datum_env_input {
    const char *name;
    const char *path;   /* of the match, without leading slash; "" = root */
    const char *commit; /* NULL when not known */
};

struct pl_datum_env_request {
    const char *pfs; /* "/pfs" */
    const char *project, *pipeline, *stage;
    const char *run;      /* 32 hex */
    const char *datum_id; /* 64 hex; NULL: what holds for every datum of the worker, no more (no input, run or seed) */
    struct pl_hash datum_key;
    uint32_t gpu_count;
    const struct pl_datum_env_input *inputs;
    size_t n_inputs;
    const struct pl_param *params; /* of the datum */
    size_t n_params;
    const struct pl_env_var *env; /* of the stage */
    size_t n_env;
};

/* Sorted by key, each key once; strings in `arena`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_datum_env(const struct pl_datum_env_request *request, struct pl_arena *arena, struct pl_env_var **ret, size_t *ret_n,
                 struct pl_err *err);

/* "test-a" → "PL_INPUT_TEST_A". Returns `out`. */
#define PL_INPUT_VAR_BYTES 64
char *pl_input_var(const char *input, char out[PL_INPUT_VAR_BYTES]);
/* "lr" → "PL_PARAM_LR". Returns `out`. */
char *pl_param_var(const char *param, char out[PL_INPUT_VAR_BYTES]);
/* [A-Za-z_][A-Za-z0-9_]* */
bool pl_identifier_ok(const char *s);
