/* Opens stores by URL. For a bucket it uses the options that the user gave. */
#include "pipelined/cli/local/store_url.h"

#include "pipelined/cli/support/args.h"
#include "storage/object/store_marker.h"
#include "storage/system/io.h"

#include <limits.h>
#include <stdio.h>

/* Sets `*ret` to the absolute form of a URL: "file:///DIR" for an existing folder; the URL of a bucket is
 * copied unchanged. */
static int absolute(const char *url, char **ret, struct pl_err *err)
{
    const char *path = strncmp(url, "file://", 7) == 0 ? url + 7 : url;
    char whole[PATH_MAX];

    if (strstr(path, "://")) {
        *ret = strdup(url);
        return *ret ? 0 : pl_err_nomem(err);
    }
    if (!*path)
        return pl_err_set(err, PL_EINVAL, "\"%s\" does not name a folder: give file:///DIR", url);
    if (!realpath(path, whole))
        return pl_err_errno(err, errno, "store %s", path);
    return asprintf(ret, "file://%s", whole) < 0 ? pl_err_nomem(err) : 0;
}

static const char *option(const struct pl_cli *c, const char *prefix, const char *name)
{
    char whole[64];

    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return pl_cli_value(c, whole);
}

static bool is_given(const struct pl_cli *c, const char *prefix, const char *name)
{
    char whole[64];

    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return pl_cli_flag(c, whole);
}

/* Opens the object storage at a URL. `reads`: the caller will only read. The bucket's server is then not
 * tested for conditional writes, because only writers need them. */
static int open_at(const struct pl_cli *c, const char *name, const char *prefix, bool reads, struct pl_object_store **ret,
                   struct pl_err *err)
{
    struct pl_object_config config = {.url = name,
                                      .endpoint = option(c, prefix, "endpoint"),
                                      .region = option(c, prefix, "region"),
                                      .profile = option(c, prefix, "profile"),
                                      .ca = option(c, prefix, "ca"),
                                      .driver = option(c, prefix, "driver"),
                                      .exclusive = reads || is_given(c, prefix, "exclusive")};

    return pl_object_open(&config, ret, err);
}

int pl_cli_store_open(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err)
{
    _cleanup_(pl_object_closep) struct pl_object_store *objects = NULL;
    _cleanup_free_ char *name = NULL;
    struct pl_store_marker marker;
    char file[PATH_MAX];
    int r = absolute(url, &name, err);

    if (r < 0)
        return r;
    /* check for the marker first, because pl_object_open() would create the subfolders of a store */
    if (strncmp(name, "file://", 7) == 0 &&
        (snprintf(file, sizeof file, "%s/" PL_STORE_MARKER_KEY, name + 7) >= (int)sizeof file || access(file, R_OK) < 0))
        return pl_err_errno(err, errno, "%s is not a store: it has no object \"" PL_STORE_MARKER_KEY "\"", name);
    r = open_at(c, name, prefix, true, &objects, err);
    r = r < 0 ? r : pl_store_marker_read(objects, &marker, err);
    if (r < 0)
        return pl_err_wrap(err, r, "%s", name);
    *ret = TAKE_PTR(objects);
    *ret_name = TAKE_PTR(name);
    return 0;
}

int pl_cli_store_make(const struct pl_cli *c, const char *url, const char *prefix, struct pl_object_store **ret, char **ret_name,
                      struct pl_err *err)
{
    const char *path = strncmp(url, "file://", 7) == 0 ? url + 7 : url;
    _cleanup_free_ char *name = NULL;
    int r = strstr(path, "://") || !*path ? 0 : pl_io_mkdirs(path, 0777, err);

    r = r < 0 ? r : absolute(url, &name, err);
    r = r < 0 ? r : open_at(c, name, prefix, false, ret, err);
    if (r < 0)
        return name ? pl_err_wrap(err, r, "%s", name) : r;
    *ret_name = TAKE_PTR(name);
    return 0;
}
