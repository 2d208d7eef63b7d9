/* Checks of this machine (programs, sandbox, data folder) and of its daemon (version, disks, store, limits,
 * GPUs, keys). */
#include "pipelined/cli/doctor/doctor.h"

#include "pipelined/db/writer/db_open.h"

#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "pipelined/sandbox_view/image.h"
#include "storage/base/buf.h"
#include "storage/system/program_run.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE_MS                               10000

#define SAY(d, err, grade, check, remedy, ...) pl_doctor_say(d, PL_DOCTOR_##grade, check, remedy, err, __VA_ARGS__)

/* ---- this machine ---- */

/* Checks that all programs are installed that a daemon, its workers and pipelinectl start. */
static int check_programs(struct pl_doctor *d, struct pl_err *err)
{
    static const char *const names[] = {"pipelined", "pipelined-worker", "pl-runner", "pl-next", "pl-git"};
    char path[PATH_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(names); i++) {
        struct pl_err why = {0};

        if (pl_program_beside(names[i], path, &why) < 0) {
            r = SAY(d, err, FAIL, "programs", "install all programs of pipelined into one folder", "a program is missing: %s",
                    *why.msg ? why.msg : path);
            return r;
        }
    }
    *strrchr(path, '/') = '\0';
    return SAY(d, err, OK, "programs", NULL, "all %zu programs are in %s", PL_ARRAY_SIZE(names), path);
}

static int check_sandbox(struct pl_doctor *d, struct pl_err *err)
{
    char path[PATH_MAX], line[512];
    const char *const argv[] = {path, "--probe-sandbox", NULL};
    struct pl_err why = {0};
    int r = pl_program_beside("pipelined-worker", path, &why);

    if (r < 0)
        return 0; /* check_programs has already reported the missing program */
    r = pl_program_run(argv, PROBE_MS, line, sizeof line, &why);
    if (r == 0)
        return SAY(d, err, OK, "sandbox", NULL, "bubblewrap works: a stage sees only its own files");
    return SAY(
        d, err, WARN, "sandbox",
        "install bubblewrap and allow user namespaces; with --sandbox none stages see this machine's files; stages that run as "
        "pods need no sandbox here",
        "%s",
        r < 0   ? why.msg
        : *line ? line
                : "the probe failed without a message");
}

/* Says whether stages of this machine can run in their images. */
static int check_images(struct pl_doctor *d, struct pl_err *err)
{
    const char *const argv[] = {PL_IMAGE_PODMAN, "--version", NULL};
    char line[512];
    struct pl_err why = {0};

    if (!pl_image_has_podman(PL_IMAGE_PODMAN))
        return SAY(d, err, OK, "images", NULL,
                   "podman is not installed: stages that name an image cannot run in it on this machine");
    if (pl_program_run(argv, PROBE_MS, line, sizeof line, &why) != 0)
        return SAY(d, err, WARN, "images", "repair the installation of podman", "%s", *why.msg ? why.msg : line);
    return SAY(d, err, OK, "images", NULL, "%s gets the images of stages", line);
}

/* Checks that only the owner of the daemon's folder can read the token, keys and secrets in it. */
static int check_private(struct pl_doctor *d, const char *folder, struct pl_err *err)
{
    static const char *const names[] = {"token", "master.key", "secrets"};
    char path[PATH_MAX], remedy[PATH_MAX + 80];
    struct stat st;
    unsigned open = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(names); i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path || lstat(path, &st) < 0 ||
            !(st.st_mode & 077))
            continue;
        open++;
        snprintf(remedy, sizeof remedy, "chmod go= %s; other users may have read it already, so replace it", path);
        r = SAY(d, err, FAIL, "folder", remedy, "%s can be accessed by other users (mode %03o)", path,
                (unsigned)st.st_mode & 0777);
    }
    return r < 0 || open ? r : SAY(d, err, OK, "folder", NULL, "%s: only its owner can read token, keys and secrets", folder);
}

