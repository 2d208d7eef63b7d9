/* Parses the command line: finds the subcommand's row in the tables, reads long and short options, and
 * collects the arguments. Errors suggest the nearest known word, or what pipelinectl calls a word of another
 * tool. */
#include "pipelined/cli/support/args.h"

#include "pipelined/cli/support/word_hints.h"

#include "storage/base/path.h"
#include <stdio.h>

const struct pl_option pl_cli_common_options[] = {
    {"server", 0, "URL", "address of the daemon (else --data, PIPELINED_URL, the login context, the default folder)"},
    {"data", 0, "DIR", "data folder of a daemon on this machine; its address and token are read from there"},
    {"ca", 0, "FILE", "file of CA certificates to trust for https (else PIPELINED_CA, else the system's)"},
    {"project", 0, "NAME", "project of repos, pipelines and stages that are given without one (\"default\")"},
    {"json", 0, NULL, "print the answer as JSON"},
    {"quiet", 'q', NULL, "print errors only"},
    {"help", 'h', NULL, "show help on the subcommand"},
    {"version", 0, NULL, "show the version of this program"},
    {0},
};

/* Verbs of other tools (alias), with the verb of pipelinectl that means the same. */
static const struct {
    const char *alias, *verb;
} aliases[] = {{"ls", "list"}, {"cat", "get"}, {"rm", "delete"}, {"cp", "put"}, {"add", "create"}, {"show", "inspect"}};

/* ---- tables of subcommands ---- */

/* True if `word` is the noun or its plural: "repo", "repos", "branch", "branches". */
static bool noun_is(const char *noun, const char *word)
{
    size_t n = strlen(noun);

    if (strncmp(noun, word, n) != 0)
        return false;
    return pl_streq(word + n, "") || pl_streq(word + n, "s") || (noun[n - 1] == 'h' && pl_streq(word + n, "es"));
}

static const struct pl_verb *next_verb(size_t *table, size_t *row)
{
    size_t n;
    const struct pl_verb_section *tables = pl_cli_tables(&n);

    for (; *table < n; (*table)++, *row = 0)
        if (*row < tables[*table].table->n)
            return &tables[*table].table->verbs[(*row)++];
    return NULL;
}

const struct pl_verb *pl_cli_find_verb(const char *verb, const char *noun)
{
    const struct pl_verb *v, *file = NULL;
    size_t table = 0, row = 0;

    while ((v = next_verb(&table, &row))) {
        if (!pl_streq(v->verb, verb))
            continue;
        if (noun ? v->noun && noun_is(v->noun, noun) : !v->noun)
            return v;
        if (v->noun && pl_streq(v->noun, "file"))
            file = v;
    }
    return noun ? NULL : file;
}

char *pl_cli_usage(const struct pl_verb *v, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s%s%s", v->verb, v->noun ? " " : "", v->noun ? v->noun : "", *v->args ? " " : "", v->args);
    return out;
}

/* Fills `ret` with all verbs or, if `verb` is not NULL, with the nouns of that verb. A verb appears once for
 * each of its nouns. */
static size_t known_words(const char *verb, const char *ret[], size_t max)
{
    const struct pl_verb *v;
    size_t table = 0, row = 0, n = 0;

    while ((v = next_verb(&table, &row)) && n < max)
        if (!verb)
            ret[n++] = v->verb;
        else if (pl_streq(v->verb, verb) && v->noun)
            ret[n++] = v->noun;
    return n;
}

static bool is_noun(const char *word)
{
    const struct pl_verb *v;
    size_t table = 0, row = 0;

    while ((v = next_verb(&table, &row)))
        if (v->noun && noun_is(v->noun, word))
            return true;
    return false;
}

/* ---- unknown verbs and nouns ---- */

static int no_verb(const char *word, const char *next, struct pl_err *err)
{
    const char *words[128], *near, *instead = pl_cli_word_hint(word, next);
    size_t n = known_words(NULL, words, PL_ARRAY_SIZE(words));

    if (instead)
        return pl_err_set(err, PL_EUSAGE, "\"%s\" is not a subcommand of pipelinectl: %s", word, instead);
    if (next && is_noun(word) && pl_cli_find_verb(next, word))
        return pl_err_set(err, PL_EUSAGE, "the verb comes first: pipelinectl %s %s", next, word);
    near = pl_word_nearest(word, words, n);
    if (near)
        return pl_err_set(err, PL_EUSAGE, "\"%.60s\" is not a subcommand: did you mean \"%s\"?", word, near);
    return pl_err_set(err, PL_EUSAGE, "\"%.60s\" is not a subcommand: pipelinectl help lists all subcommands", word);
}

