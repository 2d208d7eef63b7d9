// link: pipelined/source
/* Any bytes as what pl-git answers, which reads packs of strangers and is not trusted: lines, reports of progress, errors, and the files of a
 * commit. The sources are taken in, to give them a descriptor without a process. */
#include <signal.h>
#include <sys/wait.h>

#define kill(pid, signum)         ((void)(pid), 0)
#define waitpid(pid, status, how) ((void)(pid), (pid_t)0)
#include "pipelined/source/git_child.c"
#include "pipelined/source/source_commit.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* A child whose answer are the bytes: a pipe that was filled. */
static struct pl_git_child answering(const uint8_t *data, size_t n)
{
    struct pl_git_child c = {.pid = 1, .cancel = eventfd(0, EFD_CLOEXEC), .in = open("/dev/null", O_WRONLY | O_CLOEXEC)};
    int fds[2];

    must(c.cancel >= 0 && c.in >= 0 && pipe2(fds, O_CLOEXEC) == 0);
    must(n == 0 || write(fds[1], data, n) == (ssize_t)n);
    close(fds[1]);
    c.out = fds[0];
    return c;
}

static void finish(struct pl_git_child *c)
{
    end(c, true);
    pl_buf_finish(&c->got);
    close(c->cancel);
}

/* As a look reads its answer. */
static void read_tip(const uint8_t *data, size_t n)
{
    struct pl_git_child c = answering(data, n);
    struct pl_err err = {0};
    json_t *line = NULL;
    int r = pl_git_child_ask(&c, json_pack("{s:s}", "do", "look"), 60000, &err);

    must(r == 0);
    r = pl_git_child_line(&c, &line, &err);
    must(r == 0 ? json_is_object(line) && !json_object_get(line, "error") : err.code == r && *err.msg);
    json_decref(line);
    finish(&c);
}

/* As the specs of a commit are read. */
static void read_commit(const uint8_t *data, size_t n)
{
    struct pl_git_child c = answering(data, n);
    struct pl_source_commit commit = {
        .git = &c, .source = "x", .project = "default", .id = "0", .path = "*", .warnings = json_array(), .errors = json_array()};
    struct pl_err err = {0};

    if (read_specs(&commit, &err) < 0)
        must(*err.msg);
    else
        must(commit.n > 0);
    pl_source_commit_finish(&commit);
    finish(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n > 65536) /* what a pipe holds */
        return 0;
    read_tip(data, n);
    read_commit(data, n);
    return 0;
}
