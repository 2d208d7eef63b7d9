/* cli: the framework of pipelinectl: rows of the verb tables, interrupts, and the program's entry point.
 *
 *   main ─▶ args (words → a row of the table, its options) ─▶ handler of the row
 *                                                              │
 *                                 show (output) ◀── server_client (requests)
 *
 * Each file verb_<noun>.c holds the handlers and the table rows of a noun's verbs. main.c lists each table
 * once. Help, "did you mean" hints and usage errors are generated from the rows. The program has one thread,
 * except for the threads of ingest, checkout and the progress line.
 *
 * A handler returns 0 or a negative error code. pl_cli_main prints the error message and returns the code's
 * exit status: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 refused as invalid, 6 no server. After
 * SIGINT the status is 130 and half-written output is removed. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/dataset/commit/commit_ref.h"
#include <sys/types.h>

/* An option of a verb. A row without a name ends a list of options. */
struct pl_option {
    const char *name;  /* long name: "file" for --file */
    char letter;       /* short name: 'f' for -f; 0 = none */
    const char *value; /* placeholder of the value in help: "LOCAL"; NULL = the option takes no value */
    const char *about; /* one line of help text */
};

struct pl_given {
    const struct pl_option *option;
    const char *value; /* NULL if the option takes no value */
};

struct pl_cli {
    const struct pl_verb *verb;
    const char **args; /* positional arguments after verb and noun */
    size_t n_args;
    struct pl_given *given;
    size_t n_given;
    /* Values of the options that every verb accepts; NULL if not given. */
    const char *server, *data, *ca, *project; /* `project` is "default" if not given */
    bool json, quiet, help, version;
    struct pl_http_client *client; /* created by the first pl_cli_client(); NULL before */
    /* the address came from a pipelined.url file: a daemon ran here and may come back */
    bool daemon_was_there;
};

#define PL_CLI_ANY UINT32_MAX

struct pl_verb {
    const char *verb;
    const char *noun;                /* NULL = the verb takes no noun */
    const char *args;                /* arguments in the usage line: "REPO@BRANCH[:/PATH]" */
    unsigned min_args, max_args;     /* allowed number of arguments; `max_args` PL_CLI_ANY = no limit */
    const struct pl_option *options; /* NULL = only the common options */
    int (*run)(struct pl_cli *c, struct pl_err *err);
    const char *about; /* what the verb does, in one sentence */
    const char *examples[3];
};

struct pl_verb_table {
    const struct pl_verb *verbs;
    size_t n;
};
#define PL_CLI_TABLE(noun, rows) const struct pl_verb_table pl_cli_verbs_##noun = {rows, PL_ARRAY_SIZE(rows)}

struct pl_verb_section {
    const char *heading;
    const struct pl_verb_table *table;
};

/* Returns the tables that were passed to pl_cli_main; `*ret_n` is their number. */
const struct pl_verb_section *pl_cli_tables(size_t *ret_n);

/* Runs the whole program with these tables and returns the exit status. Help lists the tables in the given
 * order; tables with the same heading must be adjacent. */
int pl_cli_main(int argc, char **argv, const struct pl_verb_section *tables, size_t n);
/* Sets the file that SIGINT removes before it ends the program; NULL = none. `path` is not copied and must
 * stay valid while it is set. */
void pl_cli_remove_on_interrupt(const char *path);
/* From this call on, the first SIGINT, SIGTERM or SIGHUP is only recorded, so that the operation can undo its
 * work and return. A second SIGINT ends the program. */
void pl_cli_note_interrupt(void);
/* True if a signal was recorded after pl_cli_note_interrupt(). */
bool pl_cli_interrupted(void);
/* Registers the child process that receives SIGTERM when this program receives SIGTERM or SIGHUP; a signal
 * that was recorded before the call is passed on at once. 0 = no child. */
void pl_cli_end_with_us(pid_t pid);
