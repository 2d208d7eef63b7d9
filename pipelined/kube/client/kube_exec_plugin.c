/* kube_exec_plugin.c: runs the plugin in its own process group, reads its standard output and standard error
 * until both are closed, and kills the group when the time limit is reached or the run is cancelled. */
#include "pipelined/kube/client/kube_exec_plugin.h"

#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#define STDERR_MAX 4096u
#define ENV_MAX    4096u
#define REAP_MS    10 /* ms between the checks whether a plugin that closed its output has exited */

extern char **environ;

void pl_kube_credential_finish(struct pl_kube_credential *c)
{
    char **const all[] = {&c->token, &c->cert, &c->key};

    for (size_t i = 0; i < PL_ARRAY_SIZE(all); i++) {
        if (*all[i] != NULL)
            explicit_bzero(*all[i], strlen(*all[i]));
        free(*all[i]);
        *all[i] = NULL;
    }
}

/* ---- input and output of a plugin ---- */

/* Returns the cluster's CA certificates in base64, for the plugin's input; NULL = none, or the file is
 * unreadable. */
static json_t *ca_text(const struct pl_kubeconfig *c)
{
    _cleanup_(pl_buf_finish) struct pl_buf file = {.max = PL_KUBECONFIG_MAX};
    _cleanup_free_ char *base64 = NULL;
    const void *pem = c->ca_data;
    size_t n = c->ca_data != NULL ? strlen(c->ca_data) : 0;

    if (pem == NULL && c->ca_file != NULL && pl_io_read_file(c->ca_file, &file, NULL) == 0) {
        pem = file.data;
        n = file.len;
    }
    return pem != NULL && pl_base64_encode(pem, n, &base64, NULL) >= 0 ? json_string(base64) : NULL;
}

char *pl_kube_exec_info(const struct pl_kubeconfig *config)
{
    json_t *spec = json_pack("{s:b}", "interactive", 0), *info, *cluster;
    char *text = NULL;

    if (config->plugin->wants_cluster) {
        cluster = json_pack("{s:s,s:s*,s:b,s:s*,s:o*}", "server", config->server, "tls-server-name", config->tls_server_name,
                            "insecure-skip-tls-verify", config->insecure, "proxy-url", config->proxy_url,
                            "certificate-authority-data", ca_text(config));
        (void)json_object_set_new(spec, "cluster", cluster);
    }
    info = json_pack("{s:s,s:s,s:o}", "apiVersion", config->plugin->api_version, "kind", "ExecCredential", "spec", spec);
    if (info != NULL)
        text = json_dumps(info, JSON_COMPACT);
    json_decref(info);
    return text;
}

/* Parses the zone of a timestamp, "+02:00" or "Z", as minutes east of UTC. */
static bool offset_of(const char *text, int *ret)
{
    unsigned h = 0, m = 0;
    int n = 0;

    *ret = 0;
    if ((*text == 'Z' || *text == 'z') && text[1] == '\0')
        return true;
    if ((*text != '+' && *text != '-') || sscanf(text + 1, "%2u:%2u%n", &h, &m, &n) != 2 || text[1 + n] != '\0' || h > 23 ||
        m > 59)
        return false;
    *ret = (int)(h * 60 + m) * (*text == '-' ? -1 : 1);
    return true;
}

bool pl_kube_time_parse(const char *text, int64_t *ret_us)
{
    struct tm tm = {0};
    const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t us = 0, unit = 100000;
    int minutes;

    if (at == NULL)
        return false;
    if (*at == '.') {
        if (at[1] < '0' || at[1] > '9')
            return false;
        for (at++; *at >= '0' && *at <= '9'; at++, unit /= 10)
            us += (*at - '0') * unit;
    }
    if (!offset_of(at, &minutes))
        return false;
    *ret_us = ((int64_t)timegm(&tm) - 60 * minutes) * 1000000 + us;
    return true;
}

static int no_credential(const char *command, const char *why, struct pl_err *err)
{
    (void)pl_err_set(err, PL_EAUTH, "the plugin %s of the kubeconfig: %s", command, why);
    return pl_err_hint(err, PL_EAUTH, "Run it by hand: it must print an ExecCredential without asking for input.");
}

static int copy_text(const json_t *object, const char *key, char **ret, struct pl_err *err)
{
    const char *text = json_string_value(json_object_get(object, key));

    if (text == NULL || *text == '\0')
        return 0;
    *ret = strdup(text);
    return *ret != NULL ? 0 : pl_err_nomem(err);
}

