/* show: prints the server's answers. For people: tables and lists of fields, cut to the terminal's width. For
 * programs, with --json: the server's objects unchanged. A list of columns selects the fields to print. Times
 * are in local time, sizes in binary units, ids cut to 8 digits. */
#pragma once

#include "pipelined/cli/support/cli.h"

#include <stdio.h>

#define PL_SHOW_TEXT_MAX 1100 /* size of the text of one cell in bytes, with the final NUL */

/* One column of a table, or one line of a printed object. `key` is the field's name in the object, or a path
 * to it: "datums.total". */
struct pl_column {
    const char *title;
    const char *key;
    /* Formats the value at `key` (NULL if absent) as text; `item` is the whole object. If `text` is NULL,
     * strings and numbers are printed unchanged and booleans as yes or no. */
    void (*text)(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
};

/* Formatters for the field `text` of a column: the first 8 digits of an id; a size; a time; how long ago a
 * time was; a retention rule of a repo, such as "commits=10,days=30" or "all"; a duration in milliseconds. */
void pl_show_id(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_size(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_time(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_ago(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_keep(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
void pl_show_ms(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
/* The duration of a run or job, such as "3.2s": from `started_us` (else `created_us`) to `finished_us` (else
 * now). */
void pl_show_took(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
/* The git commit of a version: "8f31c0a2b1d4 of source team, pipelines/digits.json: Subject (Ada <ada@x.org>)". */
void pl_show_origin(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
/* Formats the state of a job, such as "success (3 failed)" if it succeeded although some of its datums
 * failed. */
void pl_show_job_state(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);
/* The numbers of a job's datums, such as "8 (7 reused)". */
void pl_show_datums(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX]);

/* pl_show_at: returns the value at a dotted key, NULL if absent. pl_show_text_at: the value as a string, ""
 * if it is not one. pl_show_int_at: the value as a number, 0 if it is not one. Values are borrowed from
 * `item`. */
const json_t *pl_show_at(const json_t *item, const char *key);
const char *pl_show_text_at(const json_t *item, const char *key);
/* Returns what goes before the name of the repo of `item` where the repos of `project` are shown: "OTHER/" if `item` names
 * another project, else "". Returns `out`. */
#define PL_SHOW_PROJECT_MAX 64
const char *pl_show_project_of(const json_t *item, const char *project, char out[PL_SHOW_PROJECT_MAX]);
json_int_t pl_show_int_at(const json_t *item, const char *key);

/* Prints the objects of an array as an aligned table. On a terminal, state words are coloured and lines are
 * cut to the terminal's width. */
PL_MUST_CHECK
int pl_show_table(const json_t *items, const struct pl_column *columns, size_t n, bool with_titles, struct pl_err *err);
/* Prints one object, with a line for each column whose value is not empty. With --json, prints the JSON
 * object. */
PL_MUST_CHECK
int pl_show_object(const struct pl_cli *c, const json_t *item, const struct pl_column *columns, size_t n, struct pl_err *err);
/* Returns flags for json_dumpf(). If `to` is a terminal, they escape all characters beyond ASCII, because a
 * terminal obeys some of them (U+0080 to U+009F). */
size_t pl_show_json_flags(FILE *to);
/* Prints a JSON document on stdout: indented on a terminal, else on one line. PL_EIO. */
PL_MUST_CHECK
int pl_show_json(const json_t *value, struct pl_err *err);
/* Requests the list at `path` (from pl_http_path_make) page by page and prints its array `key`, at most
 * `limit` items (0 = all). `empty` is printed if there are none. With --json, prints {"KEY": […]} as the
 * pages arrive. If there are more than a limit that the user did not give, says so on stderr, with the
 * options --limit and, if the subcommand has it, --all. */
PL_MUST_CHECK
int pl_show_list(struct pl_cli *c, const char *path, const char *key, const struct pl_column *columns, size_t n, uint64_t limit,
                 const char *empty, struct pl_err *err);

/* Sends DELETE for `path` and prints the result, such as "repo digits deleted"; with --json, {"deleted":
 * "repo digits"}. */
PL_MUST_CHECK
int pl_show_delete(struct pl_cli *c, const char *path, const char *kind, const char *name, struct pl_err *err);
/* Like printf to stdout, but prints nothing with --quiet or --json. For results, and for the command to type
 * next. Removes control characters like pl_show_print. */
void pl_show_say(const struct pl_cli *c, const char *fmt, ...) PL_PRINTF(2, 3);
/* Flushes stdout. PL_EIO: not everything that was printed could be written. */
PL_MUST_CHECK
int pl_show_flush(struct pl_err *err);
/* Copies text from the server to `out` and replaces the characters that a terminal would obey; cuts the copy
 * at `size` bytes. `out` may be `text`. Returns `out`. */
char *pl_show_clean(const char *text, char *out, size_t size);

/* State of a filter that removes control characters from text that arrives in pieces. Zeroed = at the start
 * of the text. */
struct pl_show_text {
    /* the last byte, if its meaning depends on the next one: CR, or the first byte of U+0080 to U+009F; 0 =
     * none */
    uint8_t held;
    unsigned rest; /* number of bytes that the current UTF-8 character still needs */
};
/* Filters the next `n` bytes for a terminal into `out` (at least n + 1 bytes) and returns the number of bytes
 * written. Line ends are kept; CR becomes LF. */
size_t pl_show_clean_bytes(struct pl_show_text *t, const void *data, size_t n, char *out);
/* Writes the next bytes of a text to stdout. If stdout is a terminal, the bytes pass the filter; otherwise
 * they are unchanged. PL_EIO. */
PL_MUST_CHECK
int pl_show_write(struct pl_show_text *t, const void *data, size_t n, struct pl_err *err);
/* Like printf, for text that may come from other users: on a terminal, control characters are replaced; line
 * ends are kept. */
void pl_show_print(FILE *to, const char *fmt, ...) PL_PRINTF(2, 3);
