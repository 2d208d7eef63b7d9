/* image: asks podman with four commands: image inspect, pull, image mount and, without root, unshare. */
#include "pipelined/sandbox_view/image.h"

#include "pipelined/text/json_text.h"
#include "storage/base/buf.h"
#include "storage/base/hash.h"
#include "storage/system/program_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LOOK_MS    60000 /* for a command of podman that fetches nothing */
#define OUTPUT_MAX (4u << 20)
#define OPEN_TRIES 1000

/* What podman or a registry says of an image that will not come, however often it is asked for. */
static const char *const hopeless[] = {"manifest unknown", "not found",           "name unknown",      "unauthorized",
                                       "denied",           "invalid reference",   "must be lowercase", "no image found",
                                       "does not exist",   "status 404",          "status 403",        "status 401",
                                       "unknown blob",     "unsupported manifest"};

/* Names of architectures: of images, and as uname(2) has them. */
static const struct {
    const char *image, *machine;
} arches[] = {{"amd64", "x86_64"},    {"arm64", "aarch64"}, {"arm", "armv7l"},     {"386", "i686"},
              {"ppc64le", "ppc64le"}, {"s390x", "s390x"},   {"riscv64", "riscv64"}};

bool pl_image_has_podman(const char *podman)
{
    const char *path = getenv("PATH");
    char at[4096];

    if (strchr(podman, '/'))
        return access(podman, X_OK) == 0;
    for (size_t n; *podman && path && *path; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        if (snprintf(at, sizeof at, "%.*s/%s", (int)n, path, podman) < (int)sizeof at && access(at, X_OK) == 0)
            return true;
    }
    return false;
}

json_t *pl_image_request(const char *podman, const char *locks, const struct pl_stage *stage)
{
    const size_t len = stage->script ? strcspn(stage->script, "\n") : 0;
    /* a longer line names no interpreter (sandbox_view.c) */
    _cleanup_free_ char *line = stage->script ? strndup(stage->script, len < PL_SANDBOX_SHEBANG_MAX ? len : 0) : NULL;
    json_t *out = json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "podman", podman, "name", stage->image, "locks", locks, "run",
                            stage->n_run ? stage->run[0] : NULL, "script", line);

    for (size_t i = 0; i < stage->n_env; i++)
        if (pl_streq(stage->env[i].key, "PATH"))
            json_object_set_new(out, "path", json_string(stage->env[i].value));
    if (pl_stage_environment(stage))
        json_object_set_new(out, "environment", json_true());
    return out;
}

/* Returns the last line of what podman said, without "Error: ". */
static const char *last_line(char *said)
{
    char *line;

    for (size_t n = strlen(said); n && said[n - 1] == '\n';)
        said[--n] = '\0';
    line = strrchr(said, '\n');
    line = line ? line + 1 : said;
    return strncmp(line, "Error: ", 7) == 0 ? line + 7 : line;
}

/* Runs podman. PL_EUNAVAILABLE with its last line if it fails. */
static int run(const char *const *argv, int64_t ms, struct pl_buf *out, struct pl_err *err)
{
    char said[16384];
    int r;

    pl_buf_clear(out);
    out->max = OUTPUT_MAX;
    r = pl_program_read(argv, ms, out, said, sizeof said, err);
    if (r <= 0)
        return r;
    return pl_err_set(err, PL_EUNAVAILABLE, "%.900s", *last_line(said) ? last_line(said) : "podman fails and does not say why");
}

/* Returns the name under which a registry has the image: as in Kubernetes, a name without a registry is one of
 * Docker's. */
static void full_name(const char *name, char *out, size_t size)
{
    const char *slash = strchr(name, '/');
    const size_t first = slash ? (size_t)(slash - name) : 0;
    const bool registry = slash && (memchr(name, '.', first) || memchr(name, ':', first) || strncmp(name, "localhost/", 10) == 0);

    snprintf(out, size, "%s%s%s", registry ? "" : "docker.io/", registry || slash ? "" : "library/", name);
}

/* The code of an error that podman reports in these words. */
static int code_of(const char *words)
{
    if (strcasestr(words, "permission denied") || strcasestr(words, "executable file not found"))
        return PL_EUNAVAILABLE; /* of this machine */
    for (size_t i = 0; i < PL_ARRAY_SIZE(hopeless); i++)
        if (strcasestr(words, hopeless[i]))
            return PL_ESTAGE;
    return PL_EUNAVAILABLE;
}

int pl_image_check_name(const char *name, struct pl_err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
    const size_t n = strlen(name), host = strcspn(name, "/");
    const char *colon = memchr(name, ':', host);
    bool good = n > 0 && n <= PL_IMAGE_NAME_MAX && strspn(name, allowed) == n && !strchr("._-/:@", *name) && !strstr(name, "//");

    /* before a slash a colon is followed by a port: "dir:/x" and the like are places on this machine */
    if (good && colon && name[host] == '/')
        good = strspn(colon + 1, "0123456789") == (size_t)(name + host - colon - 1) && name + host > colon + 1;
    return good ? 0
                : pl_err_set(err, PL_EINVAL,
                             "image \"%.200s\" is not the name of an image: use [REGISTRY/]NAME[:TAG][@DIGEST], at most %u bytes",
                             name, PL_IMAGE_NAME_MAX);
}

