/* err: error codes and messages. One table defines each code with its wire name, its HTTP status, the exit
 * code of pipelinectl and whether a retry may succeed. The API, the CLI, logs, the retry policy and
 * docs/errors.md all use this table.
 *
 * A function that can fail returns 0 (or a count) or a negative code, and takes `struct pl_err *err` as its
 * last argument. The message is made where the error is detected, and each layer that passes it on wraps it
 * once: `commit 7f3a: put pack: no space left`. `err` may be NULL: then only the code is returned. An error
 * owns no memory and may be copied between threads. */
#pragma once

#include "storage/base/base.h"

/* X(NAME, value, wire name, HTTP status, exit code, retryable, meaning, remedy) */
#define PL_ERROR_MAP(X)                                                                                                          \
    X(EINVAL, 1, "invalid", 400, 5, 0, "A value is not acceptable.",                                                             \
      "Change the named field to what the message says is accepted.")                                                            \
    X(ENAME, 2, "invalid_name", 400, 5, 0, "A name of a project, repo, branch, stage or input is not allowed.",                  \
      "Use letters, digits, _ and -, at most 51, not starting with _ or -, and not 32 or 64 hex digits.")                        \
    X(EPATH, 3, "invalid_path", 400, 5, 0, "A path in a dataset is not allowed.",                                                \
      "Use UTF-8 without control characters, segments of 1 to 255 bytes, no . or .., at most 1,024 bytes.")                      \
    X(EGLOB, 4, "invalid_glob", 400, 5, 0, "A glob does not parse.", "Correct it at the column that the message names.")         \
    X(ESPEC, 5, "invalid_spec", 422, 5, 0, "A pipeline spec is not valid.", "Correct the spec at the line and column named.")    \
    X(EUSAGE, 6, "usage", 400, 2, 0, "The command line is not understood.", "See pipelinectl help VERB.")                        \
    X(ENOTFOUND, 7, "not_found", 404, 3, 0, "The named object does not exist.", "Check the name; list shows what exists.")       \
    X(EEXISTS, 8, "exists", 409, 4, 0, "An object with this name exists already.", "Use update, or another name.")               \
    X(ECONFLICT, 9, "conflict", 409, 4, 0,                                                                                       \
      "The request does not fit what is there now, such as a push whose paths another commit changed since its base.",           \
      "The message says what is in the way.")                                                                                    \
    X(ECOLLISION, 10, "path_collision", 409, 4, 0, "Two datums, or a file and a folder, claim one output path.",                 \
      "Give each datum a folder of its own with output.prefix.")                                                                 \
    X(EOUTPUT, 11, "output_repo", 409, 5, 0, "The repo is written by a stage.",                                                  \
      "Push to an input repo, or delete the pipeline.")                                                                          \
    X(EINUSE, 12, "in_use", 409, 4, 0, "Another object still uses it.", "First delete or change the object that uses it.")       \
    X(EAUTH, 13, "unauthorized", 401, 1, 0, "The token is missing or wrong.",                                                    \
      "Set PIPELINED_TOKEN, or pipelinectl login URL, or --data DIR: the daemon's folder, as the user who owns it.")             \
    X(EFORBIDDEN, 14, "forbidden", 403, 1, 0, "The token does not allow this.", "Ask an admin for the role.")                    \
    X(EHOST, 15, "wrong_host", 421, 1, 0, "The Host header does not name this daemon.", "Use the URL in DIR/pipelined.url.")     \
    X(EORIGIN, 16, "foreign_origin", 403, 1, 0, "A web page of another origin sent a request that changes data.",                \
      "Use the daemon's own page.")                                                                                              \
    X(ETOOBIG, 17, "too_large", 413, 5, 0, "A value or file exceeds its limit.", "Split it; the message names the limit.")       \
    X(ENOMEM, 18, "out_of_memory", 503, 1, 1, "Memory ran out.", "Try again; give the daemon more memory.")                      \
    X(EIO, 19, "io_error", 500, 1, 1, "Reading or writing failed.", "Check the disk; no acknowledged data was lost.")            \
    X(ENOSPC, 20, "disk_full", 507, 1, 1, "The disk is full.", "Free space and push again; the store is unharmed.")              \
    X(ECORRUPT, 21, "corrupt", 500, 1, 0, "Stored bytes do not match their hash.", "Run pipelinectl fsck --full.")               \
    X(EFORMAT, 22, "unknown_format", 500, 1, 0, "The data has a format or version that this program does not support.",          \
      "Use a newer program.")                                                                                                    \
    X(ELOG, 23, "wrong_log", 500, 1, 0, "Database and log do not belong together.",                                              \
      "Run pipelinectl recover into an empty folder.")                                                                           \
    X(EFENCED, 24, "fenced", 503, 1, 0, "Another daemon has taken over the store.", "Stop one of the two daemons.")              \
    X(ELOCKED, 25, "locked", 409, 1, 0, "Another daemon runs on this folder.", "Stop it, or choose another --data.")             \
    X(ERETRY, 26, "retry", 409, 1, 1, "Data that should be stored is missing.", "Push again; the client retries by itself.")     \
    X(EBUSY, 27, "busy", 503, 1, 1, "A queue is full.", "Try again in a moment.")                                                \
    X(ETIMEOUT, 28, "timeout", 504, 1, 1, "The operation took longer than allowed.", "Try again, or raise the timeout.")         \
    X(ECANCELED, 29, "canceled", 409, 1, 0, "The operation was stopped on request.", "Nothing.")                                 \
    X(ECHANGED, 30, "file_changed", 409, 1, 1, "A file changed while it was read.", "Push again when nothing writes to it.")     \
    X(ELEASE, 31, "lease_lost", 409, 1, 0, "The task was given to another worker.", "Nothing; its result is used instead.")      \
    X(EUNAVAILABLE, 32, "not_available", 501, 5, 0, "The program does not support this.",                                        \
      "The message says what it supports instead.")                                                                              \
    X(ENET, 33, "unreachable", 502, 6, 1, "No server responds at this address.", "Start pipelined, or set --server.")            \
    X(EPROTO, 34, "protocol", 400, 1, 0, "The other side does not follow the protocol.",                                         \
      "Use the same version of client and daemon.")                                                                              \
    X(ESTAGE, 35, "stage_failed", 422, 1, 0, "The stage's command failed.", "Read its log: pipelinectl logs STAGE.")             \
    X(EPACKFULL, 36, "pack_full", 500, 1, 0, "The pack is full.", "Internal: the next pack is opened.")                          \
    X(ELIMIT, 37, "limit", 422, 5, 0, "A limit of the program was reached.", "The message names the limit.")                     \
    X(ESTOPPING, 38, "stopping", 503, 1, 1, "The daemon is shutting down.", "Try again when it is back.")                        \
    X(EINTERNAL, 39, "internal", 500, 1, 0, "The program reached a state that it does not expect.",                              \
      "Report this error with its message.")                                                                                     \
    X(ETLS, 40, "untrusted", 502, 6, 0, "The server's certificate is not trusted.",                                              \
      "Name the file of its CA: --ca FILE, or PIPELINED_CA.")                                                                    \
    X(ECONFIRM, 41, "not_confirmed", 409, 5, 0, "The change is so costly that it needs a confirmation.",                         \
      "See what it would run (--dry-run), then confirm it (--yes).")                                                             \
    X(EGONE, 42, "gone", 410, 3, 0, "The named object is not there any more.", "The message says what became of it.")

