/* Runs pipelined-worker for one datum: writes its request file, creates its control group, starts the
 * process, and reads its answer file. */
#include "pipelined/cli/try/try_worker.h"

#include "pipelined/sandbox_view/image.h"

#include "pipelined/plan/plan_json.h"

#include "pipelined/cli/support/show.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "storage/system/cgroup.h"
#include "storage/system/io.h"
#include "storage/system/program_run.h"
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <termios.h>

#define TOKEN_ENV   "PIPELINED_WORKER_TOKEN"
#define ANSWER_MAX  (4u << 20)
#define RENEWALS_MS 30000 /* the worker expects the fields of a lease, although a tried datum has none */

extern char **environ;

/* ---- the request ---- */

/* Builds the JSON of a task with one datum, in the form in which a daemon leases tasks to workers. */
static json_t *task_json(const struct pl_cli_try *t)
{
    json_t *inputs = json_array();
    char id[PL_HASH_HEX + 1], key[PL_HASH_HEX + 1];
    struct pl_hash h;

    pl_plan_datum_id(t->plan, t->datum, &h);
    for (size_t i = 0; i < t->plan->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(t->plan, t->datum, i);
        const struct pl_cli_try_leaf *at = &t->inputs->leaves[i];

        if (m)
            json_array_append_new(inputs, pl_plan_input_json(t->plan, i, m, &at->root, at->commit));
    }
    return json_pack("{s:{s:i, s:i, s:s, s:s, s:[{s:i, s:s, s:s, s:i, s:I, s:o}]}}", "task", "id", 1, "fence", 1, "job", "try",
                     "run", t->run, "rows", "index", 0, "datum", pl_hash_hex(&h, id), "key",
                     pl_hash_hex(&t->plan->keys[t->datum], key), "attempt", 1, "timeout_ms",
                     (json_int_t)t->stage->datum.timeout_ms, "inputs", inputs);
}

/* Builds the reply that a daemon would give to a worker's attach request; it contains the stage's effective
 * spec. */
static json_t *attach_json(const struct pl_cli_try *t, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    char code[PL_HASH_HEX + 1];
    json_t *stage;

    if (pl_stage_effective_json(t->stage, &text, err) < 0)
        return NULL;
    stage = json_loadb((const char *)text.data, text.len, 0, NULL);
    json_object_set_new(stage, "pipeline", json_string(t->pipeline));
    json_object_set_new(stage, "writable", pl_stage_writable_json(t->stage));
    if (pl_stage_environment(t->stage))
        json_object_set_new(stage, "environment", json_true());
    if (!pl_hash_is_zero(&t->code_root))
        json_object_set_new(stage, "code_root", json_string(pl_hash_hex(&t->code_root, code)));
    return json_pack("{s:i, s:i, s:i, s:s, s:o, s:{s:O}}", "protocol", PL_AGENT_PROTOCOL_PROTOCOL, "lease_ms", RENEWALS_MS,
                     "renew_ms", RENEWALS_MS, "project", t->project, "stage", stage, "gpu", "devices", t->gpus);
}

/* Returns the request for the stage's image (agent/worker/stage_image.h), a new reference; NULL: the command runs with
 * this machine's files, which is told if the stage has an image. */
static json_t *image_json(const struct pl_cli_try *t)
{
    const bool can = pl_streq(t->sandbox, "bwrap") && pl_image_has_podman(t->podman);

    if (t->stage->image && can)
        return pl_image_request(t->podman, NULL, t->stage);
    if (t->stage->image && !t->c->quiet)
        fprintf(stderr, "stage %s: image %s is not used, the command runs with this machine's files: %s (warning)\n",
                t->stage->name, t->stage->image,
                pl_streq(t->sandbox, "bwrap") ? "podman is not on this machine" : "there is no sandbox");
    return NULL;
}

/* Returns the globs of output.expect, a new reference. With a shell the list is empty: it is not the stage's
 * command that writes the output. */
static json_t *expect_json(const struct pl_cli_try *t)
{
    json_t *list = json_array();

    for (size_t i = 0; i < t->stage->output.n_expect && !t->shell; i++)
        json_array_append_new(list, json_string(t->stage->output.expect[i]));
    return list;
}

/* Writes the request file. `cgroup`: path of the sandbox's control group; "" = none. */
static int write_request(const struct pl_cli_try *t, const char *path, const char *cgroup, struct pl_err *err)
{
    _cleanup_free_ char *store = pl_cli_try_folder_path(t->folder, "store"), *work = pl_cli_try_folder_path(t->folder, "work"),
                        *result = pl_cli_try_folder_path(t->folder, "answer.json"), *text = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf prefix = {0};
    _cleanup_(json_decrefp) json_t *request = NULL;
    int r = pl_plan_prefix(t->plan, t->datum, &prefix, err);

    if (r < 0)
        return r;
    request =
        json_pack("{s:o, s:o, s:s, s:s, s:s, s:s*, s:s*, s:s*, s:s, s:s, s:b, s:s*, s:o, s:o*}", "attach", attach_json(t, err),
                  "task", task_json(t), "store", store, "work", work, "result", result, "url", t->url, "secrets", t->secrets,
                  "out", t->out, "prefix", prefix.len ? pl_buf_str(&prefix) : "", "sandbox", t->sandbox, "shell", (int)t->shell,
                  "cgroup", *cgroup ? cgroup : NULL, "expect", expect_json(t), "image", image_json(t));
    text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    return text ? pl_io_write_file(path, text, strlen(text), 0600, err) : pl_err_nomem(err);
}

/* ---- limits ---- */

/* Creates a control group for the sandbox, with the stage's memory and CPU limits, and sets `path`. If this
 * program may not create one, prints a warning that names the limits that are not enforced, and sets `path`
 * to "". */
