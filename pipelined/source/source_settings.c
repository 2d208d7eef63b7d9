/* source_settings: one row a setting. */
#include "pipelined/source/source_settings.h"

#include "pipelined/forge/commit_status.h"
#include "pipelined/policy/project_secret.h"
#include "pipelined/source/source_schedule.h"
#include "pipelined/text/git_address.h"
#include "pipelined/text/glob.h"
#include "storage/base/clock.h"

#include <string.h>

static int check_git(const char *text, struct pl_err *err)
{
    struct pl_git_address address;
    return pl_git_address_parse(text, &address, err);
}

static int check_secret(const char *text, struct pl_err *err)
{
    return *text ? pl_secret_name_check(text, err) : 0;
}

static int check_path(const char *text, struct pl_err *err)
{
    struct pl_glob *glob = NULL;
    int r = pl_glob_compile(text, &glob, err);

    if (r == 0 && pl_glob_is_root(glob))
        r = pl_err_set(err, PL_EINVAL, "a pattern for spec files is expected, such as \"%s\"", PL_SOURCE_PATH);
    pl_glob_destroy(glob);
    return r;
}

static int check_interval(const char *text, struct pl_err *err)
{
    int64_t ms = 0;
    int r = pl_duration_parse(text, &ms, err);

    if (r == 0 && (ms < PL_SOURCE_INTERVAL_MIN_MS || ms > PL_SOURCE_INTERVAL_MAX_MS))
        r = pl_err_set(err, PL_EINVAL, "\"%.40s\" is not between 1s and 24h", text);
    return r;
}

static int check_prune(const char *text, struct pl_err *err)
{
    if (strcmp(text, "off") != 0 && strcmp(text, "stop") != 0 && strcmp(text, "delete") != 0)
        return pl_err_set(err, PL_EINVAL, "\"%.40s\" is not accepted: off, stop or delete", text);
    return 0;
}

static int check_status(const char *text, struct pl_err *err)
{
    enum pl_status_kind kind;

    return pl_status_kind_parse(*text ? text : "?", &kind, err);
}

static const struct setting {
    const char *name, *fallback;                        /* NULL = the setting is required */
    int (*check)(const char *text, struct pl_err *err); /* its errors do not name the setting */
} rows[] = {
    {"git", NULL, check_git},
    {"branch", "", pl_git_branch_check},
    {"path", PL_SOURCE_PATH, check_path},
    {"interval", PL_SOURCE_INTERVAL, check_interval},
    {"secret", "", check_secret},
    {"prune", "off", check_prune},
    {"hook_secret", "", check_secret},
    {"status", "off", check_status},
};
static const char *const switches[] = {"preview", "paused"}; /* false if not given */

/* Checks one setting and adds it to `out`. */
static int take_text(const struct setting *row, const json_t *settings, bool update, json_t *out, struct pl_err *err)
{
    const json_t *value = json_object_get(settings, row->name);
    const char *text = value ? json_string_value(value) : row->fallback;
    int r;

    if (!value && update)
        return 0;
    if (!text)
        r = pl_err_set(err, PL_EINVAL, value ? "%s: a text is expected" : "%s is missing: the address of the repository",
                       row->name);
    else if ((r = row->check(text, err)) < 0)
        r = pl_err_wrap(err, r, "%s", row->name);
    if (r < 0)
        return pl_err_field(err, r, row->name);
    return json_object_set_new(out, row->name, json_string(text)) < 0 ? pl_err_nomem(err) : 0;
}

static int take_switch(const char *name, const json_t *settings, bool update, json_t *out, struct pl_err *err)
{
    const json_t *value = json_object_get(settings, name);

    if (!value && update)
        return 0;
    if (value && !json_is_boolean(value))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "%s: true or false is expected", name), name);
    return json_object_set_new(out, name, json_boolean(json_is_true(value))) < 0 ? pl_err_nomem(err) : 0;
}

static int refuse_unknown(const json_t *settings, struct pl_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)settings, key, value)
    {
        bool known = false;

        for (size_t i = 0; i < PL_ARRAY_SIZE(switches); i++)
            known = known || strcmp(key, switches[i]) == 0;
        for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
            known = known || strcmp(key, rows[i].name) == 0;
        if (!known)
            return pl_err_field(
                err,
                pl_err_set(err, PL_EINVAL,
                           "%.60s: a source has no such setting; it has git, branch, path, interval, secret, prune, hook_secret, "
                           "status, preview and paused",
                           key),
                key);
    }
    return 0;
}

int pl_source_settings_check(const json_t *settings, bool update, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out = json_object();
    int r = !out                       ? pl_err_nomem(err)
            : json_is_object(settings) ? refuse_unknown(settings, err)
                                       : pl_err_set(err, PL_EINVAL, "the settings of a source are an object");

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(rows); i++)
        r = take_text(&rows[i], settings, update, out, err);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(switches); i++)
        r = take_switch(switches[i], settings, update, out, err);
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}