/* Sets PL_EUSAGE for a verb whose noun is missing or unknown. Suggests the first of these that exists: the
 * hint for a word of another tool, the form for "get NOUN" as kubectl uses it, the nearest known noun, the
 * list of all nouns. */
static int no_noun(const char *verb, const char *word, struct pl_err *err)
{
    const char *instead = word ? pl_cli_noun_hint(verb, word) : NULL;
    const char *words[128], *near;
    char all[256] = "";
    size_t n = known_words(verb, words, PL_ARRAY_SIZE(words)), len = 0;

    if (instead)
        return pl_err_set(err, PL_EUSAGE, "%s %s does not exist: %s", verb, word, instead);
    /* kubectl uses "get NOUN" where pipelinectl uses "list NOUN" */
    if (word && pl_streq(verb, "get") && is_noun(word))
        return pl_err_set(err, PL_EUSAGE, "get takes files: did you mean list %s?", word);
    near = word ? pl_word_nearest(word, words, n) : NULL;
    if (near)
        return pl_err_set(err, PL_EUSAGE, "%s \"%.60s\" does not exist: did you mean %s %s?", verb, word, verb, near);
    for (size_t i = 0; i < n && len < sizeof all; i++)
        len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", i ? ", " : "", words[i]);
    return word ? pl_err_set(err, PL_EUSAGE, "%s \"%.60s\" does not exist: %s takes %s", verb, word, verb, all)
                : pl_err_set(err, PL_EUSAGE, "%s what? Give one of: %s", verb, all);
}

int pl_cli_unknown(const char *verb, const char *noun, struct pl_err *err)
{
    const char *any[1];

    return known_words(verb, any, 1) ? no_noun(verb, noun, err) : no_verb(verb, noun, err);
}

/* Finds the table row that the first word or the first two words name; `*ret_used_second` tells whether the
 * second word is the noun. A word of another tool in `aliases` counts as the verb that it stands for. */
static int find_row(const char *first, const char *second, const struct pl_verb **ret, bool *ret_used_second, struct pl_err *err)
{
    const char *verb = first;

    for (size_t i = 0; i < PL_ARRAY_SIZE(aliases); i++)
        if (pl_streq(aliases[i].alias, first))
            verb = aliases[i].verb;
    *ret_used_second = false;
    if (second && (*ret = pl_cli_find_verb(verb, second))) {
        *ret_used_second = true;
        return 0;
    }
    /* "get digits@master:/x" names a file; "list repso" is a misspelled noun */
    *ret = pl_cli_find_verb(verb, NULL);
    if (*ret && (!(*ret)->noun || verb != first || (second && strpbrk(second, "@:/"))))
        return 0;
    return verb != first && pl_cli_word_hint(first, second) ? no_verb(first, second, err) : pl_cli_unknown(verb, second, err);
}

/* ---- options ---- */

static const struct pl_option *find_option(const struct pl_option *list, const char *name, size_t len, char letter)
{
    for (; list && list->name; list++)
        if (letter ? list->letter == letter : strlen(list->name) == len && memcmp(list->name, name, len) == 0)
            return list;
    return NULL;
}

/* Sets PL_EUSAGE for an unknown option. Suggests what pipelinectl calls another tool's option of this name,
 * or the nearest known option. */
static int no_option(const struct pl_cli *c, const char *arg, struct pl_err *err)
{
    const struct pl_option *lists[] = {c->verb ? c->verb->options : NULL, pl_cli_common_options};
    const char *words[64], *near = NULL, *instead = NULL;
    char name[64];
    size_t n = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(lists); i++)
        for (const struct pl_option *o = lists[i]; o && o->name && n < PL_ARRAY_SIZE(words); o++)
            words[n++] = o->name;
    if (strncmp(arg, "--", 2) == 0) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
        near = pl_word_nearest(name, words, n);
        instead = pl_cli_other_option(name);
    }
    if (instead)
        return pl_err_set(err, PL_EUSAGE, "unknown option %.60s: %s", arg, instead);
    if (near)
        return pl_err_set(err, PL_EUSAGE, "unknown option %.60s: did you mean --%s?", arg, near);
    if (!c->verb)
        return pl_err_set(err, PL_EUSAGE, "unknown option %.60s before the subcommand", arg);
    return pl_err_set(err, PL_EUSAGE, "unknown option %.60s of %s%s%s", arg, c->verb->verb, c->verb->noun ? " " : "",
                      c->verb->noun ? c->verb->noun : "");
}

