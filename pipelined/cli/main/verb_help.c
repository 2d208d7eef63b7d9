/* help and version. The help text is generated from the tables of subcommands. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/base/path.h"
#include <stdio.h>

static void print_options(const struct pl_option *options)
{
    char left[64];

    for (const struct pl_option *o = options; o && o->name; o++) {
        snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ', o->letter ? "," : " ",
                 o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-26s %s\n", left, o->about);
    }
}

static void print_verb(const struct pl_verb *v)
{
    char usage[256];

    printf("pipelinectl %s\n  %s\n", pl_cli_usage(v, usage, sizeof usage), v->about);
    if (v->options) {
        puts("\noptions:");
        print_options(v->options);
    }
    if (v->examples[0])
        puts("\nexamples:");
    for (size_t i = 0; i < PL_ARRAY_SIZE(v->examples) && v->examples[i]; i++)
        printf("  %s%s\n", strstr(v->examples[i], "pipelinectl") ? "" : "pipelinectl ", v->examples[i]);
}

/* Prints one line of the list of subcommands: the verb, and the first clause of its description. */
static void print_line(const struct pl_verb *v)
{
    size_t n = strcspn(v->about, ".;");
    char words[64];

    /* a '.' within a name such as metrics.jsonl does not end the clause */
    while (v->about[n] && v->about[n + 1] && v->about[n + 1] != ' ')
        n += 1 + strcspn(v->about + n + 1, ".;");

    snprintf(words, sizeof words, "%s%s%s", v->verb, v->noun ? " " : "", v->noun ? v->noun : "");
    printf("  %-18s %.*s\n", words, (int)n, v->about);
}

static void print_all(void)
{
    size_t n;
    const struct pl_verb_section *sections = pl_cli_tables(&n);

    puts("pipelinectl VERB [NOUN] …: data, pipelines and runs of a pipelined daemon");
    for (size_t s = 0; s < n; s++) {
        if (s == 0 || !pl_streq(sections[s].heading, sections[s - 1].heading))
            printf("\n%s\n", sections[s].heading);
        for (size_t i = 0; i < sections[s].table->n; i++)
            print_line(&sections[s].table->verbs[i]);
    }
    puts("\noptions of every subcommand:");
    print_options(pl_cli_common_options);
    puts("\nREPO@REF: REF is a branch, the id of a commit or the start of one; REF^n is n commits before it.\n"
         "PROJECT/REPO is a repo of another project.\n"
         "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 refused as invalid, 6 no server, 130 interrupted.\n"
         "Options and examples of a subcommand: pipelinectl help VERB [NOUN]");
}

/* help: lists all verbs. help WORD: shows every subcommand with that verb or noun. help VERB NOUN: shows one
 * subcommand. */
static int help(struct pl_cli *c, struct pl_err *err)
{
    size_t n, shown = 0;
    const struct pl_verb_section *tables = pl_cli_tables(&n);
    const struct pl_verb *only;

    if (c->n_args == 0) {
        print_all();
        return 0;
    }
    only = pl_cli_find_verb(c->args[0], c->n_args > 1 ? c->args[1] : NULL);
    if (only && (c->n_args > 1 || !only->noun)) {
        print_verb(only);
        shown++;
    }
    for (size_t t = 0; t < n && c->n_args == 1; t++)
        for (size_t i = 0; i < tables[t].table->n; i++) {
            const struct pl_verb *v = &tables[t].table->verbs[i];

            if (!v->noun || (!pl_streq(v->verb, c->args[0]) && !pl_streq(v->noun, c->args[0])))
                continue;
            if (shown++)
                putchar('\n');
            print_verb(v);
        }
    return shown ? 0 : pl_cli_unknown(c->args[0], c->n_args > 1 ? c->args[1] : NULL, err);
}

static int version(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out = NULL;

    if (!c->json) {
        puts("pipelinectl " PL_VERSION);
        return 0;
    }
    out = json_pack("{s:s}", "version", PL_VERSION);
    return pl_show_json(out, err);
}

static const struct pl_verb verbs[] = {
    {"help",
     NULL,
     "[VERB [NOUN]]",
     0,
     2,
     NULL,
     help,
     "Lists all subcommands, or shows one with its options and examples.",
     {"help", "help put file", "help pipeline"}},
    {"version", NULL, "", 0, 0, NULL, version, "Prints the version of this program.", {"version", "version --json", "--version"}},
};
PL_CLI_TABLE(help, verbs);
