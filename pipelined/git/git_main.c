/* pl-git: what git knows about a folder (git_code.h), and follows repositories for the daemon (git_serve.h). */
#include "pipelined/git/git_code.h"
#include "pipelined/git/git_serve.h"

#include <stdio.h>

#ifdef __SANITIZE_ADDRESS__
/* For LeakSanitizer: libgit2 1.5 does not free what its regular expressions match with, some KiB for each address. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpcre2\n";
}
#endif

static int print(json_t *answer)
{
    bool good = answer && json_dumpf(answer, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;

    json_decref(answer);
    return good ? 0 : 1;
}

static int print_code(const char *folder)
{
    struct pl_git_code code;
    struct pl_err err = {0};
    json_t *git;

    if (pl_git_code_info(folder, &code, &err) < 0) {
        print(json_pack("{s:s}", "error", err.msg));
        return 1;
    }
    git = code.repository ? json_pack("{s:s, s:b, s:s}", "head", code.head, "dirty", (int)code.dirty, "path", code.path)
                          : json_null();
    git = json_pack("{s:o, s:O}", "git", git, "ignored", code.ignored);
    pl_git_code_finish(&code);
    return print(git);
}

static int serve(const char *folder, const char *rules, char **readable, int n)
{
    struct pl_err err = {0};

    if (pl_git_serve(folder, rules, (const char *const *)readable, (size_t)n, &err) == 0)
        return 0;
    fprintf(stderr, "pl-git: %s\n", err.msg);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && pl_streq(argv[1], "serve"))
        return serve(argv[2], argv[3], argv + 4, argc - 4);
    if (argc == 3 && pl_streq(argv[1], "code"))
        return print_code(argv[2]);
    fputs("usage: pl-git code FOLDER | serve FOLDER RULES [READABLE…]\n", stderr);
    return 2;
}
