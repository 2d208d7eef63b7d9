/* apply: what each kind of log record does to the database: the one place, for live transactions and for replay alike. It validates
 * nothing that needs a message for people (the transaction has done that); a record that cannot be applied means a log that does not
 * belong to this database, or a bug, and stops the program. */
#pragma once

#include "pipelined/db/writer/sql.h"

/* Applies one record of object `seq`. Writer's connection, inside a transaction. */
PL_MUST_CHECK
int pl_apply_record(struct pl_conn *c, uint16_t kind, const json_t *payload, uint64_t seq, struct pl_err *err);
