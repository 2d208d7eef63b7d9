/* completion: prints a completion script for bash or zsh, generated from the tables of subcommands. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/show.h"
#include <stdio.h>

/* A list of distinct words, in the order of the tables: all verbs, or the nouns that follow one verb. */
struct listing {
    const struct pl_verb *rows[256]; /* a table row for each of the words */
    size_t n;
};

static const char *word_of(const struct pl_verb *v, const char *verb)
{
    return verb ? v->noun : v->verb;
}

static void add_row(struct listing *l, const struct pl_verb *v, const char *verb)
{
    if (verb && (!pl_streq(v->verb, verb) || !v->noun))
        return;
    for (size_t i = 0; i < l->n; i++)
        if (pl_streq(word_of(l->rows[i], verb), word_of(v, verb)))
            return;
    if (l->n < PL_ARRAY_SIZE(l->rows))
        l->rows[l->n++] = v;
}

/* Returns the list of all verbs (`verb` NULL), or of the nouns of one verb. */
static struct listing list_words(const char *verb)
{
    struct listing l = {.n = 0};
    size_t n;
    const struct pl_verb_section *tables = pl_cli_tables(&n);

    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t].table->n; i++)
            add_row(&l, &tables[t].table->verbs[i], verb);
    return l;
}

static void print_words(const struct listing *l, const char *verb)
{
    for (size_t i = 0; i < l->n; i++)
        printf("%s%s", i ? " " : "", word_of(l->rows[i], verb));
}

static void print_options_of(const struct pl_option *options)
{
    for (const struct pl_option *o = options; o && o->name; o++) {
        printf(" --%s", o->name);
        if (o->letter)
            printf(" -%c", o->letter);
    }
}

static void print_values_of(const struct pl_option *options)
{
    for (const struct pl_option *o = options; o && o->name; o++) {
        if (!o->value)
            continue;
        printf("|--%s", o->name);
        if (o->letter)
            printf("|-%c", o->letter);
    }
}

/* Prints a shell pattern that matches every option that takes a value. An option is included if it takes a
 * value in at least one subcommand. */
static void print_value_options(void)
{
    size_t n;
    const struct pl_verb_section *tables = pl_cli_tables(&n);

    fputs("--server|--data|--project|--ca", stdout);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t].table->n; i++)
            print_values_of(tables[t].table->verbs[i].options);
}

/* Prints the branches of two shell `case` statements: which words may follow a verb, and which options may
 * follow a verb with its noun. `offer` prints a list of words in the shell's syntax; `assign` is the
 * shell text that begins the assignment of the list of options to a variable. */
static void print_cases(void (*offer)(const struct listing *l, const char *verb), const char *assign)
{
    const struct listing verbs = list_words(NULL);
    size_t n;
    const struct pl_verb_section *tables = pl_cli_tables(&n);

    printf("    '') ");
    offer(&verbs, NULL);
    puts(" ;;");
    for (size_t i = 0; i < verbs.n; i++) {
        const struct listing nouns = list_words(verbs.rows[i]->verb);

        if (nouns.n == 0)
            continue;
        printf("    '%s') ", verbs.rows[i]->verb);
        offer(&nouns, verbs.rows[i]->verb);
        puts(" ;;");
    }
    puts("    esac\n    case \"$cur:$line \" in");
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t].table->n; i++) {
            const struct pl_verb *v = &tables[t].table->verbs[i];

            printf("    -*:'%s%s%s '*) %s", v->verb, v->noun ? " " : "", v->noun ? v->noun : "", assign);
            print_options_of(v->options);
            print_options_of(pl_cli_common_options);
            puts("\" ;;");
        }
    printf("    -*) %s", assign);
    print_options_of(pl_cli_common_options);
    puts("\" ;;\n    esac");
}

/* ---- bash ---- */

static void offer_bash(const struct listing *l, const char *verb)
{
    fputs("words=\"", stdout);
    print_words(l, verb);
    putchar('"');
}

static void print_bash(void)
{
    fputs("# bash completion of pipelinectl; made by `pipelinectl completion bash`\n"
          "_pipelinectl() {\n"
          "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" line='' words='' i\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case \"${COMP_WORDS[i]}\" in\n        ",
          stdout);
    print_value_options();
    fputs(") ((i++)) ;;\n"
          "        -*) ;;\n"
          "        *) line=\"$line${line:+ }${COMP_WORDS[i]}\" ;;\n"
          "        esac\n"
          "    done\n"
          "    COMPREPLY=()\n"
          "    ((i == COMP_CWORD)) || return # the value of an option\n"
          "    case \"$line\" in\n",
          stdout);
    print_cases(offer_bash, "words=\"");
    fputs("    [ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "}\n"
          "complete -o bashdefault -o default -F _pipelinectl pipelinectl\n",
          stdout);
}

/* ---- zsh ---- */

/* Prints pairs 'WORD:DESCRIPTION', such as 'list:Lists repos'. Replaces the characters ' and : in
 * descriptions, because they have a meaning for zsh. */
static void offer_zsh(const struct listing *l, const char *verb)
{
    fputs("offer=(", stdout);
    for (size_t i = 0; i < l->n; i++) {
        printf("%s'%s:", i ? " " : "", word_of(l->rows[i], verb));
        for (const char *p = l->rows[i]->about; (verb || !l->rows[i]->noun) && *p; p++) {
            if (*p == '\'')
                fputs("’", stdout);
            else
                putchar(*p == ':' ? ';' : *p);
        }
        putchar('\'');
    }
    putchar(')');
}

static void print_zsh(void)
{
    fputs("#compdef pipelinectl\n"
          "# zsh completion of pipelinectl; made by `pipelinectl completion zsh`\n"
          "local cur=\"$words[CURRENT]\" line='' options='' i\n"
          "local -a offer\n"
          "for ((i = 2; i < CURRENT; i++)); do\n"
          "    case \"$words[i]\" in\n    ",
          stdout);
    print_value_options();
    fputs(") ((i++)) ;;\n"
          "    -*) ;;\n"
          "    *) line=\"$line${line:+ }$words[i]\" ;;\n"
          "    esac\n"
          "done\n"
          "if ((i != CURRENT)); then _files; return; fi # the value of an option\n"
          "    case \"$line\" in\n",
          stdout);
    print_cases(offer_zsh, "options=\"");
    fputs("if [[ -n \"$options\" ]]; then compadd -- ${=options}\n"
          "elif (( $#offer )); then _describe -V 'pipelinectl' offer\n"
          "else _files\n"
          "fi\n",
          stdout);
}

static int completion(struct pl_cli *c, struct pl_err *err)
{
    if (pl_streq(c->args[0], "bash"))
        print_bash();
    else if (pl_streq(c->args[0], "zsh"))
        print_zsh();
    else
        return pl_err_set(err, PL_EUSAGE, "there is no completion for \"%.60s\": give bash or zsh", c->args[0]);
    return 0;
}

static const struct pl_verb verbs[] = {
    {"completion",
     NULL,
     "bash|zsh",
     1,
     1,
     NULL,
     completion,
     "Prints a script that lets a shell complete subcommands and options.",
     {"completion bash", ". <(pipelinectl completion bash)",
      "completion zsh >~/.zfunc/_pipelinectl      # fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc"}},
};
PL_CLI_TABLE(completion, verbs);
