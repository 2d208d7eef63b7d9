/* log_print: prints the records of a stage's log (GET /api/v1/logs?lines=1, see pipelined/db/stage_log/log_stream.h) on
 * standard output: whole lines with the datum and the time before them, or JSON lines. One thread.
 *
 * On a terminal the line that goes on, such as a progress bar, is shown and rewritten in place; otherwise only its last
 * state is printed, once it has ended. */
#pragma once

#include "storage/base/buf.h"

#define PL_LOG_PRINT_RECORD_MAX (1u << 20) /* bytes of a record; the daemon writes shorter ones */

struct pl_log_print_options {
    bool json; /* each line is {"at": TIME | null, "datum": ID, "attempt": N, "text": TEXT} */
    bool timestamps;
    bool prefix;         /* the first 12 digits of the datum's id before each line */
    bool prefix_several; /* the same, from the first line of a second datum on */
};

struct pl_log_print;

PL_MUST_CHECK
int pl_log_print_create(const struct pl_log_print_options *options, struct pl_log_print **ret, struct pl_err *err);
struct pl_log_print *pl_log_print_destroy(struct pl_log_print *p);
/* Takes the next bytes of the reply and prints the records that they end. PL_EPROTO: not a record; PL_EIO: standard output. */
PL_MUST_CHECK
int pl_log_print_feed(struct pl_log_print *p, const void *data, size_t n, struct pl_err *err);
/* Ends the printing: a line that goes on, as the terminal shows it, stays. PL_EIO. */
PL_MUST_CHECK
int pl_log_print_end(struct pl_log_print *p, struct pl_err *err);
