/* template: output prefixes. "${test.stem}/" with the input `test` at /test/b1.csv gives "b1/".
 *
 *   ${INPUT.N}     what the Nth capture of the input's glob matched ("" when it took no part)
 *   ${INPUT.path}  path of the match without leading '/'       ${INPUT.dir}   its folder ("" at the root)
 *   ${INPUT.stem}  its last segment without the last extension ("b1" of "test/b1.csv", ".rc" of ".rc", "a.tar" of "a.tar.gz")
 *   ${params.NAME} the text of a parameter   ${datum}       the first 12 hex digits of the datum id
 *
 * Everything else stands for itself; "${" always begins one of these. Leading '/' does not count. The rendered text goes before
 * the path that a datum wrote, as it is: a folder ends with '/'. A compiled template does not change: any thread may render. */
#pragma once

#include "pipelined/text/glob.h"
#include "storage/base/buf.h"
#include "storage/base/hash.h"

#define PL_TEMPLATE_MAX_BYTES 1024u
#define PL_TEMPLATE_DATUM_HEX 12u

struct pl_template;

/* An input that templates may name. */
struct pl_template_input {
    const char *name;
    unsigned captures;
    const char *const *params; /* of `params`: the names; NULL for all other inputs */
    size_t n_params;
    bool absent; /* some datum has no such input: naming it is refused */
};

/* `inputs` are those of the stage, in the order in which values are given to render; of several with one name the first counts, but a
 * parameter must be one of each. PL_ESPEC names the variable, and what there
 * is. */
PL_MUST_CHECK
int pl_template_compile(const char *text, const struct pl_template_input *inputs, size_t n, struct pl_template **ret,
                        struct pl_err *err);
struct pl_template *pl_template_destroy(struct pl_template *t);
static inline void pl_template_destroyp(struct pl_template **t)
{
    *t = pl_template_destroy(*t);
}
/* Does it hold ${datum}? Then render wants the datum id. */
bool pl_template_wants_datum(const struct pl_template *t);
/* Does it name input i? */
bool pl_template_names(const struct pl_template *t, size_t input);

struct pl_template_value {
    const char *path; /* of the match, "" = root */
    size_t path_len;
    const struct pl_span *captures; /* as many as the glob has */
    const char *const *params;      /* of `params`: names and texts */
    const char *const *texts;
    size_t n_params;
};

/* Appends the text for one datum. `values`: one per input of compile. `datum_id` may be NULL when it is not wanted. */
PL_MUST_CHECK
int pl_template_render(const struct pl_template *t, const struct pl_template_value *values, const struct pl_hash *datum_id,
                       struct pl_buf *out, struct pl_err *err);

/* The stem of a path: last segment without its last extension. Points into `path`. */
const char *pl_path_stem(const char *path, size_t len, size_t *ret_len);
