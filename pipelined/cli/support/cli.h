/* cli: the framework of pipelinectl: the tables of subcommands, interrupts, and the program's entry point.
 *
 *   main ─▶ args (words → a row of the table, its options) ─▶ handler of the row
 *                                                              │
 *                                 show (output) ◀── server_client (requests)
 *
 * A subcommand is a verb and usually a noun, such as `put file`; it has one row in a table. Each file
 * verb_<noun>.c has the table and the handlers of one noun. main.c lists every table once. Help, "did you mean"
 * hints and usage errors are generated from the rows. The program has one thread, except for the threads of
 * ingest, checkout and the progress line.
 *
 * A handler returns 0 or a negative error code. pl_cli_main prints the error message and returns the code's
 * exit status: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 refused as invalid, 6 no server. After
 * SIGINT the status is 130 and half-written output is removed. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/dataset/commit/commit_ref.h"
#include <sys/types.h>

/* An option of a subcommand. A row without a name ends a list of options. */
struct pl_option {
    const char *name; /* long name without dashes: "file" for --file */
    char letter;      /* short name: 'f' for -f; 0 = none */
    /* placeholder of the option's value in help, such as "LOCAL"; NULL = the option takes no value */
    const char *value;
    const char *about; /* one line of help text */
};

struct pl_given {
    const struct pl_option *option;
    const char *value; /* value of the option; NULL if the option takes none */
};

struct pl_cli {
    const struct pl_verb *verb;
    const char **args; /* positional arguments, which follow the verb and the noun */
    size_t n_args;
    struct pl_given *given;
    size_t n_given;
    /* Values of the options that every subcommand accepts; NULL if not given. */
    const char *server, *data, *ca, *project; /* `project` is "default" if not given */
    bool json, quiet, help, version;
    bool one_project; /* `project` was given */
    /* HTTP client of the server; created by the first call of pl_cli_client(), NULL before */
    struct pl_http_client *client;
    /* the server's address came from a pipelined.url file: a daemon ran here and may come back */
    bool daemon_was_there;
};

#define PL_CLI_ANY UINT32_MAX

struct pl_verb {
    const char *verb;
    const char *noun;                /* NULL = the verb takes no noun */
    const char *args;                /* arguments as shown in the usage line: "REPO@BRANCH[:/PATH]" */
    unsigned min_args, max_args;     /* allowed number of arguments; `max_args` PL_CLI_ANY = no limit */
    const struct pl_option *options; /* the subcommand's own options; NULL = only the common options */
    int (*run)(struct pl_cli *c, struct pl_err *err);
    const char *about; /* what the subcommand does, in one sentence */
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

/* Returns the tables of subcommands that were passed to pl_cli_main; `*ret_n` is their number. */
const struct pl_verb_section *pl_cli_tables(size_t *ret_n);

/* Runs the whole program with these tables of subcommands and returns its exit status. Help lists the tables
 * in the given order; tables with the same heading must be adjacent. */
int pl_cli_main(int argc, char **argv, const struct pl_verb_section *tables, size_t n);
/* Sets the path of the file that is removed when SIGINT ends the program; NULL = none. `path` is not copied
 * and must stay valid until another path is set. */
void pl_cli_remove_on_interrupt(const char *path);
/* After this call, the first SIGINT, SIGTERM, SIGHUP or SIGPIPE is only recorded: the operation checks
 * pl_cli_interrupted, undoes its work and returns. A second SIGINT ends the program. */
void pl_cli_note_interrupt(void);
/* True if a signal was recorded after pl_cli_note_interrupt(). */
bool pl_cli_interrupted(void);
/* Registers the child process that receives SIGTERM when this program receives SIGTERM or SIGHUP; a signal
 * that was recorded before the call is passed on at once. 0 = no child. */
void pl_cli_end_with_us(pid_t pid);