static int pull(const char *podman, const char *name, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_err why = {0};
    char full[PL_IMAGE_NAME_MAX + 32];
    const char *const argv[] = {podman, "pull", "-q", full, NULL};
    int r;

    full_name(name, full, sizeof full);
    r = run(argv, PL_IMAGE_FETCH_MS, &out, &why);
    r = r == PL_EUNAVAILABLE ? code_of(why.msg) : r;
    return r < 0 ? pl_err_set(err, r, "image %.300s cannot be fetched: %.600s", name, why.msg) : 0;
}

/* Reads the image's own description. 1: this machine does not have the image. */
static int inspect(const char *podman, const char *name, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    const char *const exists[] = {podman, "image", "exists", name, NULL};
    const char *const argv[] = {podman, "image", "inspect", name, NULL};
    char said[1024];
    json_t *list;
    int r = pl_program_run(exists, LOOK_MS, said, sizeof said, err);

    if (r > 1)
        return pl_err_set(err, code_of(said), "image %.300s: %.900s", name, last_line(said));
    if (r != 0)
        return r;
    r = run(argv, LOOK_MS, &out, err);
    if (r < 0)
        return r;
    list = json_loadb((const char *)out.data, out.len, 0, NULL);
    *ret = json_incref(json_array_get(list, 0));
    json_decref(list);
    return json_is_object(*ret)
               ? 0
               : pl_err_set(err, PL_EUNAVAILABLE, "podman image inspect %.300s: the reply is no list of objects", name);
}

static int check_arch(const char *name, const json_t *image, struct pl_err *err)
{
    const char *arch = pl_json_str(image, "Architecture"), *own = "";
    struct utsname machine;

    if (uname(&machine) < 0)
        return 0;
    for (size_t i = 0; i < PL_ARRAY_SIZE(arches); i++)
        if (pl_streq(arches[i].machine, machine.machine))
            own = arches[i].image;
    if (!*arch || !*own || pl_streq(arch, own))
        return 0;
    return pl_err_set(err, PL_ESTAGE, "image %.300s is for %.40s, and this machine is %s: name an image for %s", name, arch, own,
                      own);
}

/* Mounts the image. Without root podman does that in its namespace: finds the process that keeps it open. */
static int mount_root(const char *podman, const char *name, struct pl_buf *root, int64_t *ret_holder, struct pl_err *err)
{
    const bool alone = geteuid() != 0;
    const char *const argv[] = {podman, "unshare", podman, "image", "mount", name, NULL};
    const char *const own[] = {podman, "image", "mount", name, NULL};
    char path[PATH_MAX], text[32] = "";
    FILE *f;
    int r = run(alone ? argv : own, LOOK_MS, root, err);

    if (r == 0 && (!pl_buf_str(root) || root->len == 0 || *root->data != '/'))
        r = pl_err_set(err, PL_EUNAVAILABLE, "podman image mount %.300s: it does not say where", name);
    if (r < 0)
        return r;
    root->data[strcspn((char *)root->data, "\n")] = '\0';
    *ret_holder = 0;
    if (!alone)
        return 0;
    snprintf(path, sizeof path, "%.4000s/libpod/tmp/pause.pid", getenv("XDG_RUNTIME_DIR"));
    f = fopen(path, "re");
    if (!f || !fgets(text, sizeof text, f) || strtoll(text, NULL, 10) <= 0)
        r = pl_err_set(err, PL_EUNAVAILABLE, "podman keeps no namespace open: %.900s has no process", path);
    if (f)
        fclose(f);
    *ret_holder = strtoll(text, NULL, 10);
    return r;
}

static int describe(const char *podman, const char *name, const json_t *found, struct pl_image *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf root = {0};
    const json_t *digests = json_object_get(found, "RepoDigests"), *config = json_object_get(found, "Config");
    const char *digest = json_string_value(json_array_get(digests, 0));
    json_t *env = json_object_get(config, "Env");
    int64_t holder = 0;
    int r = check_arch(name, found, err);

    r = r < 0 ? r : mount_root(podman, name, &root, &holder, err);
    if (r < 0)
        return r;
    r = pl_image_read(json_pack("{s:s, s:s, s:s, s:o, s:I}", "name", name, "root", (const char *)root.data, "digest",
                                digest ? digest : pl_json_str(found, "Id"), "env", env ? json_incref(env) : json_array(),
                                "holder", (json_int_t)holder),
                      ret, err);
    if (r == 0 && json_dumpb(ret->doc, NULL, 0, JSON_COMPACT) > PL_IMAGE_TEXT_MAX) {
        pl_image_finish(ret);
        r = pl_err_set(err, PL_ESTAGE, "image %.300s sets variables of more than %u bytes", name, PL_IMAGE_TEXT_MAX);
    }
    return r;
}

