/* datum_env: the environment variables of a stage's command for one datum. Pure: the caller passes everything
 * that it depends on.
 *
 *   PL_INPUT_<NAME>         PFS/<name>/<path of the match>, without a final slash. NAME is in upper case; bytes
 *                           other than letters and digits become _
 *   <name>                  the same, if the name is a valid identifier
 *   PL_INPUT_<NAME>_COMMIT  the input's commit, if known; also <name>_COMMIT
 *   PL_PARAM_<NAME>         value of a parameter of the datum, as text
 *   PL_OUT                  PFS/out
 *   PL_SEED                 0..2^31-1: the first 4 bytes of the datum key, little-endian, without the top bit;
 *                           the same in every attempt
 *   PL_DEVICE               gpu | cpu
 *   PL_GPU_COUNT            GPUs of this worker
 *   PL_PROJECT, PL_PIPELINE, PL_STAGE
 *   PL_JOB_ID               id of the run, 32 hex digits; also PACH_JOB_ID and PACH_OUTPUT_COMMIT_ID
 *   PL_DATUM_ID             64 hex digits; also PACH_DATUM_ID
 *   TRACEPARENT             trace of the request that started the run, if it named one (W3C Trace Context)
 *   PYTHONUNBUFFERED        1
 *
 * The stage's `env` comes last, with ${params.NAME} replaced in its values. It may replace PL_SEED,
 * PL_DEVICE, PL_GPU_COUNT, TRACEPARENT and PYTHONUNBUFFERED; the spec parser refuses the others. */
#pragma once

#include "pipelined/spec/spec.h"
#include "pipelined/text/param_text.h"

struct pl_datum_env_input {
    const char *name;
    const char *path;   /* path of the match, without a leading slash; "" = root */
    const char *commit; /* id of the commit; NULL = not known */
};

struct pl_datum_env_request {
    const char *pfs; /* folder of the inputs: "/pfs" */
    const char *project, *pipeline, *stage;
    const char *run;         /* id of the run, 32 hex digits */
    const char *traceparent; /* trace of the run; NULL or "" = none */
    /* 64 hex digits; NULL = only variables that are the same for all datums of the worker (no input, run or
     * seed) */
    const char *datum_id;
    struct pl_hash datum_key;
    uint32_t gpu_count;
    const struct pl_datum_env_input *inputs;
    size_t n_inputs;
    const struct pl_param *params; /* parameters of the datum */
    size_t n_params;
    const struct pl_env_var *env; /* `env` of the stage */
    size_t n_env;
};

/* Computes the variables, sorted by key, without duplicates; strings are in `arena`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_datum_env(const struct pl_datum_env_request *request, struct pl_arena *arena, struct pl_env_var **ret, size_t *ret_n,
                 struct pl_err *err);

/* Makes the name of an input's variable: "test-a" → "PL_INPUT_TEST_A". Returns `out`. */
#define PL_INPUT_VAR_BYTES 64
char *pl_input_var(const char *input, char out[PL_INPUT_VAR_BYTES]);
/* Makes the name of a parameter's variable: "lr" → "PL_PARAM_LR". Returns `out`. */
char *pl_param_var(const char *param, char out[PL_INPUT_VAR_BYTES]);
/* True if `s` is a valid identifier: [A-Za-z_][A-Za-z0-9_]* */
bool pl_identifier_ok(const char *s);