static int check_folder(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_free_ char *folder = pl_cli_folder(d->cli);
    struct pl_err why = {0};

    if (!folder)
        return SAY(d, err, WARN, "folder", "set HOME, or give --data DIR", "no folder for a daemon's data: HOME is not set");
    if (access(folder, F_OK) < 0)
        return SAY(d, err, OK, "folder", NULL, "%s does not exist yet: a daemon creates it", folder);
    if (access(folder, R_OK | X_OK) < 0)
        return SAY(d, err, OK, "folder", NULL, "%s belongs to another user: %s", folder, strerror(errno));
    if (pl_db_check_disk(folder, &why) < 0)
        return SAY(d, err, FAIL, "folder", "give the daemon a folder on a local disk with --data", "%s", why.msg);
    return check_private(d, folder, err);
}

/* ---- the daemon ---- */

static int check_version(struct pl_doctor *d, const json_t *status, struct pl_err *err)
{
    const char *its = pl_show_text_at(status, "version"), *url = pl_show_text_at(status, "url");

    if (!pl_streq(its, PL_VERSION))
        return SAY(d, err, WARN, "daemon", "install the same version on both sides",
                   "%s has version %s, this pipelinectl has version %s", url, its, PL_VERSION);
    return SAY(d, err, OK, "daemon", NULL, "%s, version %s, executor %s%s", url, its, pl_show_text_at(status, "executor"),
               pl_streq(pl_show_text_at(status, "executor"), "kubernetes") ? " (doctor --cluster checks that)" : "");
}

static int check_disks(struct pl_doctor *d, const json_t *status, struct pl_err *err)
{
    const json_t *place;
    size_t i;
    int r = 0;

    json_array_foreach(pl_show_at(status, "disk.places"), i, place)
    {
        const char *state = pl_show_text_at(place, "state"), *path = pl_show_text_at(place, "path");
        char left[32], total[32], full[32];

        if (r < 0)
            break;
        pl_size_text((uint64_t)pl_show_int_at(place, "free_bytes"), left);
        pl_size_text((uint64_t)pl_show_int_at(place, "total_bytes"), total);
        pl_size_text((uint64_t)pl_show_int_at(place, "full_bytes"), full);
        if (pl_streq(state, "full"))
            r = SAY(d, err, FAIL, "disk", "delete what is not needed, then run pipelinectl gc; keep rules do this automatically",
                    "%s has %s free of %s: pushes are refused until %s are free", path, left, total, full);
        else if (pl_streq(state, "low"))
            r = SAY(d, err, WARN, "disk", "pipelinectl gc --dry-run shows what can be freed; keep rules do this automatically",
                    "%s has %s free of %s; below %s pushes are refused", path, left, total, full);
        else
            r = SAY(d, err, OK, "disk", NULL, "%s has %s free of %s", path, left, total);
    }
    return r;
}

static int check_store(struct pl_doctor *d, const json_t *status, struct pl_err *err)
{
    const long long lying = (long long)pl_show_int_at(status, "packs.quarantined"),
                    unread = (long long)pl_show_int_at(status, "packs.unread");
    const char *url = pl_show_text_at(status, "store");

    if (lying)
        return SAY(d, err, FAIL, "store", "pipelinectl fsck names the damaged commits and files",
                   "%s: %lld pack%s whose content does not match what was announced", url, lying, lying == 1 ? "" : "s");
    if (unread)
        return SAY(d, err, OK, "store", NULL, "%s; %lld pack%s still to be read back and verified", url, unread,
                   unread == 1 ? "" : "s");
    return SAY(d, err, OK, "store", NULL, "%s", url);
}

/* Reports the open commits that the daemon tried to finish but could not. */
static int check_stalled(struct pl_doctor *d, const json_t *status, struct pl_err *err)
{
    const json_t *c;
    size_t i;
    int r = 0;

    json_array_foreach(pl_show_at(status, "stalled"), i, c)
    {
        const bool aside = json_is_true(pl_show_at(c, "set_aside"));

        if (r == 0)
            r = SAY(d, err, FAIL, "commits",
                    aside ? "fix the cause, then finish the commit or delete it: pipelinectl finish commit, delete commit"
                          : "repair the store: the daemon tries again by itself, and loses nothing until then",
                    "the commit of the puts to %s/%s@%s (commit %.8s) cannot be finished: %s", pl_show_text_at(c, "project"),
                    pl_show_text_at(c, "repo"), pl_show_text_at(c, "branch"), pl_show_text_at(c, "id"),
                    pl_show_text_at(c, "blocked"));
    }
    return r;
}

