/* log_apply: applies each kind of log record to the database: the same code for live transactions and for replay.
 * It does not validate for the user; the transaction has done that. A record that cannot be applied means that the
 * log does not belong to this database, or a bug, and stops the program. */
#pragma once

#include "pipelined/db/writer/sql.h"

/* Applies one record of log object `seq`. On the writer's connection, inside a transaction. */
PL_MUST_CHECK
int pl_apply_record(struct pl_conn *c, uint16_t kind, const json_t *payload, uint64_t seq, struct pl_err *err);