static int take_status(const char *command, const json_t *status, struct pl_kube_credential *c, struct pl_err *err)
{
    const char *until = json_string_value(json_object_get(status, "expirationTimestamp"));
    int64_t us = 0;
    int r = copy_text(status, "token", &c->token, err);

    if (r == 0)
        r = copy_text(status, "clientCertificateData", &c->cert, err);
    if (r == 0)
        r = copy_text(status, "clientKeyData", &c->key, err);
    if (r < 0)
        return r;
    if (c->token == NULL && (c->cert == NULL || c->key == NULL))
        return no_credential(command, "its output has neither a token nor a certificate with its key", err);
    if (until != NULL && !pl_kube_time_parse(until, &us))
        return no_credential(command, "its expirationTimestamp is not a valid time", err);
    c->until_s = until != NULL ? us / 1000000 : INT64_MAX;
    return 0;
}

int pl_kube_credential_parse(const char *command, const char *api_version, const char *text, size_t n,
                             struct pl_kube_credential *ret, struct pl_err *err)
{
    struct pl_kube_credential c = {0};
    json_t *root = json_loadb(text, n, 0, NULL);
    const char *kind = json_string_value(json_object_get(root, "kind")),
               *version = json_string_value(json_object_get(root, "apiVersion"));
    int r;

    if (kind == NULL || !pl_streq(kind, "ExecCredential"))
        r = no_credential(command, "its output is not an ExecCredential", err);
    else if (version == NULL || !pl_streq(version, api_version))
        r = no_credential(command, "its output has another apiVersion than the kubeconfig names", err);
    else
        r = take_status(command, json_object_get(root, "status"), &c, err);
    json_decref(root);
    if (r < 0)
        pl_kube_credential_finish(&c);
    else
        *ret = c;
    return r;
}

/* ---- running a plugin ---- */

struct run {
    const struct pl_kube_plugin *plugin;
    pid_t pid;
    int out, errors; /* read ends of the pipes for standard output and standard error; -1 = closed */
    struct pl_buf said, complained;
};

/* Starts the plugin with pipes for its standard output and standard error, and /dev/null as its input. */
static int spawn(struct run *run, char **env, struct pl_err *err)
{
    const struct pl_kube_plugin *p = run->plugin;
    char *argv[PL_KUBE_EXEC_ARGS + 2] = {p->command};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int out[2] = {-1, -1}, errors[2] = {-1, -1}, failed;
    sigset_t none;

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0) {
        failed = errno;
        pl_closep(&out[0]);
        pl_closep(&out[1]);
        return pl_err_errno(err, failed, "cannot start the plugin %s of the kubeconfig", p->command);
    }
    memcpy(argv + 1, p->args, sizeof(p->args));
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    /* Run the plugin in its own process group, so that its children can be killed with it. */
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    failed = posix_spawnp(&run->pid, p->command, &actions, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(errors[1]);
    run->out = out[0];
    run->errors = errors[0];
    if (failed == 0)
        return 0;
    run->pid = -1;
    (void)pl_err_set(err, PL_EAUTH, "the plugin %s of the kubeconfig cannot be started: %s", p->command, strerror(failed));
    return p->install_hint != NULL ? pl_err_hint(err, PL_EAUTH, "%s", p->install_hint) : PL_EAUTH;
}

/* Reads some bytes from the pipe into `out`, and drops bytes beyond the buffer's limit. Returns false and
 * closes the pipe at its end. */
static bool take_some(int *fd, struct pl_buf *out)
{
    char part[4096];
    const ssize_t n = read(*fd, part, sizeof(part));

    if (n > 0) {
        if (pl_buf_add(out, part, PL_MIN((size_t)n, out->max - out->len), NULL) < 0)
            /* Out of memory: keep the text up to here and drop the rest, so that it has no gap. */
            out->max = out->len;
        return true;
    }
    if (n < 0 && errno == EINTR)
        return true;
    close(*fd);
    *fd = -1;
    return false;
}

