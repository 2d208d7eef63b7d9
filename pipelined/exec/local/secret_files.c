/* secret_files.c: a new secret is written to a folder ".new.NAME" and renamed into place; each key of an
 * existing secret is replaced atomically by pl_io_write_file. */
#include "pipelined/exec/local/secret_files.h"

#include "storage/base/hash.h"
#include "storage/system/io.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>

#define PATH_BYTES 5000

static int no_secret(const struct pl_secret_op *op, struct pl_err *err)
{
    pl_err_set(err, PL_ENOTFOUND, "secret \"%s\" does not exist in project \"%s\"", op->name, op->project);
    return pl_err_hint(err, PL_ENOTFOUND, "pipelinectl list secret --project %s", op->project);
}

static void path_of(const char *folder, const struct pl_secret_op *op, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%s/%s%s%s", folder, op->project, op->name ? "/" : "", op->name ? op->name : "");
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns true for the name of a temporary file that pl_io_write_file makes: "KEY.<hex>.tmp". */
static bool is_unfinished(const char *name)
{
    size_t n = strlen(name), hex = 0;

    if (n < 5 || !pl_streq(name + n - 4, ".tmp"))
        return false;
    while (hex < n - 4 && isxdigit((unsigned char)name[n - 5 - hex]))
        hex++;
    return hex >= 8 && hex < n - 4 && name[n - 5 - hex] == '.';
}

/* Returns the names of the secrets (`folders` set) or of the keys in a folder, sorted, without temporary
 * files. The caller frees them with names_free. If the folder does not exist, returns no names. */
static int names_in(const char *path, bool folders, char ***ret, size_t *ret_n, struct pl_err *err)
{
    DIR *dir = opendir(path);
    const struct dirent *e;
    char **names = NULL;
    size_t n = 0;

    if (!dir && errno != ENOENT)
        return pl_err_errno(err, errno, "%s", path);
    while (dir && (e = readdir(dir))) {
        char **grown;

        if ((folders ? pl_secret_name_check : pl_secret_key_check)(e->d_name, NULL) < 0 || is_unfinished(e->d_name))
            continue;
        grown = realloc(names, (n + 1) * sizeof *names);
        names = grown ? grown : names;
        if (!grown || !(names[n] = strdup(e->d_name)))
            break;
        n++;
    }
    if (dir)
        closedir(dir);
    if (n)
        qsort(names, n, sizeof *names, compare);
    *ret = names;
    *ret_n = n;
    return 0;
}

static void names_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

static int add_one(const char *path, const char *name, json_t *list, struct pl_err *err)
{
    char own[PATH_BYTES + 256];
    json_t *keys = json_array();
    struct stat st = {0};
    char **names = NULL;
    size_t n = 0;
    int r;

    snprintf(own, sizeof own, "%s/%s", path, name);
    r = names_in(own, false, &names, &n, err);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(keys, json_string(names[i]));
    names_free(names, n);
    (void)stat(own, &st);
    json_array_append_new(list, json_pack("{s:s, s:o, s:I}", "name", name, "keys", keys, "updated_us",
                                          (json_int_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000));
    return r;
}

static int list_all(const char *path, json_t **ret, struct pl_err *err)
{
    char **names = NULL;
    size_t n = 0;
    json_t *list = json_array();
    int r = names_in(path, true, &names, &n, err);

    for (size_t i = 0; i < n && r == 0; i++)
        r = add_one(path, names[i], list, err);
    names_free(names, n);
    if (r < 0) {
        json_decref(list);
        return r;
    }
    *ret = list;
    return list ? 0 : pl_err_nomem(err);
}

/* Decodes each value and writes it to the file of its key; the decoded bytes are overwritten in memory
 * afterwards. */
static int write_values(const char *path, const json_t *values, struct pl_err *err)
{
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)values, key, value)
    {
        _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
        char file[PATH_BYTES + 256];

        snprintf(file, sizeof file, "%s/%s", path, key);
        r = pl_base64_decode(json_string_value(value), &bytes, err);
        r = r < 0 ? r : pl_io_write_file(file, bytes.data ? (const void *)bytes.data : "", bytes.len, 0600, err);
        if (bytes.data)
            explicit_bzero(bytes.data, bytes.len);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Writes the secret to a temporary folder that no secret's name can have, then renames it. */
static int create(const char *folder, const struct pl_secret_op *op, struct pl_err *err)
{
    char path[PATH_BYTES], own[PATH_BYTES], beside[PATH_BYTES + 16];
    char **names = NULL;
    size_t n = 0;
    int r;

    snprintf(own, sizeof own, "%s/%s", folder, op->project);
    path_of(folder, op, path);
    snprintf(beside, sizeof beside, "%s/.new.%s", own, op->name);
    r = pl_io_mkdirs(own, 0700, err);
    r = r < 0 ? r : names_in(own, true, &names, &n, err);
    names_free(names, n);
    if (r == 0 && n >= PL_SECRETS_MAX)
        r = pl_err_set(err, PL_ELIMIT, "project %s has %zu secrets, the maximum", op->project, n);
    if (r == 0 && access(path, F_OK) == 0)
        r = PL_EEXISTS;
    r = r < 0 ? r : pl_io_remove_tree(beside, err);
    r = r < 0 ? r : pl_io_mkdirs(beside, 0700, err);
    r = r < 0 ? r : write_values(beside, op->values, err);
    r = r < 0 ? r : pl_io_rename_noreplace(beside, path, err);
    if (r == PL_EEXISTS) {
        pl_err_set(err, r, "secret \"%s\" already exists in project \"%s\"", op->name, op->project);
        r = pl_err_hint(err, r, "pipelinectl update secret %s --project %s changes its keys.", op->name, op->project);
    }
    return r < 0 ? r : pl_io_fsync_dir(own, err);
}

static int update(const char *path, const struct pl_secret_op *op, struct pl_err *err)
{
    json_t *all = json_object();
    char **names = NULL;
    size_t n = 0, total;
    int r = access(path, F_OK) < 0 ? no_secret(op, err) : names_in(path, false, &names, &n, err);

    for (size_t i = 0; i < n; i++)
        json_object_set_new(all, names[i], json_null());
    (void)json_object_update(all, (json_t *)op->values);
    total = json_object_size(all);
    json_decref(all);
    names_free(names, n);
    if (r == 0 && total > PL_SECRET_KEYS_MAX)
        r = pl_err_set(err, PL_ELIMIT, "secret %s would have %zu keys: at most %u are allowed", op->name, total,
                       PL_SECRET_KEYS_MAX);
    return r < 0 ? r : write_values(path, op->values, err);
}

/* Returns {key: base64}; the bytes that were read are overwritten in memory. */
static int read_values(const char *path, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *values = json_object();
    char **names = NULL;
    size_t n = 0;
    int r = access(path, F_OK) < 0 ? no_secret(op, err) : names_in(path, false, &names, &n, err);

    for (size_t i = 0; i < n && r == 0; i++) {
        _cleanup_(pl_buf_finish) struct pl_buf bytes = {.max = PL_SECRET_BYTES_MAX};
        char file[PATH_BYTES + 256], *text = NULL;

        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        r = pl_io_read_file(file, &bytes, err);
        r = r < 0 ? r : pl_base64_encode(bytes.data ? (const void *)bytes.data : "", bytes.len, &text, err);
        if (r == 0 && json_object_set_new(values, names[i], json_string(text)) < 0)
            r = pl_err_nomem(err);
        if (bytes.data)
            explicit_bzero(bytes.data, bytes.len);
        if (text)
            explicit_bzero(text, strlen(text));
        free(text);
    }
    names_free(names, n);
    if (r < 0)
        pl_secret_values_erase(values);
    else
        *ret = TAKE_PTR(values);
    return r;
}

/* Fails if an earlier project of the same name left secrets, so that a new project does not inherit them
 * unnoticed. */
static int none(const char *path, const struct pl_secret_op *op, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf shown = {0};
    char **names = NULL;
    const char *text;
    size_t n = 0;
    int r = names_in(path, true, &names, &n, err);

    for (size_t i = 0; i < n; i++)
        pl_secret_names_add(&shown, i, names[i]);
    names_free(names, n);
    if (r < 0 || n == 0)
        return r;
    text = pl_buf_str(&shown);
    pl_err_set(err, PL_EINUSE, "secrets of an earlier project \"%s\" are still there, in %s: %s", op->project, path,
               text ? text : "");
    return pl_err_hint(err, PL_EINUSE, "rm -r %s; or take them over: pipelinectl create project %s --with-secrets", path,
                       op->project);
}

int pl_secret_files(const char *folder, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    char path[PATH_BYTES];

    path_of(folder, op, path);
    switch (op->what) {
    case PL_SECRET_LIST:
        snprintf(path, sizeof path, "%s/%s", folder, op->project);
        return list_all(path, ret, err);
    case PL_SECRET_NONE:
        return none(path, op, err);
    case PL_SECRET_CREATE:
        return create(folder, op, err);
    case PL_SECRET_UPDATE:
        return update(path, op, err);
    case PL_SECRET_READ:
        return read_values(path, op, ret, err);
    default:
        return op->name && access(path, F_OK) < 0 ? no_secret(op, err) : pl_io_remove_tree(path, err);
    }
}

int pl_secret_files_have(const char *folder, const char *project, const struct pl_stage *stage, struct pl_err *err)
{
    for (size_t i = 0; i < stage->n_secrets; i++) {
        const struct pl_secret_use *use = &stage->secrets[i];
        char path[PATH_BYTES];

        snprintf(path, sizeof path, "%s/%s/%s%s%s", folder, project, use->name, use->key ? "/" : "", use->key ? use->key : "");
        if (access(path, R_OK) == 0)
            continue;
        return pl_err_set(err, PL_ENOTFOUND,
                          "project %s has no secret \"%s\"%s%s%s: pipelinectl create secret %s --project %s --file %s=FILE",
                          project, use->name, use->key ? " with the key \"" : "", use->key ? use->key : "", use->key ? "\"" : "",
                          use->name, project, use->key ? use->key : "KEY");
    }
    return 0;
}
