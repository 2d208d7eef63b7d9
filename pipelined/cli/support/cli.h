/* pipelined/cli: pipelinectl. Uses net, db (recover), core and all of storage.
 *
 *   main ─▶ args (words → a row of the table, its options) ─▶ handler of the row ─▶ server (who is asked) ─▶ show (tables, JSON)
 *
 * One file a noun (verb_<noun>.c) holds the handlers and the rows of its verbs and is named once in main.c; help, "did you
 * mean" and usage errors are made from the rows. Single-threaded, but for what ingest and checkout start and the progress line.
 *
 * A handler returns 0 or a code; main prints the message and exits with the code's exit status (0 ok, 1 failed, 2 usage, 3 not
 * found, 4 conflict, 5 refused as invalid, 6 no server). Interrupted (SIGINT): 130, and what was half-written is removed. */
#pragma once

#include "pipelined/net/http_client/http_client.h"
#include "storage/dataset/commit/commit_ref.h"
#include <sys/types.h>

/* An option of a verb; a list of them ends with a row without a name. */
struct pl_option {
    const char *name;  /* "file" for --file */
    char letter;       /* 'f' for -f; 0 = none */
    const char *value; /* what help calls its value: "LOCAL"; NULL = a switch */
    const char *about; /* one line of help */
};

struct pl_given {
    const struct pl_option *option;
    const char *value; /* NULL of a switch */
};

struct pl_cli {
    const struct pl_verb *verb;
    const char **args; /* what follows verb and noun */
    size_t n_args;
    struct pl_given *given;
    size_t n_given;
    /* Options of every verb. */
    const char *server, *data, *ca, *project; /* project: "default" unless given */
    bool json, quiet, help, version;
    struct pl_http_client *client; /* made when it is first asked for: server.h */
    bool daemon_was_there;         /* its address is what a daemon of the folder wrote, who may come back */
};

#define PL_CLI_ANY UINT32_MAX

struct pl_verb {
    const char *verb;
    const char *noun;                /* NULL: the verb stands alone */
    const char *args;                /* of the usage line: "REPO@BRANCH[:/PATH]" */
    unsigned min_args, max_args;     /* max_args PL_CLI_ANY: as many as one likes */
    const struct pl_option *options; /* NULL = none of its own */
    int (*run)(struct pl_cli *c, struct pl_err *err);
    const char *about; /* one sentence */
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

/* The tables of pl_cli_main, `*ret_n` of them. */
const struct pl_verb_section *pl_cli_tables(size_t *ret_n);

/* The whole program with these tables, in the order of help; those of one heading follow each other: exit status. */
int pl_cli_main(int argc, char **argv, const struct pl_verb_section *tables, size_t n);
/* While `path` is set, an interrupt removes that file before it ends the program; NULL: nothing to remove. `path` stays valid. */
void pl_cli_remove_on_interrupt(const char *path);
/* From here on the first interrupt, SIGTERM or SIGHUP is only noted, for an operation that takes back what it did; a second interrupt ends
 * the program. */
void pl_cli_note_interrupt(void);
bool pl_cli_interrupted(void);
/* A noted SIGTERM or SIGHUP, also one that came already, ends the child `pid` with SIGTERM; 0: there is none any more. */
void pl_cli_end_with_us(pid_t pid);