/* Reports whether CPU and memory limits of workers are enforced. Only for a daemon whose workers run on its
 * own machine. */
static int check_limits(struct pl_doctor *d, const json_t *status, struct pl_err *err)
{
    const json_t *limits = pl_show_at(status, "live.limits");
    const char *held = pl_show_text_at(limits, "held"), *missing = pl_show_text_at(limits, "not_held");

    if (!limits)
        return 0;
    if (!*missing)
        return SAY(d, err, OK, "limits", NULL, "%s of each worker are limited by cgroups in %s", held,
                   pl_show_text_at(limits, "folder"));
    return SAY(d, err, WARN, "limits", pl_show_text_at(limits, "remedy"), "%s of workers %s not limited: %s", missing,
               strchr(missing, ' ') ? "are" : "is", pl_show_text_at(limits, "why"));
}

static int check_gpus(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *gpus = NULL;
    struct pl_err why = {0};
    json_int_t there = 0;
    const json_t *node;
    size_t i;

    if (pl_cli_call(d->cli, "GET", "/api/v1/gpus", NULL, &gpus, &why) < 0)
        return SAY(d, err, WARN, "gpus", NULL, "%s", why.msg);
    json_array_foreach(json_object_get(gpus, "nodes"), i, node) there += pl_show_int_at(node, "capacity");
    if (there == 0)
        return SAY(d, err, OK, "gpus", NULL, "none available; stages with \"gpu\": {\"required\": false} run on CPUs");
    return SAY(d, err, OK, "gpus", NULL, "%lld available; pipelinectl gpus shows who uses them", (long long)there);
}

/* Reports S3 keys whose secrets were lost when the daemon's folder was recovered from its store. */
static int check_keys(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf lost = {0};
    _cleanup_(json_decrefp) json_t *page = NULL;
    struct pl_err why = {0};
    const json_t *key;
    size_t i;
    int r = 0;

    if (pl_cli_call(d->cli, "GET", "/api/v1/s3-keys?limit=10000", NULL, &page, &why) < 0)
        return SAY(d, err, WARN, "s3 keys", NULL, "%s", why.msg);
    json_array_foreach(json_object_get(page, "s3_keys"), i, key)
    {
        if (r == 0 && pl_streq(pl_show_text_at(key, "state"), "lost"))
            r = pl_buf_addf(&lost, err, "%s%s of %s", lost.len ? ", " : "", pl_show_text_at(key, "access_key"),
                            pl_show_text_at(key, "user"));
    }
    if (r < 0 || lost.len == 0)
        return r;
    return SAY(d, err, WARN, "s3 keys", "their users must create new ones: pipelinectl create s3-key",
               "the daemon's folder was recovered, and the secrets of these keys are lost: %s", pl_buf_str(&lost));
}

int pl_doctor_machine(struct pl_doctor *d, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *status = NULL;
    struct pl_err why = {0};
    int r = check_programs(d, err);

    r = r < 0 ? r : check_sandbox(d, err);
    r = r < 0 ? r : check_images(d, err);
    r = r < 0 ? r : check_folder(d, err);
    if (r < 0)
        return r;
    if (pl_cli_call(d->cli, "GET", "/api/v1/status", NULL, &status, &why) < 0)
        return SAY(d, err, FAIL, "daemon", *why.hint ? why.hint : "start one: pipelined", "%s", why.msg);
    r = check_version(d, status, err);
    r = r < 0 ? r : check_disks(d, status, err);
    r = r < 0 ? r : check_store(d, status, err);
    r = r < 0 ? r : check_stalled(d, status, err);
    if (r == 0 && json_is_true(pl_show_at(status, "clock.doubted")))
        r = SAY(d, err, FAIL, "clock", "set the machine's clock; if it is right, confirm it: pipelinectl keep --trust-clock",
                "the daemon's clock is far ahead of the log: nothing is dropped because of its age");
    r = r < 0 ? r : check_limits(d, status, err);
    r = r < 0 ? r : check_gpus(d, err);
    return r < 0 ? r : check_keys(d, err);
}
