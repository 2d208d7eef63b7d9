/* template: renders the prefix of output paths. For example "${test.stem}/" with the input `test` at /test/b1.csv gives "b1/".
 *
 *   ${INPUT.N}     what the Nth capture of the input's glob matched ("" if the capture was not part of the match)
 *   ${INPUT.path}  path of the match without leading '/'       ${INPUT.dir}   its folder ("" at the root)
 *   ${INPUT.stem}  its last segment without the last extension ("b1" of "test/b1.csv", ".rc" of ".rc", "a.tar" of "a.tar.gz")
 *   ${params.NAME} the text of a parameter   ${datum}       the first 12 hex digits of the datum id
 *
 * All other text is copied literally; "${" always begins a variable. A leading '/' is ignored. The rendered text is put before
 * each path that a datum wrote, without a separator, so a folder must end with '/'. A compiled template is immutable: any
 * thread may render it. */
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
    const char *const *params; /* names of the parameters of a params input; NULL for all other inputs */
    size_t n_params;
    /* some datums lack this input (it is in a branch of a union), so a template may not name it */
    bool absent;
};

/* Compiles a template. `inputs` are the inputs of the stage, in the order in which pl_template_render gets their values. If
 * several inputs share a name, the first is used, but a parameter must exist in each of them. Returns PL_ENOMEM, or
 * PL_ESPEC (and the error of pl_path_check) with a message that names the variable and the available inputs. */
PL_MUST_CHECK
int pl_template_compile(const char *text, const struct pl_template_input *inputs, size_t n, struct pl_template **ret,
                        struct pl_err *err);
struct pl_template *pl_template_destroy(struct pl_template *t);
static inline void pl_template_destroyp(struct pl_template **t)
{
    *t = pl_template_destroy(*t);
}
/* True if the template contains ${datum}; pl_template_render then needs the datum id. */
bool pl_template_wants_datum(const struct pl_template *t);
/* True if the template names the input with this index. */
bool pl_template_names(const struct pl_template *t, size_t input);

struct pl_template_value {
    const char *path; /* path of the match; "" = root */
    size_t path_len;
    const struct pl_span *captures; /* captures of the match, one for each capture of the glob */
    const char *const *params;      /* names of the parameters of a params input; their values are in `texts` */
    const char *const *texts;
    size_t n_params;
};

/* Appends the text for one datum to `out`. `values` has one entry for each input given to pl_template_compile. `datum_id`
 * may be NULL if pl_template_wants_datum is false. */
PL_MUST_CHECK
int pl_template_render(const struct pl_template *t, const struct pl_template_value *values, const struct pl_hash *datum_id,
                       struct pl_buf *out, struct pl_err *err);

/* Returns the stem of a path: its last segment without the last extension. Points into `path`. */
const char *pl_path_stem(const char *path, size_t len, size_t *ret_len);