static void set_common(struct pl_cli *c, const struct pl_option *o, const char *value)
{
    if (pl_streq(o->name, "server"))
        c->server = value;
    else if (pl_streq(o->name, "data"))
        c->data = value;
    else if (pl_streq(o->name, "ca"))
        c->ca = value;
    else if (pl_streq(o->name, "project"))
        c->project = value;
    else if (pl_streq(o->name, "json"))
        c->json = true;
    else if (pl_streq(o->name, "quiet"))
        c->quiet = true;
    else if (pl_streq(o->name, "help"))
        c->help = true;
    else
        c->version = true;
}

static void add_given(struct pl_cli *c, const struct pl_option *o, const char *value)
{
    if (o >= pl_cli_common_options && o < pl_cli_common_options + PL_ARRAY_SIZE(pl_cli_common_options))
        set_common(c, o, value);
    else
        c->given[c->n_given++] = (struct pl_given){o, value};
}

/* The command line and the index of the next word to read. */
struct words {
    char **argv;
    int argc, at;
};

static int take_value(struct words *w, const struct pl_option *o, const char *attached, const char **ret, struct pl_err *err)
{
    if (attached) {
        *ret = attached;
        return 0;
    }
    if (w->at == w->argc)
        return pl_err_set(err, PL_EUSAGE, "--%s needs a value: --%s %s", o->name, o->name, o->value);
    *ret = w->argv[w->at++];
    return 0;
}

static const struct pl_option *option_of(const struct pl_cli *c, const char *name, size_t len, char letter)
{
    const struct pl_option *o = c->verb ? find_option(c->verb->options, name, len, letter) : NULL;

    return o ? o : find_option(pl_cli_common_options, name, len, letter);
}

static int take_long(struct pl_cli *c, struct words *w, const char *arg, struct pl_err *err)
{
    size_t len = strcspn(arg + 2, "=");
    const char *value = NULL, *attached = arg[2 + len] ? arg + 2 + len + 1 : NULL;
    const struct pl_option *o = option_of(c, arg + 2, len, 0);
    int r = o ? 0 : no_option(c, arg, err);

    if (r == 0 && attached && !o->value)
        r = pl_err_set(err, PL_EUSAGE, "--%s takes no value", o->name);
    if (r == 0 && o->value)
        r = take_value(w, o, attached, &value, err);
    if (r == 0)
        add_given(c, o, value);
    return r;
}

/* Reads a word of short options: -r, -rf FILE, or -fFILE. */
static int take_letters(struct pl_cli *c, struct words *w, const char *arg, struct pl_err *err)
{
    for (const char *p = arg + 1; *p; p++) {
        const struct pl_option *o = option_of(c, NULL, 0, *p);
        const char *value = NULL;
        int r = o ? 0 : no_option(c, arg, err);

        if (r == 0 && o->value)
            r = take_value(w, o, p[1] ? p + 1 : NULL, &value, err);
        if (r < 0)
            return r;
        add_given(c, o, value);
        if (o->value)
            break;
    }
    return 0;
}

static bool is_option(const char *arg)
{
    return arg[0] == '-' && arg[1];
}

static int take_option(struct pl_cli *c, struct words *w, struct pl_err *err)
{
    const char *arg = w->argv[w->at++];

    return arg[1] == '-' ? take_long(c, w, arg, err) : take_letters(c, w, arg, err);
}

/* Reads options until a word that is not an option. Sets `*ret` to that word; NULL at the end of the command
 * line. */
static int take_word(struct pl_cli *c, struct words *w, const char **ret, struct pl_err *err)
{
    int r = 0;

    while (r == 0 && w->at < w->argc && is_option(w->argv[w->at]))
        r = take_option(c, w, err);
    *ret = r == 0 && w->at < w->argc ? w->argv[w->at++] : NULL;
    return r;
}

/* ---- the whole command line ---- */

/* Handles "create --help" and "--help create": selects the subcommand help, for all nouns of that verb.
 * Returns false if no help was requested or the verb is unknown. */
