/* Opens the repository around a folder without any user's settings, reads HEAD and status, and walks the folder
 * for ignored files. */
#include "pipelined/git/git_code.h"

#include "pipelined/git/git_setup.h"

#include <dirent.h>
#include <git2/sys/repository.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define DEPTH_MAX 256u

/* ---- the repository ---- */

/* Opens the repository that contains the folder and returns 1. If there is none, makes a repository in memory
 * with the folder as its work tree, for applying the ignore rules, and returns 0. */
static int open_repository(const char *folder, git_repository **ret, struct pl_err *err)
{
    int r = git_repository_open_ext(ret, folder, 0, NULL);

    if (r == 0 && !git_repository_is_bare(*ret))
        return 1;
    if (r == 0)
        git_repository_free(*ret);
    else if (r != GIT_ENOTFOUND)
        return pl_git_fail(err, folder);
    if (git_repository_new(ret) < 0)
        return pl_git_fail(err, folder);
    if (git_repository_set_workdir(*ret, folder, 0) < 0) {
        git_repository_free(*ret);
        return pl_git_fail(err, folder);
    }
    return 0;
}

static int read_head(git_repository *repo, struct pl_git_code *out, struct pl_err *err)
{
    git_oid id;
    int r = git_reference_name_to_id(&id, repo, "HEAD");

    if (r < 0 && r != GIT_ENOTFOUND)
        return pl_git_fail(err, "cannot read HEAD");
    if (r == 0)
        git_oid_tostr(out->head, sizeof out->head, &id);
    return 0;
}

static int stop_at_first(const char *path, unsigned flags, void *dirty)
{
    (void)path;
    if (flags == GIT_STATUS_CURRENT || (flags & GIT_STATUS_IGNORED))
        return 0;
    *(bool *)dirty = true;
    return 1;
}

static int read_dirty(git_repository *repo, struct pl_git_code *out, struct pl_err *err)
{
    git_status_options options = GIT_STATUS_OPTIONS_INIT;
    char *paths[] = {out->path};

    options.show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR;
    options.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED | GIT_STATUS_OPT_DISABLE_PATHSPEC_MATCH | GIT_STATUS_OPT_EXCLUDE_SUBMODULES;
    if (*out->path)
        options.pathspec = (git_strarray){paths, 1};
    if (git_status_foreach_ext(repo, &options, stop_at_first, &out->dirty) < 0)
        return pl_git_fail(err, "cannot read the status of the folder");
    return 0;
}

/* Sets the folder's path within the work tree. */
static int read_path(git_repository *repo, const char *folder, struct pl_git_code *out, struct pl_err *err)
{
    char root[PATH_MAX];
    size_t len;

    if (!realpath(git_repository_workdir(repo), root))
        return pl_err_errno(err, errno, "%s", git_repository_workdir(repo));
    len = pl_streq(root, "/") ? 0 : strlen(root);
    if (strncmp(folder, root, len) != 0 || (folder[len] && folder[len] != '/'))
        return pl_err_set(err, PL_EIO, "%s is not inside the work tree of its repository, %s", folder, root);
    out->path = strdup(folder[len] ? folder + len + 1 : "");
    return out->path ? 0 : pl_err_nomem(err);
}

/* ---- ignored files ---- */

struct walk {
    git_repository *repo;
    git_index *index; /* index of tracked files; NULL = no file is tracked */
    json_t *ignored;
    char path[PATH_MAX]; /* absolute path that is being examined */
    size_t folder_len;   /* length of the folder's path; its entries begin at `path` + this + 1 */
    size_t workdir_len;  /* length of the work tree's path; paths relative to it begin at `path` + this + 1 */
};

/* True if git tracks the path, or a file below it: then ignore rules do not apply. */
static bool tracked(const struct walk *w, const char *in_repo, bool dir)
{
    char prefix[PATH_MAX + 1];
    size_t at;

    if (!w->index)
        return false;
    if (!dir)
        return git_index_get_bypath(w->index, in_repo, 0) != NULL;
    snprintf(prefix, sizeof prefix, "%s/", in_repo);
    return git_index_find_prefix(&at, w->index, prefix) == 0;
}

