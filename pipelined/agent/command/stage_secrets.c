/* Reads secret files and registers their values for masking. The modification time of a secret's folder shows
 * whether a value has changed. */
#include "pipelined/agent/command/stage_secrets.h"

#include "pipelined/policy/project_secret.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include <dirent.h>
#include <stdio.h>

/* a folder that changed less than this many seconds ago may change again without getting a new modification
 * time */
#define FRESH_S 2

static int missing(const struct pl_agent_protocol_attach *stage, const struct pl_agent_protocol_secret *use, struct pl_err *err)
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

/* Reads a secret that becomes a variable and registers its value for masking in all rounds. */
static int take_variable(struct pl_secrets *s, const char *folder, const struct pl_agent_protocol_attach *stage,
                         const struct pl_agent_protocol_secret *use, struct pl_err *err)
{
    _cleanup_(forget) struct pl_buf value = {0};
    int r = read_value(folder, use->name, use->key, &value, err);

    if (r == PL_ENOTFOUND)
        return missing(stage, use, err);
    if (r == 0 && value.len && memchr(value.data, 0, value.len))
        r = pl_err_set(err, PL_EINVAL, "secret %s: the value of %s contains a NUL byte and cannot be a variable: use \"mount\"",
                       use->name, use->key);
    r = r < 0 ? r : pl_secret_redaction_add(&s->mask, (const char *)value.data, value.len, true, err);
    if (r < 0)
        return r;
    if (asprintf(&s->env[s->n_env], "%s=%.*s", use->env, (int)value.len, value.data ? (const char *)value.data : "") < 0)
        return pl_err_nomem(err);
    s->n_env++;
    return 0;
}

/* True if the secret's folder must be read again. Every change of a value changes the modification time of
 * its folder, because files are replaced by rename, or in Kubernetes by a link to another folder. */
static bool has_changed(struct pl_secrets *s, const struct pl_agent_protocol_secret *use, size_t i, bool again)
{
    struct pl_secret_seen *seen = &s->seen[i];
    char path[4400];
    struct stat st;
    bool changed;

    snprintf(path, sizeof(path), "%s/%s", s->folder, use->name);
    if (!use->mount || stat(path, &st) < 0)
        return false;
    changed = seen->changed.tv_sec != st.st_mtim.tv_sec || seen->changed.tv_nsec != st.st_mtim.tv_nsec || (seen->fresh && again);
    if (changed)
        *seen = (struct pl_secret_seen){st.st_mtim, st.st_mtim.tv_sec + FRESH_S >= time(NULL)};
    return changed;
}

/* Registers for masking all values of a secret that the command gets as files. The files themselves are not
 * changed. */
static int look_at_folder(struct pl_secrets *s, const char *folder, const struct pl_agent_protocol_attach *stage,
                          const struct pl_agent_protocol_secret *use, struct pl_err *err)
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
        r = r < 0 ? r : pl_secret_redaction_add(&s->mask, (const char *)value.data, value.len, false, err);
    }
    closedir(dir);
    return r;
}

/* Reads the folders of all secrets in one redaction round, so that old values, which are in no folder any
 * more, can be dropped. Continues after an error; returns the last error. */
static int read_folders(struct pl_secrets *s, const struct pl_agent_protocol_attach *stage, struct pl_err *err)
{
    int failed = 0;

    pl_secret_redaction_begin(&s->mask);
    for (size_t i = 0; i < stage->n_secrets; i++) {
        int r = stage->secrets[i].mount ? look_at_folder(s, s->folder, stage, &stage->secrets[i], err) : 0;

        failed = r < 0 ? r : failed;
    }
    pl_secret_redaction_ready(&s->mask);
    if (s->mask.full && !s->said_full)
        pl_log_warn("secrets", "the stage's secrets have more than %u lines: the other lines are not masked in its output",
                    PL_SECRET_REDACTION_TEXTS);
    s->said_full = s->mask.full;
    return failed;
}

static bool any_changed(struct pl_secrets *s, const struct pl_agent_protocol_attach *stage, int64_t now_ms)
{
    const bool again = now_ms - s->read_ms >= PL_SECRETS_AGAIN_MS;
    bool any = false;

    for (size_t i = 0; i < stage->n_secrets; i++)
        any = has_changed(s, &stage->secrets[i], i, again) || any;
    if (any)
        s->read_ms = now_ms;
    return any;
}

int pl_secrets_read(const char *folder, const struct pl_agent_protocol_attach *stage, int64_t now_ms, struct pl_secrets **ret,
                    struct pl_err *err)
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
    for (size_t i = 0; r == 0 && i < stage->n_secrets; i++)
        r = stage->secrets[i].env ? take_variable(s, folder, stage, &stage->secrets[i], err) : 0;
    /* notes the modification times before reading, so that a change during the reading is noticed later */
    (void)any_changed(s, stage, now_ms);
    r = r < 0 ? r : read_folders(s, stage, err);
    if (r < 0) {
        pl_secrets_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

void pl_secrets_look(struct pl_secrets *s, const struct pl_agent_protocol_attach *stage, int64_t now_ms)
{
    struct pl_err err = {0};

    if (any_changed(s, stage, now_ms) && read_folders(s, stage, &err) < 0)
        pl_log_warn("secrets", "%s", err.msg);
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
    pl_secret_redaction_finish(&s->mask);
    free(s);
    return NULL;
}