static bool take_help(struct pl_cli *c, struct words *w, const char *first, const char *second)
{
    const char *any[1];
    bool asked = w->at < w->argc && (pl_streq(w->argv[w->at], "--help") || pl_streq(w->argv[w->at], "-h"));

    if (second || !(asked || c->help) || !known_words(first, any, 1))
        return false;
    w->at += asked;
    c->help = false;
    c->verb = pl_cli_find_verb("help", NULL);
    c->args[c->n_args++] = first;
    return true;
}

static int take_verb(struct pl_cli *c, struct words *w, struct pl_err *err)
{
    const char *first = NULL, *second;
    bool used;
    int r = take_word(c, w, &first, err), mark;

    if (r < 0)
        return r;
    if (!first) {
        c->verb = pl_cli_find_verb(c->help ? "help" : "status", NULL);
        c->help = false;
        return 0;
    }
    mark = w->at;
    second = w->at < w->argc && !is_option(w->argv[w->at]) ? w->argv[w->at] : NULL;
    r = find_row(first, second, &c->verb, &used, err);
    w->at = mark + (r == 0 && used);
    return r < 0 && take_help(c, w, first, second) ? 0 : r;
}

static int check_count(const struct pl_cli *c, struct pl_err *err)
{
    char usage[256];

    if (c->help || c->version || (c->n_args >= c->verb->min_args && c->n_args <= c->verb->max_args))
        return 0;
    pl_cli_usage(c->verb, usage, sizeof usage);
    if (c->n_args > c->verb->max_args)
        return pl_err_set(err, PL_EUSAGE, "unexpected argument \"%.200s\"; usage: pipelinectl %s", c->args[c->verb->max_args],
                          usage);
    return pl_err_set(err, PL_EUSAGE, "an argument is missing; usage: pipelinectl %s", usage);
}

/* Allocates the arrays of arguments and options. They have space for the worst case: every word is an
 * argument, and every byte is a short option. */
static int make_room(struct pl_cli *c, int argc, char **argv, struct pl_err *err)
{
    size_t bytes = 2;

    for (int i = 1; i < argc; i++)
        bytes += strlen(argv[i]);
    c->args = calloc((size_t)argc + 2, sizeof *c->args);
    c->given = calloc(bytes, sizeof *c->given);
    return c->args && c->given ? 0 : pl_err_nomem(err);
}

void pl_cli_finish(struct pl_cli *c)
{
    pl_http_client_destroy(c->client);
    free(c->args);
    free(c->given);
}

int pl_cli_parse(struct pl_cli *c, int argc, char **argv, struct pl_err *err)
{
    struct words w = {argv, argc, 1};
    bool literal = false;
    int r = make_room(c, argc, argv, err);

    r = r < 0 ? r : take_verb(c, &w, err);
    while (r == 0 && w.at < argc) {
        if (!literal && pl_streq(argv[w.at], "--")) {
            literal = true;
            w.at++;
        } else if (!literal && is_option(argv[w.at])) {
            r = take_option(c, &w, err);
        } else {
            c->args[c->n_args++] = argv[w.at++];
        }
    }
    c->one_project = c->project;
    if (!c->project)
        c->project = "default";
    return r < 0 ? r : check_count(c, err);
}

/* ---- values of options ---- */

const char *pl_cli_value_at(const struct pl_cli *c, const char *name, size_t i)
{
    for (size_t k = 0; k < c->n_given; k++)
        if (pl_streq(c->given[k].option->name, name) && i-- == 0)
            return c->given[k].value;
    return NULL;
}

size_t pl_cli_value_count(const struct pl_cli *c, const char *name)
{
    size_t n = 0;

    for (size_t k = 0; k < c->n_given; k++)
        n += pl_streq(c->given[k].option->name, name);
    return n;
}

bool pl_cli_flag(const struct pl_cli *c, const char *name)
{
    return pl_cli_value_count(c, name) > 0;
}

const char *pl_cli_value(const struct pl_cli *c, const char *name)
{
    size_t n = pl_cli_value_count(c, name);

    return n ? pl_cli_value_at(c, name, n - 1) : NULL;
}

int pl_cli_number(const struct pl_cli *c, const char *name, uint64_t max, uint64_t *ret, struct pl_err *err)
{
    const char *text = pl_cli_value(c, name);
    unsigned long long n;
    char *end;

    if (!text)
        return 0;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno || *end || end == text || *text == '-' || n < 1 || n > max)
        return pl_err_set(err, PL_EUSAGE, "--%s %.60s: give a number from 1 to %llu", name, text, (unsigned long long)max);
    *ret = n;
    return 0;
}
