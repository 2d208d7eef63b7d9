/* defaults_tx: fields of stages that every spec has beneath its own `defaults`: the cluster's, and over them a project's. They count when a
 * pipeline is created or updated; what is there already stays as it is. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_DEFAULTS_MAX (256u << 10) /* bytes of one text */

struct pl_defaults_args {
    const char *project; /* NULL: the cluster's */
    json_t *spec;        /* as pl_spec_defaults_read gave it; {}: there are none any more. Borrowed */
};
/* Logged; arg: struct pl_defaults_args. PL_ENOTFOUND: there is no such project. */
PL_MUST_CHECK
int pl_tx_defaults_set(struct pl_tx *tx, void *arg, struct pl_err *err);

/* JSON of the cluster's (`project` NULL) or a project's, "{}" when there are none; malloc'ed. */
PL_MUST_CHECK
int pl_db_defaults_read(struct pl_conn *c, const char *project, char **ret, struct pl_err *err);
