/* Asks before data goes. The server says what a delete would take (dry_run), so that a delete that is refused asks nothing. */
#include "pipelined/cli/support/confirm.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include <stdio.h>
#include <unistd.h>

bool pl_cli_asks(const struct pl_cli *c)
{
    return !c->json && !pl_cli_flag(c, "yes") && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

int pl_cli_ask(const char *question, struct pl_err *err)
{
    char answer[16] = "";

    pl_show_print(stdout, "%s [y/N] ", question);
    (void)fflush(stdout);
    if (!fgets(answer, sizeof answer, stdin) || (*answer != 'y' && *answer != 'Y'))
        return pl_err_set(err, PL_ECANCELED, "nothing was changed");
    return 0;
}

static const char *plural(json_int_t n)
{
    return n == 1 ? "" : "s";
}

/* Writes what goes: "3 repos, 12 commits, 340 files (1.2 GB), 1 open commit with 5 operations go with it". Returns false if
 * nothing does. */
static bool loss_text(const json_t *loss, char *out, size_t size)
{
    const json_int_t repos = pl_show_int_at(loss, "repos"), commits = pl_show_int_at(loss, "commits"),
                     files = pl_show_int_at(loss, "files"), open = pl_show_int_at(loss, "open_commits"),
                     operations = pl_show_int_at(loss, "operations");
    const bool one = commits + open == 1 && files == 0 && repos <= 1;
    char bytes[PL_SHOW_TEXT_MAX], many[64] = "", made[64] = "", held[PL_SHOW_TEXT_MAX + 64] = "", opened[96] = "";

    if (commits == 0 && open == 0)
        return false;
    pl_show_size(pl_show_at(loss, "bytes"), loss, bytes);
    if (repos > 1)
        snprintf(many, sizeof many, "%lld repos, ", (long long)repos);
    if (commits > 0)
        snprintf(made, sizeof made, "%lld commit%s", (long long)commits, plural(commits));
    if (files > 0)
        snprintf(held, sizeof held, ", %lld file%s (%s)", (long long)files, plural(files), bytes);
    if (open > 0)
        snprintf(opened, sizeof opened, "%s%lld open commit%s with %lld operation%s", commits > 0 ? ", " : "", (long long)open,
                 plural(open), (long long)operations, plural(operations));
    snprintf(out, size, "%s%s%s%s go%s with it", many, made, held, opened, one ? "es" : "");
    return true;
}

/* Asks the server what the delete takes, and the user whether to go on. */
static int ask_about(struct pl_cli *c, const char *path, const char *query, const char *kind, const char *name,
                     struct pl_err *err)
{
    char question[2 * PL_SHOW_TEXT_MAX + 512], goes[2 * PL_SHOW_TEXT_MAX + 256], look[PL_SHOW_TEXT_MAX];
    _cleanup_free_ char *whole = NULL;
    _cleanup_(json_decrefp) json_t *answer = NULL;
    const json_t *took;
    int r;

    snprintf(look, sizeof look, "?dry_run=1%s%s", *query ? "&" : "", query);
    if (asprintf(&whole, "%s%s", path, look) < 0)
        return pl_err_nomem(err);
    r = pl_cli_call(c, "DELETE", whole, NULL, &answer, err);
    if (r < 0)
        return r;
    took = pl_show_at(answer, "took");
    if (!loss_text(took ? took : answer, goes, sizeof goes))
        return 0;
    snprintf(question, sizeof question, "delete %s %s? %s", kind, name, goes);
    return pl_cli_ask(question, err);
}

int pl_cli_delete(struct pl_cli *c, const char *path, const char *query, const char *kind, const char *name, struct pl_err *err)
{
    _cleanup_free_ char *whole = NULL;
    int r = path ? 0 : pl_err_nomem(err);

    if (r == 0 && asprintf(&whole, "%s%s%s", path, *query ? "?" : "", query) < 0)
        r = pl_err_nomem(err);
    if (r == 0 && pl_cli_asks(c))
        r = ask_about(c, path, query, kind, name, err);
    return r < 0 ? r : pl_show_delete(c, whole, kind, name, err);
}