/* Opens the lock of an image; whoever has it may fetch the image. The lock ends with the descriptor. -1: there is no
 * folder for locks. */
static int lock(const char *folder, const char *name)
{
    char path[PATH_MAX], hex[PL_HASH_HEX + 1];
    struct pl_hash h;
    int fd;

    if (!folder)
        return -1;
    pl_hash_sha256(name, strlen(name), &h);
    snprintf(path, sizeof path, "%.4000s/image-%.16s.lock", folder, pl_hash_hex(&h, hex));
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    return fd;
}

/* Without root podman keeps its namespace by a process whose number is below $XDG_RUNTIME_DIR. A service of the system
 * has no such variable. */
static int set_runtime_dir(struct pl_err *err)
{
    const char *tmp = getenv("TMPDIR");
    char path[PATH_MAX];
    struct stat st;

    if (geteuid() == 0 || getenv("XDG_RUNTIME_DIR"))
        return 0;
    snprintf(path, sizeof path, "/run/user/%u", (unsigned)geteuid());
    if (access(path, W_OK) < 0)
        snprintf(path, sizeof path, "%.4000s/podman-run-%u", tmp ? tmp : "/tmp", (unsigned)geteuid());
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return pl_err_errno(err, errno, "%s", path);
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return pl_err_set(err, PL_EUNAVAILABLE,
                          "podman needs a folder of its own, and %.900s is not this user's: set XDG_RUNTIME_DIR", path);
    return setenv("XDG_RUNTIME_DIR", path, 1) < 0 ? pl_err_nomem(err) : 0;
}

int pl_image_get(const char *podman, const char *name, const char *locks, struct pl_image *ret, struct pl_err *err)
{
    json_t *found = NULL;
    int r = pl_image_check_name(name, err) < 0 ? PL_ESTAGE : set_runtime_dir(err);

    r = r < 0 ? r : inspect(podman, name, &found, err);
    if (r == 1) {
        _cleanup_close_ int held = lock(locks, name);

        r = held < 0 ? 1 : inspect(podman, name, &found, err); /* another process may have fetched it meanwhile */
        r = r == 1 ? pull(podman, name, err) : r;
        r = r < 0 || found ? r : inspect(podman, name, &found, err);
        if (r == 1)
            r = pl_err_set(err, PL_EUNAVAILABLE, "image %.300s was fetched, but podman does not have it", name);
    }
    r = r < 0 ? r : describe(podman, name, found, ret, err);
    json_decref(found);
    return r;
}

int pl_image_read(json_t *doc, struct pl_image *ret, struct pl_err *err)
{
    struct pl_image i = {.doc = doc,
                         .name = pl_json_str(doc, "name"),
                         .root = pl_json_str(doc, "root"),
                         .digest = pl_json_str(doc, "digest"),
                         .env = json_object_get(doc, "env"),
                         .holder = (pid_t)json_integer_value(json_object_get(doc, "holder"))};
    json_t *one;
    size_t k;

    if (!doc || *i.root != '/' || !json_is_array(i.env)) {
        json_decref(doc);
        return doc ? pl_err_set(err, PL_EINVAL, "image: \"root\" must be a folder and \"env\" a list") : pl_err_nomem(err);
    }
    json_array_foreach((json_t *)(uintptr_t)i.env, k, one)
    {
        if (json_is_string(one) && strncmp(json_string_value(one), "PATH=", 5) == 0)
            i.path = json_string_value(one) + 5;
    }
    *ret = i;
    return 0;
}

void pl_image_finish(struct pl_image *i)
{
    json_decref(i->doc);
    *i = (struct pl_image){0};
}

/* The kernel gives up with EAGAIN if anything is mounted or renamed while it follows a "..". */
int pl_image_open(const struct pl_image *i, const char *path, int flags)
{
    const struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    _cleanup_close_ int root = open(i->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = -1;

    for (int tries = 0; root >= 0 && fd < 0 && (tries == 0 || (errno == EAGAIN && tries < OPEN_TRIES)); tries++)
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    return fd;
}

/* Enters the user namespace first: it gives the right to enter the other. */
int pl_image_enter(const struct pl_image *i, struct pl_err *err)
{
    static const struct {
        const char *name;
        int kind;
    } kinds[] = {{"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS}};
    _cleanup_close_ int here = -1;
    int fds[2], r = 0;

    if (i->holder == 0)
        return 0;
    here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC); /* entering a mount namespace moves to its root */
    for (size_t k = 0; k < 2; k++) {
        char path[64];

        snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)i->holder, kinds[k].name);
        fds[k] = open(path, O_RDONLY | O_CLOEXEC);
    }
    for (size_t k = 0; r == 0 && k < 2; k++)
        if (fds[k] < 0 || setns(fds[k], kinds[k].kind) < 0)
            r = pl_err_errno(err, errno, "podman's namespace (process %d)", (int)i->holder);
    for (size_t k = 0; k < 2; k++)
        pl_closep(&fds[k]);
    if (r == 0 && here >= 0 && fchdir(here) < 0)
        r = pl_err_errno(err, errno, "the working folder in podman's namespace");
    return r;
}