enum {
#define PL_ERROR_ENUM(name, value, ...) PL_##name = -(value),
    PL_ERROR_MAP(PL_ERROR_ENUM)
#undef PL_ERROR_ENUM
};

#define PL_ERR_MSG_BYTES 1024

struct pl_err {
    int code;                   /* 0 or one of PL_E… */
    char msg[PL_ERR_MSG_BYTES]; /* one sentence without a newline; truncated to fit */
    char field[96];             /* name of the field or argument at fault; "" = none */
    char hint[256];             /* what to do; "" = the remedy of the code applies */
};

struct pl_err_info {
    int code;
    const char *name; /* on the wire, such as "not_found" */
    int http_status;
    int exit_code;
    bool retryable;
    const char *meaning;
    const char *remedy;
};

/* Sets code and message, clears field and hint, and returns `code`, so that a caller can write `return
 * pl_err_set(err, PL_EINVAL, …)`. */
int pl_err_set(struct pl_err *err, int code, const char *fmt, ...) PL_PRINTF(3, 4);
/* Sets a message that ends with strerror(errnum), and a code that depends on errnum: PL_ENOSPC, PL_ENOMEM,
 * PL_ENOTFOUND, otherwise PL_EIO. Returns the code. */
int pl_err_errno(struct pl_err *err, int errnum, const char *fmt, ...) PL_PRINTF(3, 4);
/* Puts "<fmt>: " before the existing message and sets the code; returns `code`. */
int pl_err_wrap(struct pl_err *err, int code, const char *fmt, ...) PL_PRINTF(3, 4);
/* Sets the name of the field at fault; returns `code`. */
int pl_err_field(struct pl_err *err, int code, const char *field);
/* Sets the hint; returns `code`. */
int pl_err_hint(struct pl_err *err, int code, const char *fmt, ...) PL_PRINTF(3, 4);
/* Sets PL_ENOMEM with its standard message; returns PL_ENOMEM. */
int pl_err_nomem(struct pl_err *err);

/* Return the table row of a code (the row of EINTERNAL if the code is unknown), or of a wire name (NULL if it
 * is unknown). Rows are static. */
const struct pl_err_info *pl_err_info(int code);
const struct pl_err_info *pl_err_info_by_name(const char *name);
/* Returns the whole table, which has `*ret_n` rows. */
const struct pl_err_info *pl_err_table(size_t *ret_n);
/* Appends the text of docs/errors.md to `out`. PL_ENOMEM, PL_ETOOBIG. */
struct pl_buf;
PL_MUST_CHECK
int pl_err_markdown(struct pl_buf *out, struct pl_err *err);
