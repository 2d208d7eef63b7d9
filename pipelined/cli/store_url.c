#include "store_url.h"

#include "storage/base/io.h"
#include "storage/object/marker.h"

#include <limits.h>
#include <stdio.h>

static int folder_of(const char *url, const char **ret, struct pl_err *err)
{
    const char *path = strncmp(url, "file://", 7) == 0 ? url + 7 : url;

    if (strstr(path, "://"))
        return pl_err_set(err, PL_EUNAVAILABLE, "\"%s\" is no store that this program knows: file:///DIR", url);
    if (!*path)
        return pl_err_set(err, PL_EINVAL, "\"%s\" names no folder: file:///DIR", url);
    *ret = path;
    return 0;
}

static int open_folder(const char *path, struct pl_object_store **ret, char **ret_name, struct pl_err *err)
{
    char whole[PATH_MAX];
    char *name;
    int r;

    if (!realpath(path, whole))
        return pl_err_errno(err, errno, "store %s", path);
    if (asprintf(&name, "file://%s", whole) < 0)
        return pl_err_nomem(err);
    r = pl_object_file_open(whole, ret, err);
    if (r < 0)
        free(name);
    else
        *ret_name = name;
    return r;
}

int pl_cli_store_open(const char *url, struct pl_object_store **ret, char **ret_name, struct pl_err *err)
{
    struct pl_store_marker marker;
    const char *path;
    char file[PATH_MAX];
    int r = folder_of(url, &path, err);

    if (r < 0)
        return r;
    if (snprintf(file, sizeof file, "%s/" PL_STORE_MARKER_KEY, path) >= (int)sizeof file || access(file, R_OK) < 0)
        return pl_err_errno(err, errno, "%s is no store: %s/" PL_STORE_MARKER_KEY, url, path);
    r = open_folder(path, ret, ret_name, err);
    if (r < 0)
        return r;
    r = pl_object_store_read(*ret, &marker, err);
    if (r < 0) {
        *ret = pl_object_close(*ret);
        free(*ret_name);
        *ret_name = NULL;
    }
    return r;
}

int pl_cli_store_make(const char *url, struct pl_object_store **ret, char **ret_name, struct pl_err *err)
{
    const char *path;
    int r = folder_of(url, &path, err);

    r = r < 0 ? r : pl_io_mkdirs(path, 0777, err);
    return r < 0 ? r : open_folder(path, ret, ret_name, err);
}
