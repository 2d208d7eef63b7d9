/* secret: what is asked of whoever keeps the secrets of projects (exec/executor.h), and how they may be called. Pure. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/err.h"
#include <jansson.h>

#define PL_SECRET_NAME_MAX  253u       /* bytes of a name, as in Kubernetes */
#define PL_SECRET_KEY_MAX   230u       /* of a key: as a file's name it has room for what is written beside it */
#define PL_SECRET_BYTES_MAX (1u << 20) /* of all values of one */
#define PL_SECRET_KEYS_MAX  256u
#define PL_SECRETS_MAX      4096u /* of a project */

enum pl_secret_action {
    PL_SECRET_LIST,
    PL_SECRET_CREATE,
    PL_SECRET_UPDATE,
    PL_SECRET_DELETE,
    PL_SECRET_NONE /* that none waits for a project of this name, which is to be made: PL_EINUSE with their names and what removes them */
};
struct pl_secret_op {
    enum pl_secret_action what;
    const char *project;
    const char *name;     /* DELETE: NULL = all of the project, which goes. LIST, NONE: not looked at */
    const json_t *values; /* CREATE, UPDATE: {key: base64}; UPDATE leaves other keys as they are */
};

/* What comes of it, as a new reference: LIST: [{"name", "keys", "updated_us"}] by name; DELETE of all: [a sentence] about those that stay; else
 * nothing. */

/* Lower case letters, digits, - and ., as Kubernetes takes it. PL_EINVAL, field "name". */
PL_MUST_CHECK
int pl_secret_name_check(const char *name, struct pl_err *err);
/* Letters, digits, - _ and .; not starting with "..", not ".". PL_EINVAL, field "values". */
PL_MUST_CHECK
int pl_secret_key_check(const char *key, struct pl_err *err);
/* Names, numbers and sizes of what is to be set. PL_EINVAL, PL_ETOOBIG, PL_ELIMIT. */
PL_MUST_CHECK
int pl_secret_op_check(const struct pl_secret_op *op, struct pl_err *err);

/* Overwrites the values of {KEY: text}, which are nobody's from then on but for this object; NULL or another value: nothing. */
void pl_secret_values_erase(const json_t *values);

/* Names for a sentence, separated by commas: the first PL_SECRET_NAMES_SHOWN, then that there are more. `i`: how many came before. What there is
 * no memory for is left out. */
#define PL_SECRET_NAMES_SHOWN 10u
void pl_secret_names_add(struct pl_buf *names, size_t i, const char *name);
