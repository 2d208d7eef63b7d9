/* git_serve: reads a request, answers it, reads the next. */
#include "pipelined/git/git_serve.h"

#include "pipelined/git/git_copy.h"
#include "pipelined/git/git_fence.h"
#include "pipelined/policy/project_secret.h"
#include "storage/base/path.h"
#include "storage/http/http_io.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define PROGRESS_BYTES   (512u << 10) /* of a pack, for each report of progress */
#define CPU_S_MAX        900          /* processor time for one request */
#define MAPPED_BYTES_MAX (512u << 20) /* of packs, at any time */

struct server {
    const char *folder;
    struct pl_git_network network;
};

static int print(json_t *line, struct pl_err *err)
{
    const bool good = line && json_dumpf(line, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;

    json_decref(line);
    return good ? 0 : pl_err_set(err, PL_EIO, "cannot write an answer");
}

static int print_file(void *self, const struct pl_git_file *file, struct pl_err *err)
{
    static const char *const kinds[] = {[PL_GIT_FILE] = "file", [PL_GIT_EXEC] = "exec", [PL_GIT_LINK] = "link"};
    int r = print(json_pack("{s:s, s:s, s:I, s:b}", "path", file->path, "kind", kinds[file->kind], "len", (json_int_t)file->len,
                            "lfs", (int)file->lfs),
                  err);

    (void)self;
    if (r == 0 && fwrite(file->bytes, 1, file->len, stdout) != file->len)
        r = pl_err_set(err, PL_EIO, "cannot write an answer");
    return r;
}

/* Tells the daemon, which waits with a time limit, that a pack arrives; a server that only trickles does not count. */
static void on_progress(size_t n)
{
    static size_t received;

    received = n > PROGRESS_BYTES ? PROGRESS_BYTES : received + n;
    if (received < PROGRESS_BYTES)
        return;
    received = 0;
    fputs("{\"progress\":true}\n", stdout);
    (void)fflush(stdout); /* if the daemon is gone, the answer fails */
}

/* Reads where a repository is, and the credentials for it. */
static int read_where(json_t *request, struct pl_git_branch *ret, struct pl_err *err)
{
    struct pl_git_secret *secret = &ret->secret;

    *ret = (struct pl_git_branch){.name = "", .have = "", .secret = {"", "", "", "", ""}};
    if (json_unpack(request, "{s:s, s:{s?s, s?s, s?s, s?s, s?s}}", "url", &ret->url, "secret", "username", &secret->username,
                    "password", &secret->password, "ssh_key", &secret->ssh_key, "passphrase", &secret->passphrase, "known_hosts",
                    &secret->known_hosts) < 0)
        return pl_err_set(err, PL_EINVAL, "url and secret are expected");
    return 0;
}

static int look(struct server *s, git_repository *copy, json_t *request, struct pl_err *err)
{
    struct pl_git_branch branch;
    struct pl_git_commit commit;
    int preview = 0, r = read_where(request, &branch, err);

    if (r == 0 && json_unpack(request, "{s:s, s:s, s?b}", "branch", &branch.name, "have", &branch.have, "preview", &preview) < 0)
        r = pl_err_set(err, PL_EINVAL, "look: branch and have are expected");
    if (r < 0)
        return r;
    branch.preview = preview;
    r = pl_git_copy_look(copy, &branch, &s->network, &commit, err);
    if (r == 0)
        r = print(json_pack("{s:s, s:s, s:s, s:I, s:b}", "id", commit.id, "author", commit.author, "message", commit.message,
                            "at", (json_int_t)commit.at_s, "forced", (int)commit.forced),
                  err);
    pl_git_commit_finish(&commit);
    return r;
}

static int print_branch(const char *name, const char *id, struct pl_err *err)
{
    return print(json_pack("{s:s, s:s}", "branch", name, "id", id), err);
}

static int list_branches(struct server *s, git_repository *copy, json_t *request, struct pl_err *err)
{
    char head[PL_GIT_BRANCH_BYTES + 1];
    struct pl_git_branch where;
    bool more = false;
    int r = read_where(request, &where, err);

    r = r < 0 ? r : pl_git_copy_branches(copy, &where, &s->network, print_branch, &more, head, err);
    return r < 0 ? r : print(json_pack("{s:b, s:b, s:s}", "done", 1, "more", (int)more, "head", pl_utf8_clean(head)), err);
}

static int read_files(git_repository *copy, json_t *request, struct pl_err *err)
{
    struct pl_git_selection want = {0};
    json_int_t n_max, len_max;
    json_t *files, *one;
    const char **globs;
    int ignore, r = 0;
    size_t i;

    if (json_unpack(request, "{s:s, s:s, s?:s, s:o, s:b, s:I, s:I}", "commit", &want.commit, "folder", &want.folder, "glob",
                    &want.glob, "files", &files, "ignore", &ignore, "n_max", &n_max, "len_max", &len_max) < 0)
        return pl_err_set(err, PL_EINVAL, "read: commit, folder, glob, files, ignore, n_max and len_max are expected");
    globs = calloc(json_array_size(files) + 1, sizeof *globs);
    json_array_foreach(files, i, one)
    {
        if (globs && !(globs[i] = json_string_value(one)))
            r = pl_err_set(err, PL_EINVAL, "read: files[%zu] is not a text", i);
    }
    want.files = globs;
    want.n_files = json_array_size(files);
    want.ignore = ignore;
    want.n_max = (uint64_t)n_max;
    want.len_max = (uint64_t)len_max;
    r = !globs ? pl_err_nomem(err) : r < 0 ? r : pl_git_copy_read(copy, &want, print_file, NULL, err);
    free(globs);
    return r < 0 ? r : print(json_pack("{s:b}", "done", 1), err);
}

/* Checks the name of a copy: NAME, or NAME.NAME. */
static int check_copy(const char *name, struct pl_err *err)
{
    const char *dot = strchr(name, '.');
    char first[PL_NAME_MAX_BYTES + 1];
    int r;

    if (!dot || dot - name > PL_NAME_MAX_BYTES)
        return pl_name_check("copy", name, err);
    snprintf(first, sizeof first, "%.*s", (int)(dot - name), name);
    r = pl_name_check("copy", first, err);
    return r < 0 ? r : pl_name_check("copy", dot + 1, err);
}

/* Limits the processor time of the next request: a small pack may have much to unpack. */
static void limit_cpu(void)
{
    struct rusage used;

    if (getrusage(RUSAGE_SELF, &used) == 0)
        (void)setrlimit(RLIMIT_CPU,
                        &(struct rlimit){(rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + CPU_S_MAX, RLIM_INFINITY});
}

static int answer(struct server *s, json_t *request, struct pl_err *err)
{
    const char *what = "", *name = "";
    git_repository *copy = NULL;
    char path[PATH_MAX];
    int r;

    if (json_unpack(request, "{s:s, s:s}", "do", &what, "copy", &name) < 0)
        return pl_err_set(err, PL_EINVAL, "a request has \"do\" and \"copy\"");
    r = check_copy(name, err);
    if (r == 0 && snprintf(path, sizeof path, "%s/%s.git", s->folder, name) >= (int)sizeof path)
        r = pl_err_set(err, PL_EINVAL, "the folder's path is too long");
    r = r < 0 ? r : pl_git_copy_open(path, &copy, err);
    if (r == 0)
        r = pl_streq(what, "look")       ? look(s, copy, request, err)
            : pl_streq(what, "branches") ? list_branches(s, copy, request, err)
            : pl_streq(what, "read")
                ? read_files(copy, request, err)
                : pl_err_set(err, PL_EINVAL, "\"do\": \"%s\"; \"look\", \"branches\" or \"read\" is expected", what);
    git_repository_free(copy);
    return r;
}

/* Overwrites a line that was read: it may hold credentials. */
static void erase(char *line, size_t n, json_t *request)
{
    explicit_bzero(line, n);
    pl_secret_values_erase(json_object_get(request, "secret"));
    json_decref(request);
}

static int read_rules(const char *text, struct pl_outbound **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *rules = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    struct pl_outbound_settings settings;

    if (json_unpack(rules, "{s:s, s:s, s:s, s:s}", "schemes", &settings.schemes, "hosts", &settings.hosts, "networks",
                    &settings.networks, "ca", &settings.ca) < 0)
        return pl_err_set(err, PL_EINVAL, "the rules are {\"schemes\", \"hosts\", \"networks\", \"ca\"}");
    return pl_outbound_create(&settings, ret, err);
}

/* False: the daemon is gone. Its next process may ask another pl-git about the same copy. */
static bool answers_are_read(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    return poll(&out, 1, 0) == 0;
}

int pl_git_serve(const char *folder, const char *rules, const char *const *readable, size_t n_readable, struct pl_err *err)
{
    struct server s = {.folder = folder, .network = {.progress = on_progress}};
    struct pl_outbound *outbound = NULL;
    _cleanup_free_ char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int r = read_rules(rules, &outbound, err);

    signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    s.network.outbound = outbound;
    r = r < 0 ? r : pl_git_fence(folder, pl_outbound_settings_of(outbound)->ca, readable, n_readable, err);
    r = r < 0 ? r : pl_git_setup(err);
    if (r == 0 && git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, (size_t)MAPPED_BYTES_MAX) < 0)
        r = pl_git_fail(err, "cannot set up libgit2");
    while (r == 0 && (n = getline(&line, &cap, stdin)) > 0 && answers_are_read()) {
        json_t *request = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
        struct pl_err why = {0};

        limit_cpu();
        if (answer(&s, request, &why) < 0)
            r = print(json_pack("{s:i, s:s}", "error", why.code, "message", pl_utf8_clean(why.msg)), err);
        erase(line, (size_t)n, request);
        if (fflush(stdout) != 0 || ferror(stdout))
            r = pl_err_set(err, PL_EIO, "cannot write an answer");
    }
    pl_http_io_destroy(s.network.io);
    pl_outbound_destroy(outbound);
    git_libgit2_shutdown();
    return r;
}
