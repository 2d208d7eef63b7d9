#include "pipelined/agent/secrets.h"

#include "pipelined/core/secret.h"
#include "storage/base/io.h"
#include "storage/base/log.h"
#include <dirent.h>
#include <stdio.h>

#define FRESH_S 2

static int missing(const struct pl_wire_attach *stage, const struct pl_wire_secret *use, struct pl_err *err)
{
    const char *key = use->key ? use->key : "KEY";

    if (use->key)
        pl_err_set(err, PL_ENOTFOUND, "project %s has no secret \"%s\" with the key \"%s\"", stage->project, use->name, key);
    else
        pl_err_set(err, PL_ENOTFOUND, "project %s has no secret \"%s\"", stage->project, use->name);
    return pl_err_hint(err, PL_ENOTFOUND, "pipelinectl create secret %s --project %s --file %s=FILE", use->name, stage->project,
                       key);
}

static int read_value(const char *folder, const char *name, const char *key, struct pl_buf *ret, struct pl_err *err)
{
    char path[4400];

    snprintf(path, sizeof(path), "%s/%s/%s", folder, name, key);
    ret->max = PL_SECRET_BYTES_MAX;
    return pl_io_read_file(path, ret, err);
}

static void forget(struct pl_buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->len);
    pl_buf_finish(b);
}

static int take_variable(struct pl_secrets *s, const char *folder, const struct pl_wire_attach *stage,
                         const struct pl_wire_secret *use, struct pl_err *err)
{
    _cleanup_(forget) struct pl_buf value = {0};
    int r = read_value(folder, use->name, use->key, &value, err);

    if (r == PL_ENOTFOUND)
        return missing(stage, use, err);
    if (r == 0 && value.len && memchr(value.data, 0, value.len))
        r = pl_err_set(err, PL_EINVAL, "secret %s: the value of %s has a NUL and can be no variable: use \"mount\"", use->name,
                       use->key);
    r = r < 0 ? r : pl_mask_add(&s->mask, (const char *)value.data, value.len, err);
    if (r < 0)
        return r;
    if (asprintf(&s->env[s->n_env], "%s=%.*s", use->env, (int)value.len, value.data ? (const char *)value.data : "") < 0)
        return pl_err_nomem(err);
    s->n_env++;
    return 0;
}

/* Each change of a file is one of its folder: it is put there by its name, or by that of the folder behind. */
static bool has_changed(struct pl_secrets *s, const struct pl_wire_secret *use, size_t i)
{
    char path[4400];
    struct stat st;
    bool same;

    snprintf(path, sizeof(path), "%s/%s", s->folder, use->name);
    if (stat(path, &st) < 0)
        return false;
    same = s->seen[i].tv_sec == st.st_mtim.tv_sec && s->seen[i].tv_nsec == st.st_mtim.tv_nsec;
    if (st.st_mtim.tv_sec + FRESH_S < time(NULL)) /* else another change may get the same time */
        s->seen[i] = st.st_mtim;
    return !same;
}

/* The files are shown as they are; what is in them is masked. */
static int look_at_folder(struct pl_secrets *s, const char *folder, const struct pl_wire_attach *stage,
                          const struct pl_wire_secret *use, struct pl_err *err)
{
    char path[4400];
    const struct dirent *e;
    DIR *dir;
    int r = 0;

    snprintf(path, sizeof(path), "%s/%s", folder, use->name);
    dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? missing(stage, use, err) : pl_err_errno(err, errno, "%s", path);
    while (r == 0 && (e = readdir(dir))) {
        _cleanup_(forget) struct pl_buf value = {0};

        if (pl_secret_key_check(e->d_name, NULL) < 0)
            continue;
        r = read_value(folder, use->name, e->d_name, &value, err);
        r = r < 0 ? r : pl_mask_add(&s->mask, (const char *)value.data, value.len, err);
    }
    closedir(dir);
    return r;
}

int pl_secrets_read(const char *folder, const struct pl_wire_attach *stage, struct pl_secrets **ret, struct pl_err *err)
{
    struct pl_secrets *s = calloc(1, sizeof(*s));
    int r = 0;

    if (s) {
        s->folder = folder;
        s->env = calloc(stage->n_secrets + 1, sizeof(*s->env));
        s->seen = calloc(stage->n_secrets + 1, sizeof(*s->seen));
    }
    if (!s || !s->env || !s->seen) {
        pl_secrets_destroy(s);
        return pl_err_nomem(err);
    }
    for (size_t i = 0; r == 0 && i < stage->n_secrets; i++) {
        (void)has_changed(s, &stage->secrets[i], i); /* from here on: what changes meanwhile is read twice */
        r = (stage->secrets[i].env ? take_variable : look_at_folder)(s, folder, stage, &stage->secrets[i], err);
    }
    pl_mask_ready(&s->mask);
    if (r < 0) {
        pl_secrets_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

void pl_secrets_look(struct pl_secrets *s, const struct pl_wire_attach *stage)
{
    for (size_t i = 0; i < stage->n_secrets; i++) {
        const struct pl_wire_secret *use = &stage->secrets[i];
        struct pl_err err = {0};

        if (!use->mount || !has_changed(s, use, i))
            continue;
        if (look_at_folder(s, s->folder, stage, use, &err) < 0)
            pl_log_warn("secrets", "%s", err.msg);
        pl_mask_ready(&s->mask);
    }
}

struct pl_secrets *pl_secrets_destroy(struct pl_secrets *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n_env; i++) {
        explicit_bzero(s->env[i], strlen(s->env[i]));
        free(s->env[i]);
    }
    free(s->env);
    free(s->seen);
    pl_mask_finish(&s->mask);
    free(s);
    return NULL;
}