/* Reads both pipes until they are closed, the time limit is reached, or `stop_fd` is readable. */
static int listen_to(struct run *run, int64_t until_ms, int stop_fd, struct pl_err *err)
{
    const char *command = run->plugin->command;

    while (run->out >= 0 || run->errors >= 0) {
        struct pollfd fds[3] = {{run->out, POLLIN, 0}, {run->errors, POLLIN, 0}, {stop_fd, POLLIN, 0}};
        const int64_t left_ms = until_ms - pl_clock_mono_ms();

        if (left_ms <= 0)
            return no_credential(command, "it did not end in time", err);
        if (poll(fds, 3, (int)left_ms) < 0 && errno != EINTR)
            return pl_err_errno(err, errno, "cannot wait for the plugin %s of the kubeconfig", command);
        if (fds[2].revents != 0)
            return pl_err_set(err, PL_ECANCELED, "the plugin %s of the kubeconfig was stopped", command);
        if (fds[0].revents != 0)
            (void)take_some(&run->out, &run->said);
        if (fds[1].revents != 0)
            (void)take_some(&run->errors, &run->complained);
    }
    return 0;
}

static int wait_for(struct run *run, int64_t until_ms, int *ret_status)
{
    for (;;) {
        const pid_t done = waitpid(run->pid, ret_status, WNOHANG);

        if (done == run->pid || (done < 0 && errno != EINTR))
            return done == run->pid ? 0 : -1;
        if (pl_clock_mono_ms() >= until_ms)
            return -1;
        (void)poll(NULL, 0, REAP_MS);
    }
}

static void end_run(struct run *run)
{
    if (run->pid > 0) {
        (void)kill(-run->pid, SIGKILL);
        (void)waitpid(run->pid, NULL, 0);
    }
    pl_closep(&run->out);
    pl_closep(&run->errors);
    if (run->said.data != NULL)
        explicit_bzero(run->said.data, run->said.len);
    pl_buf_finish(&run->said);
    pl_buf_finish(&run->complained);
}

static int talk(struct run *run, int64_t timeout_ms, int stop_fd, struct pl_kube_credential *ret, struct pl_err *err)
{
    const int64_t until_ms = pl_clock_mono_ms() + timeout_ms;
    const struct pl_kube_plugin *p = run->plugin;
    char why[600];
    int status = 0, r = listen_to(run, until_ms, stop_fd, err);

    if (r < 0)
        return r;
    if (wait_for(run, until_ms, &status) < 0)
        return no_credential(p->command, "it did not end in time", err);
    run->pid = -1;
    if (status == 0)
        return pl_kube_credential_parse(p->command, p->api_version, (const char *)run->said.data, run->said.len, ret, err);
    (void)snprintf(why, sizeof(why), "%s %d: %.*s", WIFSIGNALED(status) ? "ended by signal" : "exit status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), (int)PL_MIN(run->complained.len, (size_t)500),
                   run->complained.data != NULL ? (const char *)run->complained.data : "");
    return no_credential(p->command, pl_utf8_clean(why), err);
}

/* Adds "NAME=value" to the environment; replaces a variable of the same name. */
static size_t put_env(char **env, size_t n, char *line)
{
    const size_t len = strcspn(line, "=") + 1;

    for (size_t i = 0; i < n; i++)
        if (strncmp(env[i], line, len) == 0) {
            env[i] = line;
            return n;
        }
    if (n < ENV_MAX)
        env[n++] = line;
    return n;
}

/* Runs the plugin with the daemon's own environment, plus the variables of the kubeconfig and
 * KUBERNETES_EXEC_INFO. */
int pl_kube_exec_run(const struct pl_kubeconfig *config, int64_t timeout_ms, int stop_fd, struct pl_kube_credential *ret,
                     struct pl_err *err)
{
    struct run run = {.plugin = config->plugin,
                      .pid = -1,
                      .out = -1,
                      .errors = -1,
                      .said = {.max = PL_KUBE_PLUGIN_OUT_MAX},
                      .complained = {.max = STDERR_MAX}};
    _cleanup_free_ char *info = pl_kube_exec_info(config), *line = NULL;
    _cleanup_free_ char **env = calloc(ENV_MAX + 1, sizeof(*env));
    size_t n = 0;
    int r;

    if (info == NULL || env == NULL || asprintf(&line, "KUBERNETES_EXEC_INFO=%s", info) < 0) {
        line = NULL;
        return pl_err_nomem(err);
    }
    for (char **e = environ; *e != NULL; e++)
        n = put_env(env, n, *e);
    for (size_t i = 0; config->plugin->env[i] != NULL; i++)
        n = put_env(env, n, config->plugin->env[i]);
    (void)put_env(env, n, line);
    r = spawn(&run, env, err);
    if (r == 0)
        r = talk(&run, timeout_ms, stop_fd, ret, err);
    end_run(&run);
    return r;
}
