/* The frame of pipelinectl: handles signals, prints errors, and calls the handler of the chosen
 * subcommand. */
#include "pipelined/cli/support/cli.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include <signal.h>
#include <stdio.h>

static const struct pl_verb_section *sections; /* the tables of subcommands that were passed to pl_cli_main */
static size_t n_sections;

const struct pl_verb_section *pl_cli_tables(size_t *ret_n)
{
    *ret_n = n_sections;
    return sections;
}

/* ---- interrupts ---- */

static const char *volatile half_written;
static volatile sig_atomic_t only_note, interrupted; /* number of the signal that was recorded; 0 = none */
static volatile pid_t child;

void pl_cli_remove_on_interrupt(const char *path)
{
    half_written = path;
}

/* Installs a handler, unless the signal is ignored: nohup makes a program ignore SIGHUP. */
static void note(int sig, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler}, before;

    sigemptyset(&action.sa_mask);
    if (sigaction(sig, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(sig, &action, NULL);
}

/* Handles SIGTERM, SIGHUP and SIGPIPE (the reader of this program's output has gone, as with `| head`). Only this
 * process receives these signals, so the handler ends the child process, too. (SIGINT needs no such step: the
 * terminal sends it to the child, too.) */
static void on_end(int sig)
{
    if (!interrupted)
        interrupted = sig;
    if (child > 0)
        kill(child, SIGTERM);
}

void pl_cli_note_interrupt(void)
{
    only_note = 1;
    note(SIGTERM, on_end);
    note(SIGHUP, on_end);
    note(SIGPIPE, on_end);
}

bool pl_cli_interrupted(void)
{
    return interrupted;
}

void pl_cli_end_with_us(pid_t pid)
{
    child = pid;
    /* the signal arrived before the child was registered */
    if (pid > 0 && interrupted && interrupted != SIGINT)
        kill(pid, SIGTERM);
}

static void on_interrupt(int sig)
{
    const char *path = half_written;

    if (only_note && !interrupted) {
        interrupted = sig;
        return;
    }
    if (path)
        unlink(path);
    _exit(130);
}

static void set_signals(void)
{
    struct sigaction interrupt = {.sa_handler = on_interrupt};

    sigemptyset(&interrupt.sa_mask);
    sigaction(SIGINT, &interrupt, NULL);
}

/* ---- error output and main ---- */

static void complain_json(const struct pl_err *err, const struct pl_err_info *info)
{
    json_t *e = json_pack("{s:s, s:s}", "code", info->name, "message", err->msg);
    json_t *document;

    if (*err->field)
        json_object_set_new(e, "field", json_string(err->field));
    if (*err->hint)
        json_object_set_new(e, "hint", json_string(err->hint));
    document = json_pack("{s:o}", "error", e);
    if (document)
        json_dumpf(document, stderr, JSON_COMPACT | pl_show_json_flags(stderr));
    fputc('\n', stderr);
    json_decref(document);
}

static int complain(const struct pl_cli *c, const struct pl_err *err)
{
    const struct pl_err_info *info = pl_err_info(err->code);
    char message[PL_ERR_MSG_BYTES];

    if (c->json) {
        complain_json(err, info);
        return info->exit_code;
    }
    fprintf(stderr, "pipelinectl: %s\n", pl_show_clean(err->msg, message, sizeof message));
    if (*err->hint)
        fprintf(stderr, "  %s\n", pl_show_clean(err->hint, message, sizeof message));
    else if ((info->exit_code == 4 && err->code != PL_ECOLLISION && err->code != PL_ECONFLICT) || err->code == PL_EAUTH ||
             err->code == PL_ECORRUPT || err->code == PL_ENOSPC)
        fprintf(stderr, "  %s\n", info->remedy);
    return info->exit_code;
}

static int run(struct pl_cli *c, struct pl_err *err)
{
    static const char *help[] = {"help", NULL};
    const struct pl_verb *asked = c->verb;
    int r;

    if (c->version) {
        c->verb = pl_cli_find_verb("version", NULL);
    } else if (c->help && c->verb) {
        c->verb = pl_cli_find_verb(help[0], NULL);
        c->n_args = 0;
        c->args[c->n_args++] = asked->verb;
        if (asked->noun)
            c->args[c->n_args++] = asked->noun;
    }
    r = c->verb->run(c, err);
    return r < 0 ? r : pl_show_flush(err);
}

int pl_cli_main(int argc, char **argv, const struct pl_verb_section *tables, size_t n)
{
    struct pl_cli c = {0};
    struct pl_err err = {0};
    int r, status = 0;

    sections = tables;
    n_sections = n;
    set_signals();
    r = pl_cli_parse(&c, argc, argv, &err);
    r = r < 0 ? r : run(&c, &err);
    if (r < 0) {
        fflush(stdout);
        err.code = r;
        status = interrupted ? 128 + interrupted : complain(&c, &err);
    }
    pl_cli_finish(&c);
    return status;
}