static int make_group(const struct pl_cli_try *t, struct pl_cgroup **ret, char path[PL_CGROUP_PATH], struct pl_err *err)
{
    const struct pl_resources *says = &t->stage->resources;
    const struct pl_cgroup_limits limits = {.memory_bytes = (uint64_t)says->memory_bytes, .cpu_milli = (uint64_t)says->cpu_milli};
    char name[40], number[16], sentence[2 * PL_CGROUP_TEXT + 200];
    const struct pl_cgroup_config config = {.program = "pipelinectl", .name = name};
    int r;

    if (!limits.memory_bytes && !limits.cpu_milli)
        return 0;
    snprintf(name, sizeof name, "pipelined-try-%d", (int)getpid());
    snprintf(number, sizeof number, "%d", (int)getpid());
    r = pl_cgroup_open(&config, ret, err);
    if (r < 0)
        return r;
    if (pl_cgroup_not_held(*ret, limits.memory_bytes > 0, limits.cpu_milli > 0, sentence, sizeof sentence) && !t->c->quiet)
        fprintf(stderr, "stage %s: %s (warning)\n", t->stage->name, sentence);
    if (pl_cgroup_held(*ret))
        r = pl_cgroup_make(*ret, number, &limits, err);
    if (r == 0 && pl_cgroup_held(*ret))
        pl_cgroup_path(*ret, number, path);
    return r;
}

static void remove_group(const struct pl_cli_try *t, struct pl_cgroup *g, const char *path)
{
    struct pl_err why = {0};

    if (*path && pl_cgroup_remove(path, &why) < 0 && !t->c->quiet)
        fprintf(stderr, "%s (warning)\n", why.msg);
    pl_cgroup_close(g);
}

/* ---- worker process ---- */

static int start(const struct pl_cli_try *t, const char *request, pid_t *ret, struct pl_err *err)
{
    char program[PATH_MAX];
    char *argv[] = {program, (char *)"--try", (char *)request, NULL};
    posix_spawn_file_actions_t actions;
    int e, r = pl_program_beside("pipelined-worker", program, err);

    if (r < 0)
        return r;
    posix_spawn_file_actions_init(&actions);
    /* standard output is reserved for the JSON answer of this program, so the worker prints to standard
     * error */
    if (t->c->json)
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (t->token)
        setenv(TOKEN_ENV, t->token, 1);
    fflush(NULL);
    e = posix_spawn(ret, program, &actions, NULL, argv, environ);
    unsetenv(TOKEN_ENV);
    posix_spawn_file_actions_destroy(&actions);
    return e ? pl_err_errno(err, e, "start %s", program) : 0;
}

/* Waits for the worker to end. If the worker runs a shell, this program ignores SIGINT, because the shell
 * itself handles ^C; otherwise the worker receives SIGINT and ends the command. */
static int wait_for(pid_t pid, bool shell)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before, output;
    struct termios terminal;
    const bool seen = shell && tcgetattr(STDIN_FILENO, &terminal) == 0;
    int status = 0;

    if (shell)
        sigaction(SIGINT, &ignore, &before);
    pl_cli_end_with_us(pid);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    pl_cli_end_with_us(0);
    if (shell)
        sigaction(SIGINT, &before, NULL);
    /* restore the terminal's settings, which a killed worker has left changed */
    if (seen && WIFSIGNALED(status)) {
        sigaction(SIGTTOU, &ignore, &output);
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal);
        sigaction(SIGTTOU, &output, NULL);
    }
    return status;
}

static int read_answer(const char *path, int status, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = ANSWER_MAX};
    const struct pl_err_info *info;
    const json_t *error;
    json_t *answer;
    int code;

    if (pl_io_read_file(path, &text, NULL) < 0)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE
                   ? pl_err_set(err, PL_ECANCELED, "interrupted: the reader of the output has gone")
               : WIFSIGNALED(status) ? pl_err_set(err, PL_EIO, "pipelined-worker was killed by signal %d", WTERMSIG(status))
                                     : pl_err_set(err, PL_EIO, "pipelined-worker ended with code %d", WEXITSTATUS(status));
    answer = json_loadb((const char *)text.data, text.len, 0, NULL);
    error = json_object_get(answer, "error");
    if (!error && answer) {
        *ret = answer;
        return 0;
    }
    info = pl_err_info_by_name(pl_show_text_at(error, "code"));
    code = pl_err_set(err, info ? info->code : PL_EIO, "%s", pl_show_text_at(error, "message"));
    if (*pl_show_text_at(error, "hint"))
        pl_err_hint(err, code, "%s", pl_show_text_at(error, "hint"));
    json_decref(answer);
    return code;
}

int pl_cli_try_run(const struct pl_cli_try *t, json_t **ret, struct pl_err *err)
{
    _cleanup_free_ char *request = pl_cli_try_folder_path(t->folder, "request.json"),
                        *answer = pl_cli_try_folder_path(t->folder, "answer.json");
    char group[PL_CGROUP_PATH] = "";
    struct pl_cgroup *groups = NULL;
    int r = request && answer ? make_group(t, &groups, group, err) : pl_err_nomem(err), status = 0;
    pid_t pid;

    r = r < 0 ? r : write_request(t, request, group, err);
    if (r == 0 && pl_cli_interrupted())
        r = pl_err_set(err, PL_ECANCELED, "interrupted");
    r = r < 0 ? r : start(t, request, &pid, err);
    if (r == 0)
        status = wait_for(pid, t->shell);
    remove_group(t, groups, group);
    if (r < 0)
        return r;
    if (pl_cli_interrupted())
        return pl_err_set(err, PL_ECANCELED, "interrupted");
    return read_answer(answer, status, ret, err);
}
