/* pipelined-worker: the agent's program. An executor starts one process per worker. It logs to standard
 * error.
 *
 * Exit codes: 0 ended as planned; 1 cannot work on this machine (options, sandbox); PL_WORKER_EXIT_SANDBOX:
 * something outside ended the sandbox; 75 the daemon has been away for too long, or refuses this worker. */
#include "pipelined/agent/command/runner_client.h"
#include "pipelined/agent/outputs/early_upload.h"
#include "pipelined/agent/worker/mesh_proxy.h"
#include "pipelined/agent/worker/stage_image.h"
#include "pipelined/agent/worker/try_datum.h"
#include "pipelined/net/http_client/http_client.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/process_hardening.h"
#include "storage/system/program_run.h"
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define EXIT_AWAY 75

/* copy of pl_worker_sandbox_lost, for the exit code */
static bool sandbox_lost;
#define TOKEN_ENV "PIPELINED_WORKER_TOKEN"
#define CA_ENV    "PIPELINED_CA"

static struct pl_worker *the_worker; /* the worker that the signal handler stops */

static const char usage[] =
    "usage: pipelined-worker --url URL --worker ID --incarnation N --work DIR [options]\n"
    "       pipelined-worker --probe-sandbox      test whether bubblewrap works: exit code 0, or 1 and the reason\n"
    "       pipelined-worker --probe-daemon --url URL   test whether the daemon answers: exit code 0, or 1 and the reason\n"
    "       pipelined-worker --try FILE           run one datum for pipelinectl try, as FILE describes\n"
    "       pipelined-worker --get-image REQUEST  get a stage's image, and print it for --image, or why there is none\n"
    "       pipelined-worker --install DIR [--writable INPUT]...   prepare a pod's volume before its\n"
    "                                             other containers start\n"
    "  --url URL            URL of the daemon      --url-file FILE   file with its URL, read again when it is away\n"
    "  --worker ID          the daemon's name for this worker\n"
    "  --incarnation N      number of this start of the worker\n"
    "  --token-file FILE    file with the worker's token; otherwise in the environment: " TOKEN_ENV "\n"
    "  --ca FILE            CA certificates (PEM) for https, instead of the system's; otherwise in the environment: " CA_ENV "\n"
    "  --work DIR           work folder: emptied at the start, removed at the end\n"
    "  --cache DIR          cache of whole files, shared by the workers of this machine\n"
    "  --secrets DIR        folder with the project's secrets, as NAME/KEY\n"
    "  --store-dir DIR      folder of the daemon's store, to read packs without HTTP; commands cannot see it\n"
    "  --sandbox MODE       bwrap (default), none, or pod: the runner is the first process of another\n"
    "                       container and connects to WORK/sock/runner\n"
    "  --image IMAGE        image in which the command runs, as --get-image prints it\n"
    "  --mesh               at the end, stop the service-mesh proxies of the pod\n"
    "  --held-fd N          open descriptor to keep until no process of this worker is left\n"
    "  --cgroup DIR         cgroup of the sandbox, with the stage's limits\n"
    "  --gpu-devices 0,1    numbers N of this worker's devices /dev/nvidiaN; default none\n"
    "environment: PIPELINED_SANDBOX_RO=/opt:/srv/tools   the daemon's sandbox_read_only: more folders that\n"
    "                                                    commands can read\n"
    "             PIPELINED_OVERLAP=0   fetch and upload nothing while a command runs\n"
    "             PIPELINED_EARLY_MS=5000   upload output files unchanged for this time (ms) while the\n"
    "                                   command runs; 0 = none\n";

struct options {
    struct pl_worker_config worker;
    const char *token_file;
    const char *request;      /* argument of --try */
    const char *install;      /* argument of --install */
    const char *wanted_image; /* argument of --get-image */
    struct pl_image image;    /* of --image */
    json_t *writable;
    bool probe, probe_daemon, mesh;
};

