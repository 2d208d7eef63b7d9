/* Turns off all settings outside repositories. */
#include "pipelined/git/git_setup.h"

int pl_git_fail(struct pl_err *err, const char *what)
{
    const git_error *e = git_error_last();

    return pl_err_set(err, PL_EIO, "%s: %s", what, e && e->message ? e->message : "git failed");
}

int pl_git_damaged(struct pl_err *err, const char *what)
{
    (void)pl_git_fail(err, what);
    return err->code = PL_ECORRUPT;
}

int pl_git_setup(struct pl_err *err)
{
    static const int levels[] = {GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG, GIT_CONFIG_LEVEL_GLOBAL,
                                 GIT_CONFIG_LEVEL_PROGRAMDATA};

    if (git_libgit2_init() < 0)
        return pl_git_fail(err, "cannot set up libgit2");
    for (size_t i = 0; i < PL_ARRAY_SIZE(levels); i++)
        if (git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "") < 0)
            return pl_git_fail(err, "cannot set up libgit2");
    if (git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0) < 0)
        return pl_git_fail(err, "cannot set up libgit2");
    return 0;
}