static int add_ignored(struct walk *w, struct pl_err *err)
{
    if (json_array_size(w->ignored) == PL_GIT_IGNORED_MAX)
        return pl_err_set(err, PL_ELIMIT, "more than %u ignored files: ignore whole folders instead", PL_GIT_IGNORED_MAX);
    json_array_append_new(w->ignored, json_string(w->path + w->folder_len + 1));
    return 0;
}

static int walk_folder(struct walk *w, size_t len, unsigned depth, struct pl_err *err);

/* Examines one entry of a folder: lists it if it is ignored; otherwise, if it is a folder, examines what is
 * in it. */
static int walk_name(struct walk *w, size_t len, const struct dirent *d, unsigned depth, struct pl_err *err)
{
    size_t more = strlen(d->d_name);
    char in_repo[PATH_MAX + 1];
    int ignored = 0;
    struct stat st;
    bool dir;

    if (len + 1 + more + 1 > sizeof w->path)
        return pl_err_set(err, PL_EPATH, "%s/%s is too long", w->path, d->d_name);
    w->path[len] = '/';
    memcpy(w->path + len + 1, d->d_name, more + 1);
    if (lstat(w->path, &st) < 0)
        return errno == ENOENT ? 0 : pl_err_errno(err, errno, "%s", w->path);
    dir = S_ISDIR(st.st_mode);
    snprintf(in_repo, sizeof in_repo, "%s%s", w->path + w->workdir_len + 1, dir ? "/" : "");
    if (git_ignore_path_is_ignored(&ignored, w->repo, in_repo) < 0)
        return pl_git_fail(err, in_repo);
    if (ignored && !tracked(w, w->path + w->workdir_len + 1, dir))
        return add_ignored(w, err);
    if (!dir)
        return 0;
    return walk_folder(w, len + 1 + more, depth + 1, err);
}

static int walk_folder(struct walk *w, size_t len, unsigned depth, struct pl_err *err)
{
    DIR *dir = depth < DEPTH_MAX ? opendir(w->path) : NULL;
    const struct dirent *d;
    int r = 0;

    if (depth >= DEPTH_MAX)
        return pl_err_set(err, PL_ELIMIT, "%s: more than %u folders deep", w->path, DEPTH_MAX);
    if (!dir)
        return pl_err_errno(err, errno, "%s", w->path);
    while (r == 0 && (errno = 0, d = readdir(dir)))
        if (!pl_streq(d->d_name, ".") && !pl_streq(d->d_name, "..") && !pl_streq(d->d_name, ".git"))
            r = walk_name(w, len, d, depth, err);
    w->path[len] = '\0';
    closedir(dir);
    return r;
}

/* ---- the whole folder ---- */

static int read_ignored(git_repository *repo, const char *folder, struct pl_git_code *out, struct pl_err *err)
{
    struct walk w = {.repo = repo, .ignored = out->ignored, .folder_len = strlen(folder)};
    int r;

    w.workdir_len = out->path && *out->path ? w.folder_len - strlen(out->path) - 1 : w.folder_len;
    snprintf(w.path, sizeof w.path, "%s", folder);
    if (out->repository && git_repository_index(&w.index, repo) < 0)
        return pl_git_fail(err, "index");
    r = walk_folder(&w, w.folder_len, 0, err);
    git_index_free(w.index);
    return r;
}

/* Opens the repository, reads everything, and shuts libgit2 down again. */
int pl_git_code_info(const char *folder, struct pl_git_code *ret, struct pl_err *err)
{
    struct pl_git_code out = {.ignored = json_array()};
    git_repository *repo = NULL;
    char real[PATH_MAX];
    int r;

    if (!realpath(folder, real)) {
        json_decref(out.ignored);
        return pl_err_errno(err, errno, "%s", folder);
    }
    r = pl_git_setup(err);
    r = r < 0 ? r : open_repository(real, &repo, err);
    out.repository = r > 0;
    if (r > 0) {
        r = read_path(repo, real, &out, err);
        r = r < 0 ? r : read_head(repo, &out, err);
        r = r < 0 ? r : read_dirty(repo, &out, err);
    }
    r = r < 0 ? r : read_ignored(repo, real, &out, err);
    git_repository_free(repo);
    git_libgit2_shutdown();
    if (r < 0) {
        pl_git_code_finish(&out);
        return r;
    }
    *ret = out;
    return 0;
}

void pl_git_code_finish(struct pl_git_code *c)
{
    json_decref(c->ignored);
    free(c->path);
}
