/* project_secret: operations on the secrets of a project, which an executor (exec/executor.h) stores, and the rules for
 * names, keys and sizes. The checks are pure. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/err.h"
#include <jansson.h>

#define PL_SECRET_NAME_MAX  253u       /* bytes of a name; the limit of Kubernetes */
#define PL_SECRET_KEY_MAX   230u       /* bytes of a key; a key is also a file name, and temporary suffixes must fit too */
#define PL_SECRET_BYTES_MAX (1u << 20) /* bytes of all values of one secret together */
#define PL_SECRET_KEYS_MAX  256u       /* keys of one secret */
#define PL_SECRETS_MAX      4096u      /* secrets of one project */

enum pl_secret_action {
    PL_SECRET_LIST,
    PL_SECRET_CREATE,
    PL_SECRET_UPDATE,
    PL_SECRET_DELETE,
    /* Checks before a project is created that no secrets of this project name are left over. If some are left, the
     * result is PL_EINUSE with their names and the way to remove them. */
    PL_SECRET_NONE,
    /* Reads the values of a secret for the daemon's own use (git, notifications); no route offers it. */
    PL_SECRET_READ
};
struct pl_secret_op {
    enum pl_secret_action what;
    const char *project;
    const char *name;     /* DELETE: NULL = all secrets of a project that is being deleted; LIST, NONE: ignored */
    const json_t *values; /* CREATE, UPDATE: {key: base64}; UPDATE keeps keys that are not listed */
};

/* Result of an operation, a new JSON reference: LIST: [{"name", "keys", "updated_us"}] sorted by name; DELETE of all
 * secrets: an array with one sentence about the secrets that remain; READ: {key: base64}, which the caller erases with
 * pl_secret_values_erase; every other operation: no result. */

/* Checks the name of a secret: lower-case letters, digits, - and . under the rules of Kubernetes. Returns PL_EINVAL with
 * the error field "name". */
PL_MUST_CHECK
int pl_secret_name_check(const char *name, struct pl_err *err);
/* Checks a key: letters, digits, -, _ and .; neither "." nor a key that starts with "..". Returns PL_EINVAL with the
 * error field "values". */
PL_MUST_CHECK
int pl_secret_key_check(const char *key, struct pl_err *err);
/* Checks the names, the number of keys and the sizes of the values in `op`. Returns PL_EINVAL, PL_ETOOBIG or PL_ELIMIT. */
PL_MUST_CHECK
int pl_secret_op_check(const struct pl_secret_op *op, struct pl_err *err);

/* Overwrites the strings of the object {KEY: text} in memory. No other owner may use these strings. Does nothing if
 * `values` is NULL or not an object. */
void pl_secret_values_erase(const json_t *values);

/* Appends `name` to a comma-separated list for a message. `i` is the number of names added before. After
 * PL_SECRET_NAMES_SHOWN names the list ends with "and more". Omits the name if memory runs out. */
#define PL_SECRET_NAMES_SHOWN 10u
void pl_secret_names_add(struct pl_buf *names, size_t i, const char *name);
