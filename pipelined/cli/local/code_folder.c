/* Stores a code folder: asks pl-git which files git ignores, reads .pipelinedignore files as the walk meets their
 * folders, and stores the rest as a tree. */
#include "pipelined/cli/local/code_folder.h"

#include "pipelined/cli/local/local_tree.h"
#include "pipelined/text/glob.h"
#include "pipelined/text/ignore_rules.h"
#include "storage/base/map.h"
#include "storage/system/io.h"
#include "storage/system/program_run.h"
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define GIT_ANSWER_MAX (64u << 20)

extern char **environ;

struct folder {
    const char *path;
    int fd;
    /* the ignored paths, relative to the folder, as keys of a map; the values are any non-NULL pointer */
    struct pl_map ignored;
    struct pl_ignore_rules *rules; /* of the .pipelinedignore files met so far */
    struct pl_glob_set *wanted;    /* the files that are taken; NULL = all */
    struct pl_err why;             /* error of a .pipelinedignore file: no further file is taken */
    uint64_t files, bytes;
    bool over; /* a limit on files or bytes was exceeded: accept no further file */
    json_t *git;
};

static void folder_finish(struct folder *f)
{
    pl_map_finish(&f->ignored, NULL);
    pl_ignore_rules_destroyp(&f->rules);
    pl_glob_set_destroyp(&f->wanted);
    json_decref(f->git);
    pl_closep(&f->fd);
}

/* ---- output of pl-git, a helper program in the folder of this program ---- */

static int start_git(const char *folder, pid_t *ret_pid, int *ret_fd, struct pl_err *err)
{
    char program[PATH_MAX];
    char *argv[] = {program, (char *)"code", (char *)folder, NULL};
    posix_spawn_file_actions_t actions;
    int fds[2], e, r = pl_program_beside("pl-git", program, err);

    if (r < 0)
        return r;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return pl_err_errno(err, errno, "pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    e = posix_spawn(ret_pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    if (e) {
        close(fds[0]);
        return pl_err_errno(err, e, "start %s", program);
    }
    *ret_fd = fds[0];
    return 0;
}

static int read_all(int fd, struct pl_buf *out, struct pl_err *err)
{
    for (;;) {
        ssize_t n;
        int r = pl_buf_reserve(out, 65536, err);

        if (r < 0)
            return r;
        n = pl_io_read(fd, out->data + out->len, 65536, "pl-git", err);
        if (n <= 0)
            return (int)n;
        out->len += (size_t)n;
    }
}

/* Runs pl-git on the folder and parses its JSON output. PL_EIO: pl-git failed or found an error. */
static int ask_git(const char *folder, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = GIT_ANSWER_MAX};
    pid_t pid;
    int fd, status = 0, r = start_git(folder, &pid, &fd, err);

    if (r < 0)
        return r;
    r = read_all(fd, &out, err);
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r < 0)
        return r;
    *ret = json_loadb((const char *)out.data, out.len, 0, NULL);
    if (!*ret || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        const char *why = json_string_value(json_object_get(*ret, "error"));

        r = pl_err_set(err, PL_EIO, "cannot read the git state of %s: %s", folder, why ? why : "pl-git failed");
        json_decref(*ret);
    }
    return r;
}

static int read_git(struct folder *f, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *answer = NULL;
    const json_t *git, *one;
    size_t i;
    int r = ask_git(f->path, &answer, err);

    if (r < 0)
        return r;
    json_array_foreach(json_object_get(answer, "ignored"), i, one)
    {
        if (r == 0 && json_is_string(one))
            r = pl_map_put(&f->ignored, json_string_value(one), json_string_length(one), f, NULL, err);
    }
    git = json_object_get(answer, "git");
    if (json_is_object(git))
        f->git = json_incref((json_t *)git);
    return r;
}

/* ---- the folder's tree ---- */

