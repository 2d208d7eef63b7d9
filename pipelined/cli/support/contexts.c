/* Reads and writes contexts.json, the file of saved server addresses and tokens. */
#include "pipelined/cli/support/contexts.h"

#include "storage/system/io.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define FILE_MAX       (1u << 20)
#define NAME_MAX_BYTES 120u

/* Writes the path of contexts.json if `file` is true, else the path of its folder. */
static int path_of(bool file, char out[PATH_MAX], struct pl_err *err)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME"), *tail = file ? "/contexts.json" : "";
    int n;

    if (config && *config == '/')
        n = snprintf(out, PATH_MAX, "%s/pipelined%s", config, tail);
    else if (home && *home == '/')
        n = snprintf(out, PATH_MAX, "%s/.config/pipelined%s", home, tail);
    else
        return pl_err_set(err, PL_EINVAL, "cannot find the folder of contexts.json: set HOME or XDG_CONFIG_HOME");
    return n < PATH_MAX ? 0 : pl_err_set(err, PL_EINVAL, "the path of contexts.json is too long");
}

static json_t *none(void)
{
    return json_pack("{s:s, s:{}}", "current", "", "contexts");
}

static int parse(const char *path, const struct pl_buf *text, json_t **ret, struct pl_err *err)
{
    json_error_t where;
    json_t *contexts = json_loadb((const char *)text->data, text->len, 0, &where);

    if (!contexts)
        return pl_err_set(err, PL_EFORMAT, "%s:%d: %s", path, where.line, where.text);
    if (!json_is_object(json_object_get(contexts, "contexts"))) {
        json_decref(contexts);
        return pl_err_set(err, PL_EFORMAT, "%s: \"contexts\" is not an object", path);
    }
    *ret = contexts;
    return 0;
}

int pl_cli_contexts_read(json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = FILE_MAX};
    char path[PATH_MAX];
    struct stat st;
    int r;

    if (path_of(true, path, NULL) < 0 || stat(path, &st) < 0) {
        *ret = none();
        return *ret ? 0 : pl_err_nomem(err);
    }
    if (st.st_mode & 077) {
        pl_err_set(err, PL_EFORBIDDEN, "%s holds tokens, but other users may read it (mode %03o)", path, st.st_mode & 0777);
        return pl_err_hint(err, PL_EFORBIDDEN, "Run chmod 600 %.200s, and replace tokens that others may have read.", path);
    }
    r = pl_io_read_file(path, &text, err);
    return r < 0 ? r : parse(path, &text, ret, err);
}

int pl_cli_contexts_write(const json_t *contexts, struct pl_err *err)
{
    _cleanup_free_ char *text = json_dumps(contexts, JSON_INDENT(2) | JSON_SORT_KEYS);
    char folder[PATH_MAX], path[PATH_MAX];
    int r = text ? path_of(false, folder, err) : pl_err_nomem(err);

    r = r < 0 ? r : path_of(true, path, err);
    r = r < 0 ? r : pl_io_mkdirs(folder, 0700, err);
    return r < 0 ? r : pl_io_write_file(path, text, strlen(text), 0600, err);
}

/* True if two URLs are equal apart from a slash at the end. */
static bool same_url(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);

    n -= n > 0 && a[n - 1] == '/';
    m -= m > 0 && b[m - 1] == '/';
    return n == m && memcmp(a, b, n) == 0;
}

int pl_cli_context_find(const char *url, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *all = NULL;
    json_t *contexts, *one;
    const char *name, *current;
    int r = pl_cli_contexts_read(&all, err);

    if (r < 0)
        return r;
    *ret = NULL;
    contexts = json_object_get(all, "contexts");
    current = json_string_value(json_object_get(all, "current"));
    if (!url)
        *ret = json_incref(json_object_get(contexts, current ? current : ""));
    json_object_foreach(contexts, name, one)
    {
        const char *its = json_string_value(json_object_get(one, "url"));

        if (url && !*ret && its && same_url(its, url))
            *ret = json_incref(one);
    }
    return 0;
}

int pl_cli_context_name_check(const char *name, struct pl_err *err)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("_-.:", name[i]))
            return pl_err_set(err, PL_ENAME, "\"%.120s\": a context's name has letters, digits, '_', '-', '.' and ':'", name);
    return n > 0 && n <= NAME_MAX_BYTES ? 0 : pl_err_set(err, PL_ENAME, "a context's name has 1 to %u bytes", NAME_MAX_BYTES);
}