enum {
    OPT_URL = 1000,
    OPT_URL_FILE,
    OPT_TOKEN_FILE,
    OPT_CA,
    OPT_WORKER,
    OPT_INCARNATION,
    OPT_WORK,
    OPT_CACHE,
    OPT_STORE_DIR,
    OPT_SECRETS,
    OPT_SANDBOX,
    OPT_IMAGE,
    OPT_GET_IMAGE,
    OPT_MESH,
    OPT_HELD_FD,
    OPT_CGROUP,
    OPT_GPUS,
    OPT_PROBE,
    OPT_PROBE_DAEMON,
    OPT_TRY,
    OPT_INSTALL,
    OPT_WRITABLE,
    OPT_HELP
};

static const struct option long_options[] = {
    {"url", required_argument, NULL, OPT_URL},
    {"url-file", required_argument, NULL, OPT_URL_FILE},
    {"token-file", required_argument, NULL, OPT_TOKEN_FILE},
    {"ca", required_argument, NULL, OPT_CA},
    {"worker", required_argument, NULL, OPT_WORKER},
    {"incarnation", required_argument, NULL, OPT_INCARNATION},
    {"work", required_argument, NULL, OPT_WORK},
    {"cache", required_argument, NULL, OPT_CACHE},
    {"store-dir", required_argument, NULL, OPT_STORE_DIR},
    {"secrets", required_argument, NULL, OPT_SECRETS},
    {"sandbox", required_argument, NULL, OPT_SANDBOX},
    {"image", required_argument, NULL, OPT_IMAGE},
    {"get-image", required_argument, NULL, OPT_GET_IMAGE},
    {"mesh", no_argument, NULL, OPT_MESH},
    {"held-fd", required_argument, NULL, OPT_HELD_FD},
    {"cgroup", required_argument, NULL, OPT_CGROUP},
    {"gpu-devices", required_argument, NULL, OPT_GPUS},
    {"probe-sandbox", no_argument, NULL, OPT_PROBE},
    {"probe-daemon", no_argument, NULL, OPT_PROBE_DAEMON},
    {"try", required_argument, NULL, OPT_TRY},
    {"install", required_argument, NULL, OPT_INSTALL},
    {"writable", required_argument, NULL, OPT_WRITABLE},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

static int parse_gpus(const char *text, struct pl_worker_config *c, struct pl_err *err)
{
    for (char *end; *text; text = end + (*end == ',')) {
        unsigned long n = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || n > 255 || c->n_gpus == PL_AGENT_PROTOCOL_GPUS_MAX)
            return pl_err_set(err, PL_EUSAGE, "--gpu-devices \"%s\": give numbers of /dev/nvidiaN, separated by commas", text);
        c->gpus[c->n_gpus++] = (unsigned)n;
    }
    return 0;
}

static int parse_sandbox(const char *text, struct pl_worker_config *c, struct pl_err *err)
{
    if (!pl_streq(text, "bwrap") && !pl_streq(text, "none") && !pl_streq(text, "pod"))
        return pl_err_set(err, PL_EUSAGE, "--sandbox \"%s\": use bwrap, none or pod", text);
    c->sandbox = pl_streq(text, "none") ? PL_SANDBOX_NONE : pl_streq(text, "pod") ? PL_SANDBOX_POD : PL_SANDBOX_BWRAP;
    return 0;
}