/* Adds the rules of the .pipelinedignore file in the folder `path` ("" = the code folder), if it has one. */
static int read_rules(struct folder *f, const char *path, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = 4 * PL_IGNORE_FILE_BYTES};
    _cleanup_close_ int fd = -1;
    struct pl_err why = {0};
    char name[PATH_MAX];
    struct stat st;
    int r;

    snprintf(name, sizeof name, "%s%s%s", path, *path ? "/" : "", PL_IGNORE_FILE);
    fd = openat(f->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "%s/%s", f->path, name);
    if (!S_ISREG(st.st_mode))
        return pl_err_set(err, PL_EINVAL, "%s/%s is not a file", f->path, name);
    r = st.st_size > PL_IGNORE_FILE_BYTES ? 0 : read_all(fd, &text, err);
    if (r < 0)
        return pl_err_wrap(err, r, "%s/%s", f->path, name);
    r = pl_ignore_rules_add(f->rules, path, (const char *)text.data, PL_MAX(text.len, (size_t)st.st_size), &why);
    return r < 0 ? pl_err_set(err, r, "%s/%s", f->path, why.msg) : 0;
}

/* Filter for pl_cli_tree_store; `path` is relative to the folder. Counts files and bytes. The walk offers a folder before
 * what is in it. */
static bool takes(void *self, const char *path, bool is_dir)
{
    struct folder *f = self;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat st;

    if (f->over || f->why.code || pl_streq(name, ".git") || pl_streq(name, PL_IGNORE_FILE) ||
        pl_map_get(&f->ignored, path, strlen(path)) || pl_ignore_rules_match(f->rules, path, is_dir))
        return false;
    if (is_dir)
        return read_rules(f, path, &f->why) == 0;
    if (f->wanted && !pl_glob_set_takes(f->wanted, path, strlen(path)))
        return false;
    f->files++;
    if (fstatat(f->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        f->bytes += (uint64_t)st.st_size;
    f->over = f->files > PL_CODE_MAX_FILES || f->bytes > PL_CODE_MAX_BYTES;
    return !f->over;
}

static int check_limits(const struct folder *f, struct pl_err *err)
{
    if (!f->over)
        return 0;
    pl_err_set(err, PL_ELIMIT, "code folder %s has more than %s", f->path,
               f->files > PL_CODE_MAX_FILES ? "10,000 files" : "256 MiB");
    return pl_err_hint(err, PL_ELIMIT, "Keep what is not code out of it with .gitignore, or name a smaller folder.");
}

int pl_cli_code_store(const struct pl_pack_sink *sink, const char *project, const char *folder, const char *const *files,
                      size_t n_files, struct pl_hash *ret_root, json_t **ret_git, struct pl_err *err)
{
    _cleanup_(folder_finish) struct folder f = {.path = folder, .fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    int r;

    if (f.fd < 0 && errno == ENOTDIR)
        return pl_err_set(err, PL_EINVAL, "code folder %s is a file", folder);
    if (f.fd < 0)
        return pl_err_errno(err, errno, "code folder %s", folder);
    r = n_files > 0 ? pl_glob_set_compile(files, n_files, &f.wanted, err) : 0;
    r = r < 0 ? r : read_git(&f, err);
    r = r < 0 ? r : pl_ignore_rules_create(&f.rules, err);
    r = r < 0 ? r : read_rules(&f, "", err);
    r = r < 0 ? r : pl_cli_tree_store(sink, project, folder, takes, &f, f.wanted != NULL, ret_root, err);
    r = r < 0 ? r : check_limits(&f, err);
    if (r == 0 && f.why.code) {
        r = f.why.code;
        *err = f.why;
    }
    if (r == 0 && f.wanted && f.files == 0)
        r = pl_err_set(err, PL_ENOTFOUND, "no file in code folder %s matches \"%s\"%s", folder, files[0],
                       n_files > 1 ? ", …" : "");
    if (r == 0)
        *ret_git = TAKE_PTR(f.git);
    return r;
}
