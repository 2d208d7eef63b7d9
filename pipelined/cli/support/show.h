/* show: answers for people (tables, lists of fields, cut to the terminal) and for programs (--json: the server's objects as they are).
 * What to show of an object is a list of columns. Times are local, sizes in binary units, ids cut to 8 digits. */
#pragma once

#include "pipelined/cli/support/cli.h"

#include <stdio.h>

#define PL_SHOW_TEXT_MAX 1100 /* bytes of one cell */

/* One thing that is shown of an object. `key` may go down: "datums.total". */
struct pl_column {
    const char *title;
    const char *key;
    /* The value at `key` (NULL when absent) as text; `item` is the whole object. NULL: text, number, yes or no as it is. */
    void (*text)(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
};

/* For `text`: the first 8 digits of an id; a size; a time; how long ago; milliseconds; a commit with its branch. */
void pl_show_id(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_size(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_time(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_ago(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
/* A rule of what is kept: "commits=10,days=30"; "all". */
void pl_show_keep(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_ms(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
/* "3.2s" from `started_us` (else `created_us`) to `finished_us` (else now) of a run or job. */
void pl_show_took(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
/* The numbers of a job's datums: "8 (7 reused)". */
/* "success (3 failed)" of a job: one that left datums out says so. */
void pl_show_job_state(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_datums(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);

/* The value at a dotted key; NULL when there is none. And as text ("" when it is none) or number (0). */
const json_t *pl_show_at(const json_t *item, const char *key);
const char *pl_show_text_at(const json_t *item, const char *key);
json_int_t pl_show_int_at(const json_t *item, const char *key);

/* Adds an array's objects to a table and prints it: aligned, words of state coloured on a terminal, lines cut to its width. */
PL_MUST_CHECK
int pl_show_table(const json_t *items, const struct pl_column *columns, size_t n, bool with_titles, struct pl_err *err);
/* One object: a line per column that it has. With --json the object. */
PL_MUST_CHECK
int pl_show_object(const struct pl_cli *c, const json_t *item, const struct pl_column *columns, size_t n, struct pl_err *err);
/* Of json_dumpf(): U+007F to U+009F escaped where `to` is a terminal, which would obey them. */
size_t pl_show_json_flags(FILE *to);
/* A document on stdout: indented on a terminal, else one line. PL_EIO. */
PL_MUST_CHECK
int pl_show_json(const json_t *value, struct pl_err *err);
/* Asks page after page of the list `path` (from pl_http_path_make) and prints its array `key`, at most `limit` of it (0 = all).
 * `empty` is said when there is nothing. With --json: {"KEY": […]}, written as the pages come. */
PL_MUST_CHECK
int pl_show_list(struct pl_cli *c, const char *path, const char *key, const struct pl_column *columns, size_t n, uint64_t limit,
                 const char *empty, struct pl_err *err);

/* Deletes what is at `path` and says so: "repo digits deleted". With --json {"deleted": "repo digits"}. */
PL_MUST_CHECK
int pl_show_delete(struct pl_cli *c, const char *path, const char *kind, const char *name, struct pl_err *err);
/* printf to stdout unless --quiet or --json: what was done, and what to type next; as pl_show_print. */
void pl_show_say(const struct pl_cli *c, const char *fmt, ...) PL_PRINTF(2, 3);
/* Everything printed has arrived. PL_EIO. */
PL_MUST_CHECK
int pl_show_flush(struct pl_err *err);
/* Text of others without characters that a terminal would obey, cut at `size`. `out` may be `text`. Returns `out`. */
char *pl_show_clean(const char *text, char *out, size_t size);

/* What a program printed, in pieces as it comes. Zeroed, it is at the start of a text. */
struct pl_show_text {
    uint8_t held;  /* a byte that the next one decides about: CR, the start of U+0080 to U+009F; 0 = none */
    unsigned rest; /* bytes that the character at hand still has */
};
/* Cleans the next `n` bytes for a terminal into `out` (room for n + 1), lines as they are; CR becomes LF. Returns how many bytes these are. */
size_t pl_show_clean_bytes(struct pl_show_text *t, const void *data, size_t n, char *out);
/* Writes the next bytes of the text to stdout: cleaned where that is a terminal, as they are elsewhere. PL_EIO. */
PL_MUST_CHECK
int pl_show_write(struct pl_show_text *t, const void *data, size_t n, struct pl_err *err);
/* printf of texts that may hold what others have written: on a terminal cleaned, lines as they are. */
void pl_show_print(FILE *to, const char *fmt, ...) PL_PRINTF(2, 3);