static int parse_held_fd(const char *text, struct pl_worker_config *c, struct pl_err *err)
{
    char *end;
    long fd = strtol(text, &end, 10);

    if (end == text || *end || fd < 3 || fd > 9 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return pl_err_set(err, PL_EUSAGE, "--held-fd \"%s\": give the number of an open descriptor, from 3 to 9", text);
    c->held_fd = (int)fd;
    return 0;
}

static int add_writable(struct options *o, const char *name, struct pl_err *err)
{
    if (!*name || strchr(name, '/') || *name == '.')
        return pl_err_set(err, PL_EUSAGE, "--writable \"%s\": give the name of an input", name);
    if (!o->writable)
        o->writable = json_array();
    return json_array_append_new(o->writable, json_string(name)) < 0 ? pl_err_nomem(err) : 0;
}

/* Stores one option. */
static int take_option(struct options *o, int option, const char *value, struct pl_err *err)
{
    switch (option) {
    case OPT_URL:
        o->worker.url = value;
        return 0;
    case OPT_URL_FILE:
        o->worker.url_file = value;
        return 0;
    case OPT_TOKEN_FILE:
        o->token_file = value;
        return 0;
    case OPT_CA:
        o->worker.ca = value;
        return 0;
    case OPT_WORKER:
        o->worker.name = value;
        return 0;
    case OPT_INCARNATION:
        o->worker.incarnation = value;
        return 0;
    case OPT_WORK:
        o->worker.work = value;
        return 0;
    case OPT_CACHE:
        o->worker.cache = value;
        return 0;
    case OPT_STORE_DIR:
        o->worker.store_dir = value;
        return 0;
    case OPT_SECRETS:
        o->worker.secrets = value;
        return 0;
    case OPT_SANDBOX:
        return parse_sandbox(value, &o->worker, err);
    case OPT_IMAGE:
        o->worker.image = &o->image;
        return pl_image_read(json_loads(value, 0, NULL), &o->image, err);
    case OPT_GET_IMAGE:
        o->wanted_image = value;
        return 0;
    case OPT_MESH:
        o->mesh = true;
        return 0;
    case OPT_HELD_FD:
        return parse_held_fd(value, &o->worker, err);
    case OPT_CGROUP:
        o->worker.cgroup = value;
        return 0;
    case OPT_GPUS:
        return parse_gpus(value, &o->worker, err);
    case OPT_PROBE:
        o->probe = true;
        return 0;
    case OPT_PROBE_DAEMON:
        o->probe_daemon = true;
        return 0;
    case OPT_TRY:
        o->request = value;
        return 0;
    case OPT_INSTALL:
        o->install = value;
        return 0;
    case OPT_WRITABLE:
        return add_writable(o, value, err);
    default:
        return pl_err_set(err, PL_EUSAGE, "see pipelined-worker --help");
    }
}

static int parse_options(int argc, char **argv, struct options *o, struct pl_err *err)
{
    int option, r = 0;

    while (r == 0 && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == OPT_HELP) {
            fputs(usage, stdout);
            exit(0);
        }
        r = take_option(o, option, optarg, err);
    }
    if (!o->worker.ca && getenv(CA_ENV) && *getenv(CA_ENV))
        o->worker.ca = getenv(CA_ENV);
    if (r == 0 && o->worker.ca && access(o->worker.ca, R_OK) < 0)
        r = pl_err_errno(err, errno, "--ca %s", o->worker.ca);
    if (r == 0 && o->probe_daemon && !o->worker.url)
        return pl_err_set(err, PL_EUSAGE, "--probe-daemon needs --url");
    if (r == 0 && !o->probe && !o->probe_daemon && !o->request && !o->install && !o->wanted_image &&
        (!o->worker.url || !o->worker.name || !o->worker.work))
        r = pl_err_set(err, PL_EUSAGE, "--url, --worker and --work are required; see pipelined-worker --help");
    return r;
}

/* Reads the token. Removes it from the environment, where a command of the same user could read it (sandbox
 * mode none). */
static int take_token(const struct options *o, struct pl_buf *ret, struct pl_err *err)
{
    char *from_env = getenv(TOKEN_ENV);
    int r;

    if (o->token_file)
        r = pl_io_read_file(o->token_file, ret, err);
    else if (from_env)
        r = pl_buf_add_str(ret, from_env, err);
    else
        r = pl_err_set(err, PL_EUSAGE, "no token: set " TOKEN_ENV " or give --token-file");
    if (from_env) {
        explicit_bzero(from_env, strlen(from_env));
        unsetenv(TOKEN_ENV);
    }
    if (r == 0 && !pl_buf_str(ret))
        r = pl_err_nomem(err);
    if (r == 0)
        ret->data[strcspn((char *)ret->data, "\r\n")] = 0;
    return r;
}

