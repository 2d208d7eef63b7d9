/* Follows links as the kernel would, and compares each step with the folders that agent/sandbox shows. */
#include "pipelined/sandbox_view/sandbox_view.h"

#include "pipelined/sandbox_view/python_env.h"
#include "storage/base/buf.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const pl_sandbox_package_variables[] = {
    "PIP_INDEX_URL",       "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_CERT",    "PIP_PROXY",
    "PIP_DEFAULT_TIMEOUT", "UV_INDEX_URL",        "UV_DEFAULT_INDEX", "UV_INDEX",    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",  "CURL_CA_BUNDLE",      "HTTP_PROXY",       "HTTPS_PROXY", "NO_PROXY",
    "http_proxy",          "https_proxy",         "no_proxy",         NULL};
_Static_assert(PL_ARRAY_SIZE(pl_sandbox_package_variables) == PL_SANDBOX_PACKAGE_VARIABLES + 1, "one number, two places");

#define LINKS_MAX 40 /* as the kernel's limit of links in one path */

/* Folders that every sandbox shows (agent/sandbox). Of /etc it shows only a part, which has all links to programs. */
static const char *const system_folders[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"};

/* Programs of our own that commands find in /pl/bin. */
static const char *const own_programs[] = {"pl-next", "pachctl"};

/* True if `path` is the folder or below it. */
static bool below(const char *path, const char *folder, size_t len)
{
    while (len > 1 && folder[len - 1] == '/')
        len--;
    return strncmp(path, folder, len) == 0 && (len == 1 || path[len] == '/' || !path[len]);
}

/* True if the folder is, or is below, a link, and what it leads to has the path. */
static bool leads_to(const char *folder, size_t len, const char *path)
{
    char at[PATH_MAX], real[PATH_MAX];

    if (len >= sizeof at)
        return false;
    snprintf(at, sizeof at, "%.*s", (int)len, folder);
    return realpath(at, real) && below(path, real, strlen(real));
}

/* True if a folder of view->read_only shows the path; `by_link`: through a link. */
static bool is_added(const struct pl_sandbox_view *view, const char *path, bool by_link)
{
    for (const char *p = view->read_only ? view->read_only : ""; *p;) {
        size_t n = strcspn(p, ":");

        if (n && (by_link ? leads_to(p, n, path) : below(path, p, n)))
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

bool pl_sandbox_view_shows(const struct pl_sandbox_view *view, const char *path)
{
    if (view->all)
        return true;
    for (size_t i = 0; i < PL_ARRAY_SIZE(system_folders); i++)
        if (below(path, system_folders[i], strlen(system_folders[i])))
            return true;
    return is_added(view, path, false);
}

static bool has(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

/* True for a Python environment or installation, but never for a home folder, though it may have a folder bin. */
static bool is_prefix(const char *folder)
{
    const bool home = pl_streq(folder, "/root") || (strncmp(folder, "/home/", 6) == 0 && !strchr(folder + 6, '/'));

    return !home && (has(folder, "pyvenv.cfg") || has(folder, "conda-meta") || has(folder, "bin/python3"));
}

/* Finds the folder to show so that the program at `path` works: the environment that it belongs to, else the folder
 * that it is in. */
static void folder_to_show(const char *path, char out[PATH_MAX])
{
    char up[PATH_MAX], *slash;
    struct stat st;

    snprintf(out, PATH_MAX, "%s", path);
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        slash = strrchr(out, '/');
        if (slash && slash > out)
            *slash = 0;
    }
    snprintf(up, sizeof up, "%s", out);
    slash = strrchr(up, '/');
    if (!slash || slash == up || !pl_streq(slash, "/bin"))
        return;
    *slash = 0;
    if (is_prefix(up))
        snprintf(out, PATH_MAX, "%s", up);
}

static int hidden(const char *path, struct pl_err *err)
{
    char folder[PATH_MAX];

    folder_to_show(path, folder);
    return pl_err_set(
        err, PL_EINVAL,
        "%.700s exists on this machine, but the sandbox does not show it: add \"%.700s\" to sandbox_read_only, or use "
        "\"setup\"",
        path, folder);
}

/* Replaces the path of a link by what it leads to. Returns false if it is no link. */
static bool follow(char path[PATH_MAX])
{
    char target[PATH_MAX], whole[2 * PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);

    if (n <= 0)
        return false;
    target[n] = 0;
    if (*target == '/')
        return snprintf(path, PATH_MAX, "%s", target) < PATH_MAX;
    snprintf(whole, sizeof whole, "%.*s%s", (int)(strrchr(path, '/') + 1 - path), path, target);
    return snprintf(path, PATH_MAX, "%s", whole) < PATH_MAX;
}

/* True if the path is a program: a file that may be executed. */
static bool is_program(const struct pl_sandbox_view *view, const char *path)
{
    _cleanup_close_ int fd = view->image ? pl_image_open(view->image, path, O_PATH) : -1;
    struct stat st;

    if (view->image)
        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
    return access(path, X_OK) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int pl_sandbox_view_check(const struct pl_sandbox_view *view, const char *path, struct pl_err *err)
{
    char at[PATH_MAX], real[PATH_MAX];

    if (view->image) {
        _cleanup_close_ int fd = pl_image_open(view->image, path, O_PATH);

        if (fd >= 0)
            return 0;
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
            return pl_err_errno(err, errno, "image %.200s: %.700s", view->image->name, path);
        return pl_err_set(err, PL_ENOTFOUND, "%.700s does not exist in image %.200s", path, view->image->name);
    }
    if (strlen(path) >= sizeof at || !realpath(path, real)) {
        const bool gone = strlen(path) >= sizeof at || errno == ENOENT || errno == ENOTDIR;

        return gone ? pl_err_set(err, PL_ENOTFOUND, "%.900s does not exist on this machine", path)
                    : pl_err_errno(err, errno, "cannot look at %.900s", path);
    }
    snprintf(at, sizeof at, "%s", path);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (!pl_sandbox_view_shows(view, at))
            return hidden(at, err);
        if (!follow(at))
            break;
    }
    return pl_sandbox_view_shows(view, real) || is_added(view, real, true) ? 0 : hidden(real, err);
}

char *pl_sandbox_view_path(const struct pl_sandbox_view *view, const char *python_bin)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    const char *own = view->path ? view->path : PL_SANDBOX_USUAL_PATH;
    char folder[PATH_MAX];
    int r = python_bin ? pl_buf_addf(&b, NULL, "%s:", python_bin) : 0;

    if (view->image)
        own = view->image->path ? view->image->path : PL_SANDBOX_USUAL_PATH;
    if (view->all || view->image)
        return r < 0 || pl_buf_add_str(&b, own, NULL) < 0 ? NULL : pl_buf_take_str(&b);
    for (size_t n; r == 0 && *own; own += n + (own[n] == ':')) {
        n = strcspn(own, ":");
        if (!n || n >= sizeof folder)
            continue;
        snprintf(folder, sizeof folder, "%.*s", (int)n, own);
        if (is_added(view, folder, false))
            r = pl_buf_addf(&b, NULL, "%s:", folder);
    }
    if (r < 0 || pl_buf_add_str(&b, PL_SANDBOX_USUAL_PATH, NULL) < 0)
        return NULL;
    return pl_buf_take_str(&b);
}

/* Looks a program up by name in the absolute folders of `path`, as execvp does in the sandbox, which goes on where it finds
 * nothing. PL_ENOTFOUND, without a message: no folder has it; PL_EINVAL: the first that has it is hidden, and no other is
 * shown. */
static int look_up(const struct pl_sandbox_view *view, const char *path, const char *name, struct pl_err *err)
{
    struct pl_err ignored = {0};
    int r = PL_ENOTFOUND;

    for (size_t n; *path; path += n + (path[n] == ':')) {
        char at[PATH_MAX];
        int one;

        n = strcspn(path, ":");
        if (*path != '/' || snprintf(at, sizeof at, "%.*s/%s", (int)n, path, name) >= PATH_MAX || !is_program(view, at))
            continue;
        one = pl_sandbox_view_check(view, at, r == PL_ENOTFOUND ? err : &ignored);
        if (one == 0)
            return 0;
        r = PL_EINVAL;
    }
    return r;
}

/* Where a stage's programs are looked up. */
struct lookup {
    const struct pl_sandbox_view *view;
    const char *path;
    bool own_path; /* `path` is the stage's own, which may name folders that only the sandbox has, such as /code/bin */
    bool environment;
};

/* Checks the program `name` of `len` bytes, which is looked up in PATH if it has no slash. */
static int check_program(const struct lookup *l, const char *name, size_t len, struct pl_err *err)
{
    const struct pl_sandbox_view *view = l->view;
    char text[PATH_MAX];
    int r;

    if (snprintf(text, sizeof text, "%.*s", (int)len, name) >= PATH_MAX || len == 0)
        return 0; /* starting it fails with the kernel's own words */
    if (strstr(text, "${"))
        return 0; /* a parameter: each datum may name another program */
    if (*text == '/')
        return below(text, "/pl", 3) || below(text, "/code", 5) || below(text, "/pfs", 4)
                   ? 0
                   : pl_sandbox_view_check(view, text, err);
    if (strchr(text, '/'))
        return 0;
    for (size_t i = 0; i < PL_ARRAY_SIZE(own_programs); i++)
        if (pl_streq(text, own_programs[i]))
            return 0;
    if (l->environment)
        return 0;
    r = look_up(view, l->path, text, err);
    if (r != PL_ENOTFOUND || l->own_path)
        return r == PL_ENOTFOUND ? 0 : r;
    r = view->path && !view->image ? look_up(view, view->path, text, err) : r;
    if (r != PL_ENOTFOUND)
        return r;
    if (view->image)
        return pl_err_set(err, r, "there is no program \"%.200s\" in image %.200s in PATH (%.500s)", text, view->image->name,
                          l->path);
    return pl_err_set(err, r, "there is no program \"%.200s\" on this machine in PATH (%.600s)", text, l->path);
}

/* Checks the interpreter of a script: the word after "#!", and the program that /usr/bin/env would start. */
static int check_script(const struct lookup *l, const char *script, struct pl_err *err)
{
    size_t len = strcspn(script, "\n"), n;
    const char *p = script + 2, *end = script + len;
    int r;

    if (strncmp(script, "#!", 2) != 0) /* on this machine /bin/sh is always there */
        return l->view->image ? pl_sandbox_view_check(l->view, "/bin/sh", err) : 0;
    if (len >= PL_SANDBOX_SHEBANG_MAX)
        return 0;
    p += strspn(p, " \t");
    n = strcspn(p, " \t\r\n");
    r = check_program(l, p, n, err);
    if (r < 0 || n < 4 || strncmp(p + n - 4, "/env", 4) != 0)
        return r;
    p += n;
    p += strspn(p, " \t");
    if (strncmp(p, "-S", 2) == 0)
        p += 2 + strspn(p + 2, " \t");
    n = strcspn(p, " \t\r\n");
    return p >= end || n == 0 || *p == '-' || memchr(p, '=', n) ? 0 : check_program(l, p, n, err);
}

static int check_python(const struct pl_sandbox_view *view, const struct pl_python_env *python, struct pl_err *err)
{
    char home[PATH_MAX];
    int r = pl_sandbox_view_check(view, python->program, err);

    /* a copied interpreter finds its library through `home`; nothing is read from a folder that the command may not see */
    r = r < 0 ? r : pl_python_env_home(python, home, err);
    return r < 0 || !*home ? r : pl_sandbox_view_check(view, home, err);
}

int pl_sandbox_view_stage(const struct pl_sandbox_view *view, const struct pl_sandbox_stage *stage, struct pl_err *err)
{
    _cleanup_free_ char *made = NULL;
    struct pl_python_env python = {0};
    struct lookup l = {.view = view, .own_path = stage->path != NULL, .environment = stage->environment};
    const bool own_python = stage->python && !view->image; /* an image has its own */
    int r = own_python ? pl_python_env_find(stage->python, &python, err) : 0;

    r = r < 0 || !own_python ? r : check_python(view, &python, err);
    if (r < 0)
        return pl_err_field(err, r == PL_ENOTFOUND ? PL_EINVAL : r, "python");
    if (!stage->path)
        made = pl_sandbox_view_path(view, own_python ? python.bin : NULL);
    else if (asprintf(&made, "%s%s%s", python.bin, own_python ? ":" : "", stage->path) < 0)
        made = NULL;
    if (!made)
        return pl_err_nomem(err);
    if (strstr(made, "${"))
        return 0; /* a parameter: it differs by datum */
    l.path = made;
    if (stage->script) {
        r = check_script(&l, stage->script, err);
        return r < 0 ? pl_err_field(err, r, "script") : 0;
    }
    r = stage->run && stage->run[0] ? check_program(&l, stage->run[0], strlen(stage->run[0]), err) : 0;
    return r < 0 ? pl_err_field(err, r, "run") : 0;
}
