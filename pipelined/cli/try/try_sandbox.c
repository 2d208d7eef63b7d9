/* Asks the daemon for `live.sandbox` of its status, or reads the setting sandbox_read_only, and sets variables. */
#include "pipelined/cli/try/try_sandbox.h"

#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "pipelined/sandbox_view/image.h"
#include "storage/http/loopback_host.h"
#include "storage/system/io.h"
#include <stdio.h>

#define FOLDERS_ENV    "PIPELINED_SANDBOX_RO"
#define CONFIG_MAX     (1u << 20)
#define HOST_NAME_SIZE 256

/* Variables of a person's shell that the command would inherit without a sandbox, and that no daemon passes on to
 * its workers. */
static const char *const personal[] = {"USER", "LOGNAME", "VIRTUAL_ENV", "NVIDIA_VISIBLE_DEVICES"};
/* Variables that decide what a command finds: as the daemon has them, set or not. */
static const char *const daemons[] = {"PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "NVIDIA_DRIVER_CAPABILITIES"};

/* Sets the folders that workers show, a JSON array of them. */
static int set_folders(const json_t *list, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    const json_t *one;
    size_t i;
    int r = 0;

    json_array_foreach(list, i, one)
    {
        r = r < 0 || !json_is_string(one) ? r : pl_buf_addf(&text, err, "%s%s", text.len ? ":" : "", json_string_value(one));
    }
    if (r < 0 || !pl_buf_str(&text))
        return r < 0 ? r : pl_err_nomem(err);
    return setenv(FOLDERS_ENV, pl_buf_str(&text), 1) < 0 ? pl_err_nomem(err) : 0;
}

/* Makes an array of the value of sandbox_read_only: an array of texts, or a text with commas. NULL: it is neither. */
static json_t *list_of(const json_t *value)
{
    _cleanup_(json_decrefp) json_t *list = json_array();
    const json_t *one;
    size_t i;

    json_array_foreach(value, i, one)
    {
        if (!json_is_string(one))
            return NULL;
        json_array_append_new(list, json_string(json_string_value(one)));
    }
    if (!json_is_array(value) && !json_is_string(value))
        return NULL;
    for (const char *p = json_is_string(value) ? json_string_value(value) : ""; *p;) {
        size_t n = strcspn(p, ",");

        if (n)
            json_array_append_new(list, json_stringn(p, n));
        p += n + (p[n] == ',');
    }
    return TAKE_PTR(list);
}

static int read_config(const char *path, char podman[PATH_MAX], struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = CONFIG_MAX};
    _cleanup_(json_decrefp) json_t *tree = NULL;
    _cleanup_(json_decrefp) json_t *list = NULL;
    const json_t *folders;
    json_error_t where;
    int r = pl_io_read_file(path, &text, err);

    if (r < 0)
        return pl_err_wrap(err, r, "--config %s", path);
    tree = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(tree))
        return pl_err_set(err, PL_EFORMAT, "--config %s:%d:%d: %s", path, where.line, where.column,
                          tree ? "not an object" : where.text);
    if (json_is_string(json_object_get(tree, "podman")))
        snprintf(podman, PATH_MAX, "%s", json_string_value(json_object_get(tree, "podman")));
    folders = json_object_get(tree, "sandbox_read_only");
    list = folders ? list_of(folders) : NULL;
    if (folders && !list)
        return pl_err_set(err, PL_EINVAL, "--config %s: sandbox_read_only must be a list of folders", path);
    return list ? set_folders(list, err) : 0;
}

/* True if the server's address means this machine. */
static bool is_here(const struct pl_cli *c)
{
    _cleanup_free_ char *url = NULL, *token = NULL;
    char host[HOST_NAME_SIZE];
    const char *from;
    size_t n;

    if (pl_cli_server_address(c, &url, &token, NULL) < 0 || !(from = strstr(url, "://")))
        return false;
    from += 3;
    n = *from == '[' ? strcspn(from, "]") + 1 : strcspn(from, ":/");
    return snprintf(host, sizeof host, "%.*s", (int)n, from) < HOST_NAME_SIZE && pl_is_loopback_host(host);
}

/* Sets the environment as the daemon's answer `told` says. */
static int set_as_told(const json_t *told, bool folders, char podman[PATH_MAX], struct pl_err *err)
{
    const json_t *env = json_object_get(told, "env");
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(daemons); i++) {
        const char *value = json_string_value(json_object_get(env, daemons[i]));

        r = (value ? setenv(daemons[i], value, 1) : unsetenv(daemons[i])) < 0 ? pl_err_nomem(err) : 0;
    }
    if (folders)
        snprintf(podman, PATH_MAX, "%s", pl_show_text_at(told, "podman"));
    return r < 0 || !folders ? r : set_folders(json_object_get(told, "read_only"), err);
}

static int ask_daemon(struct pl_cli *c, const char *mode, bool folders, char podman[PATH_MAX], struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *status = NULL;
    char host[HOST_NAME_SIZE] = "";
    const json_t *told;
    const char *daemons_mode;

    if (pl_cli_call(c, "GET", "/api/v1/status", NULL, &status, NULL) < 0)
        return 0;
    told = json_object_get(json_object_get(status, "live"), "sandbox");
    if (!told || gethostname(host, sizeof host - 1) < 0 || !pl_streq(host, pl_show_text_at(told, "host")))
        return 0;
    daemons_mode = pl_show_text_at(told, "mode");
    if (!c->quiet && !pl_streq(daemons_mode, mode))
        fprintf(stderr, "the daemon runs stages %s, this try runs %s: --sandbox %s makes it alike (warning)\n",
                pl_streq(daemons_mode, "none") ? "without a sandbox" : "in a sandbox",
                pl_streq(mode, "none") ? "without one" : "in one", pl_streq(daemons_mode, "none") ? "none" : "bwrap");
    return set_as_told(told, folders, podman, err);
}

int pl_cli_try_sandbox(struct pl_cli *c, const char *config, const char *mode, char podman[PATH_MAX], struct pl_err *err)
{
    /* a variable of this name in a person's shell would make a try unlike the job */
    int r = unsetenv(FOLDERS_ENV) < 0 ? pl_err_errno(err, errno, "%s", FOLDERS_ENV) : 0;

    strcpy(podman, PL_IMAGE_PODMAN);
    r = r == 0 && config ? read_config(config, podman, err) : r;
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(personal); i++)
        r = unsetenv(personal[i]) < 0 ? pl_err_errno(err, errno, "%s", personal[i]) : 0;
    /* another machine does not say where programs are on this one */
    return r < 0 || !is_here(c) ? r : ask_daemon(c, mode, !config, podman, err);
}