/* Creates the work folder and resolves links in its path, because commands put this path into links. */
static int resolve_work(const char *work, char out[PATH_MAX], struct pl_err *err)
{
    int r = pl_io_mkdirs(work, 0755, err);

    if (r == 0 && !realpath(work, out))
        r = pl_err_errno(err, errno, "work folder %s", work);
    return r;
}

/* True if `path` is `folder` or inside it; follows links if `path` exists. */
static bool lies_in(const char *path, const char *folder)
{
    char real[PATH_MAX];
    size_t n = strlen(folder);

    if (realpath(path, real))
        path = real;
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static void on_signal(int number)
{
    (void)number;
    if (the_worker)
        pl_worker_stop(the_worker);
}

static void set_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGHUP, &ignore, NULL);
}

/* Tests whether bubblewrap works; returns the exit code. */
static int probe(const char *runner)
{
    struct pl_err err = {0};
    const char *tmp = getenv("TMPDIR");

    /* log only warnings and errors: the caller uses standard error as the reason why bubblewrap does not
     * work */
    pl_log_init("pipelined-worker", PL_LOG_WARN, true);
    if (pl_runner_client_probe(runner, getenv("PIPELINED_SANDBOX_RO"), tmp ? tmp : "/tmp", &err) == 0)
        return 0;
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}

/* Tests whether the daemon's name resolves, its certificate is trusted, and the daemon answers; returns the
 * exit code. */
static int probe_daemon(const struct options *o)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = 4096};
    struct pl_http_call call = {.method = "GET", .path = "/healthz", .out = &out};
    struct pl_http_client *client = NULL;
    struct pl_err err = {0};
    int r = pl_http_client_create(o->worker.url, NULL, &client, &err);

    if (r == 0 && o->worker.ca)
        r = pl_http_client_set_ca(client, o->worker.ca, &err);
    if (r == 0)
        pl_http_client_set_remedy(client, PL_WORKER_POD_REMEDY);
    r = r < 0 ? r : pl_http_client_call(client, &call, NULL, &err);
    pl_http_client_destroy(client);
    if (r < 0)
        fprintf(stderr, "%s\n", err.msg);
    return r < 0;
}

static int install(struct options *o)
{
    const struct pl_sandbox_config config = {
        .mode = PL_SANDBOX_POD, .work = o->install, .runner = o->worker.runner, .next = o->worker.next, .writable = o->writable};
    struct pl_err err = {0};
    int r;

    umask(002);
    r = pl_sandbox_install(&config, &err);
    json_decref(o->writable);
    if (r == 0)
        return 0;
    fprintf(stderr, "pipelined-worker --install %s: %s\n", o->install, err.msg);
    return 1;
}

/* Makes the incarnation, which identifies this start of the worker: the number of the start, and random
 * digits that only this process knows. The daemon exchanges the token only for this incarnation. */
static void name_incarnation(struct options *o, char out[64])
{
    uint8_t random[16];
    char hex[2 * sizeof random + 1];

    pl_random_bytes(random, sizeof random);
    pl_hex_encode(random, sizeof random, hex);
    snprintf(out, 64, "%.16s-%s", o->worker.incarnation, hex);
    o->worker.incarnation = out;
}

