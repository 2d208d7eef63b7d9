/* defaults_tx: default fields of stages, for the cluster and for each project. A project's defaults override
 * the cluster's, and a spec's own `defaults` override both. They are applied when a pipeline is created or
 * updated; existing pipelines do not change. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_DEFAULTS_MAX (256u << 10) /* bytes of the JSON text of one scope */

struct pl_defaults_args {
    const char *project; /* NULL: the cluster */
    json_t *spec;        /* new defaults as returned by pl_spec_defaults_read; {} = none. Borrowed */
};
/* Sets the defaults of a scope. Logged transaction; arg: struct pl_defaults_args. PL_ENOTFOUND: the project
 * does not exist. */
PL_MUST_CHECK
int pl_tx_defaults_set(struct pl_tx *tx, void *arg, struct pl_err *err);

/* Reads the defaults of the cluster (`project` NULL) or of a project as JSON, "{}" if there are none. The
 * caller frees *ret. */
PL_MUST_CHECK
int pl_db_defaults_read(struct pl_conn *c, const char *project, char **ret, struct pl_err *err);