/* Runs the worker. */
static int work(struct options *o, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf token = {.max = 4096};
    char path[PATH_MAX], incarnation[64];
    int r = take_token(o, &token, err);

    if (r == 0 && o->worker.image)
        r = pl_image_enter(o->worker.image, err);
    if (r == 0)
        r = resolve_work(o->worker.work, path, err);
    if (r < 0)
        return r;
    if (o->worker.store_dir && lies_in(o->worker.store_dir, path))
        return pl_err_set(err, PL_EUSAGE, "--store-dir %s is inside the work folder: choose another work folder",
                          o->worker.store_dir);
    o->worker.token = (const char *)token.data;
    o->worker.work = path;
    name_incarnation(o, incarnation);
    o->worker.extra_ro = getenv("PIPELINED_SANDBOX_RO");
    r = pl_worker_create(&o->worker, &the_worker, err);
    if (r < 0)
        return r;
    set_signals();
    r = pl_worker_run(the_worker, err);
    sandbox_lost = pl_worker_sandbox_lost(the_worker);
    {
        struct pl_worker *w = the_worker;
        the_worker = NULL; /* signals have no effect from here on */
        pl_worker_destroy(w);
    }
    return r;
}

static void on_try_worker(struct pl_worker *w)
{
    the_worker = w;
}

/* Runs one datum for pipelinectl, and ends when pipelinectl ends. */
static int try_datum(const struct options *o)
{
    _cleanup_(pl_buf_finish) struct pl_buf token = {.max = 4096};
    struct pl_try_config config = {.request = o->request,
                                   .ca = o->worker.ca,
                                   .runner = o->worker.runner,
                                   .next = o->worker.next,
                                   .extra_ro = getenv("PIPELINED_SANDBOX_RO"),
                                   .on_worker = on_try_worker};
    struct pl_err err = {0};
    int r = getenv(TOKEN_ENV) ? take_token(o, &token, &err) : 0;

    pl_log_init("pipelinectl try", PL_LOG_WARN, false); /* the log is shown to the user */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    set_signals();
    config.token = token.data ? (const char *)token.data : "";
    r = r < 0 ? r : pl_try_run(&config, &err);
    if (r == 0)
        return 0;
    fprintf(stderr, "pipelined-worker: %s\n", err.msg);
    return 1;
}

int main(int argc, char **argv)
{
    struct options options = {.worker.incarnation = "1"};
    struct pl_err err = {0};
    char runner[PATH_MAX], next[PATH_MAX];
    const char *overlap = getenv("PIPELINED_OVERLAP"), *early_ms = getenv("PIPELINED_EARLY_MS");
    int r;

    pl_process_close();
    umask(022); /* input files get their modes from the call that creates them, limited by this mask */
    pl_log_init("pipelined-worker", PL_LOG_INFO, true);
    r = parse_options(argc, argv, &options, &err);
    if (r == 0)
        r = pl_program_beside("pl-runner", runner, &err);
    if (r == 0 && !options.probe)
        r = pl_program_beside("pl-next", next, &err);
    if (r < 0) {
        fprintf(stderr, "pipelined-worker: %s\n", err.msg);
        return 1;
    }
    if (options.wanted_image)
        return pl_stage_image_print(options.wanted_image);
    if (options.probe || options.probe_daemon)
        return options.probe ? probe(runner) : probe_daemon(&options);
    options.worker.runner = runner;
    options.worker.next = next;
    options.worker.one_by_one = overlap && pl_streq(overlap, "0");
    options.worker.early_ms = early_ms ? PL_MAX(atoll(early_ms), 0) : PL_EARLY_UPLOAD_QUIET_MS;
    if (options.install)
        return install(&options);
    if (options.request)
        return try_datum(&options);
    if (options.worker.sandbox == PL_SANDBOX_POD)
        umask(002); /* writable by the group: the command runs as another user of the same group */
    r = work(&options, &err);
    pl_image_finish(&options.image);
    if (options.mesh)
        pl_mesh_proxy_quit();
    if (r == 0)
        return 0;
    pl_log_error("worker", "%s", err.msg);
    if (sandbox_lost)
        return PL_WORKER_EXIT_SANDBOX;
    return r == PL_EUSAGE || r == PL_EUNAVAILABLE || r == PL_EINVAL || r == PL_ENOSPC || r == PL_EIO ? 1 : EXIT_AWAY;
}
