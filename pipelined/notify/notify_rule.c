/* notify_rule: one table of the types of events and their states; a filter is a bit for each state. */
#include "pipelined/notify/notify_rule.h"

#include "pipelined/policy/back_off.h"
#include "pipelined/policy/project_secret.h"
#include "pipelined/text/json_text.h"
#include "storage/base/buf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define ALL_STATES  UINT32_MAX
#define OTHER_STATE (UINT32_C(1) << 31) /* a state that the table does not have; only those who want all get it */

enum scope {
    OF_PROJECT, /* data.project is its project */
    OF_RUN,     /* data.id is a run, which may have jobs in several projects */
    OF_DAEMON
};

static const struct type {
    const char *name;
    enum scope scope;
    const char *repo;  /* the field of the event that names its repo; NULL = it has none */
    const char *plain; /* the state of an event without `state` and `change` */
    const char *states[12];
} types[] = {
    {"job",
     OF_PROJECT,
     "stage",
     "",
     {"created", "starting", "running", "finishing", "success", "failure", "killed", "unrunnable"}},
    {"run", OF_RUN, NULL, "", {"running", "success", "failure", "killed"}},
    {"commit", OF_PROJECT, "repo", "finished", {"finished", "deleted", "started", "unchanged", "dropped", "refused", "blocked"}},
    {"repo", OF_PROJECT, "repo", "", {"created", "updated", "deleted", "following", "invalid", "unreachable"}},
    {"pipeline", OF_PROJECT, NULL, "", {"created", "updated", "deleted", "stopped", "started"}},
    {"source", OF_PROJECT, NULL, "", {"created", "updated", "deleted", "following", "invalid", "unreachable"}},
    {"notify", OF_PROJECT, NULL, "", {"created", "updated", "deleted"}},
    {"metric", OF_PROJECT, "stage", "", {NULL}},
    {"keep", OF_PROJECT, "repo", "", {NULL}},
    {"pack.quarantined", OF_PROJECT, NULL, "", {NULL}},
    {"store.low", OF_DAEMON, NULL, "", {"ok", "low", "full"}},
    {"worker", OF_DAEMON, NULL, "", {"started", "attached", "placed", "gone"}},
    {"gc", OF_DAEMON, NULL, "", {NULL}},
    {"fsck", OF_DAEMON, NULL, "", {NULL}},
    {"recovered", OF_DAEMON, NULL, "", {NULL}},
};
_Static_assert(PL_ARRAY_SIZE(types) <= PL_NOTIFY_TYPES, "a row of the filter for each type");

static const struct type *find_type(const char *name, size_t len)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(types); i++)
        if (strlen(types[i].name) == len && memcmp(types[i].name, name, len) == 0)
            return &types[i];
    return NULL;
}

/* Returns the bit of a state of the type; OTHER_STATE if the table does not have it. */
static uint32_t bit_of(const struct type *t, const char *state)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(t->states) && t->states[i]; i++)
        if (strcmp(t->states[i], state) == 0)
            return UINT32_C(1) << i;
    return OTHER_STATE;
}

/* ---- on ---- */

/* Finds type and states of "TYPE" or "TYPE.STATE". The name of a type may have a dot. Returns NULL if there is none. */
static const struct type *read_on(const char *text, uint32_t *ret_states)
{
    const struct type *t = find_type(text, strlen(text));
    const char *dot = strrchr(text, '.');

    *ret_states = ALL_STATES;
    if (t || !dot)
        return t;
    t = find_type(text, (size_t)(dot - text));
    if (!t)
        return NULL;
    *ret_states = bit_of(t, dot + 1);
    return *ret_states == OTHER_STATE ? NULL : t;
}

/* Refuses a name of `on`, and lists those that are accepted: the states of its type, or else all types. */
static int refuse_on(const char *text, struct pl_err *err)
{
    const struct type *t = find_type(text, strcspn(text, "."));
    char accepted[400];
    size_t n = 0;

    if (!t && strrchr(text, '.'))
        t = find_type(text, (size_t)(strrchr(text, '.') - text));
    if (t) {
        n += (size_t)snprintf(accepted, sizeof accepted, "%s", t->name);
        for (size_t i = 0; i < PL_ARRAY_SIZE(t->states) && t->states[i] && n < sizeof accepted; i++)
            n += (size_t)snprintf(accepted + n, sizeof accepted - n, ", %s.%s", t->name, t->states[i]);
    } else {
        for (size_t i = 0; i < PL_ARRAY_SIZE(types) && n < sizeof accepted; i++)
            n += (size_t)snprintf(accepted + n, sizeof accepted - n, "%s%s", i ? ", " : "", types[i].name);
    }
    return pl_err_set(err, PL_EINVAL, "on: there is no event \"%.60s\": use %s%s", text, accepted,
                      t ? "" : ", or one state of these: job.failure");
}

static int check_on(const json_t *on, struct pl_err *err)
{
    const json_t *one;
    size_t i;

    if (json_array_size(on) == 0)
        return pl_err_set(err, PL_EINVAL, "on: a list of events is expected, such as [\"job.failure\", \"run.success\"]");
    if (json_array_size(on) > PL_NOTIFY_ON_MAX)
        return pl_err_set(err, PL_ELIMIT, "on: more than %u events", PL_NOTIFY_ON_MAX);
    json_array_foreach(on, i, one)
    {
        uint32_t states;

        if (!json_is_string(one))
            return pl_err_set(err, PL_EINVAL, "on: entry %zu is not a text", i + 1);
        if (!read_on(json_string_value(one), &states))
            return refuse_on(json_string_value(one), err);
    }
    return 0;
}

/* Refuses combinations: a repo with events that have none, S3's form with events that are no commits. */
static int check_fit(const json_t *on, const char *format, const char *repo, struct pl_err *err)
{
    const bool s3 = strcmp(format, "s3") == 0;
    const json_t *one;
    uint32_t states;
    size_t i;

    json_array_foreach(on, i, one)
    {
        const struct type *t = read_on(json_string_value(one), &states);

        if (*repo && !t->repo)
            return pl_err_field(
                err, pl_err_set(err, PL_EINVAL, "repo: events of type \"%s\" have no repo: use another rule for them", t->name),
                "repo");
        if (s3 && (strcmp(t->name, "commit") != 0 || !(states & bit_of(t, "finished"))))
            return pl_err_field(err,
                                pl_err_set(err, PL_EINVAL,
                                           "format: the form of S3 tells of files in commits: use it with \"commit\", not \"%s\"",
                                           json_string_value(one)),
                                "format");
    }
    return 0;
}

void pl_notify_filter_make(const json_t *settings, const char *project, struct pl_notify_filter *ret)
{
    const bool s3 = strcmp(pl_json_str(settings, "format"), "s3") == 0;
    const json_t *one;
    size_t i;

    *ret = (struct pl_notify_filter){.project = project, .repo = pl_json_str(settings, "repo")};
    json_array_foreach(json_object_get(settings, "on"), i, one)
    {
        uint32_t states = 0;
        const struct type *t = read_on(json_string_value(one), &states);

        if (t) /* an older program may have had other names */
            ret->states[t - types] |= s3 ? bit_of(t, "finished") : states;
    }
}

bool pl_notify_daemon_wide(const json_t *settings)
{
    struct pl_notify_filter f;
    bool wide = false;

    pl_notify_filter_make(settings, "", &f);
    for (size_t i = 0; i < PL_ARRAY_SIZE(types); i++)
        wide = wide || (f.states[i] && types[i].scope == OF_DAEMON);
    return wide;
}

json_t *pl_notify_types(const struct pl_notify_filter *f)
{
    json_t *names = json_array();

    for (size_t i = 0; names && i < PL_ARRAY_SIZE(types); i++)
        if (f->states[i] && json_array_append_new(names, json_string(types[i].name)) < 0) {
            json_decref(names);
            names = NULL;
        }
    return names;
}

/* ---- matching ---- */

const char *pl_notify_state(const char *type, const json_t *data)
{
    const struct type *t = find_type(type, strlen(type));
    const char *state = pl_json_text_at(data, "state");

    if (!t || !t->states[0])
        return "";
    state = state ? state : pl_json_text_at(data, "change");
    return state ? state : t->plain;
}

int pl_notify_type_index(const char *type)
{
    const struct type *t = find_type(type, strlen(type));

    return t ? (int)(t - types) : -1;
}

enum pl_notify_match pl_notify_match(const struct pl_notify_filter *f, const char *type, const json_t *data)
{
    const struct type *t = find_type(type, strlen(type));
    uint32_t states;

    if (!t)
        return PL_NOTIFY_NO;
    states = f->states[t - types];
    if (!(states & (t->states[0] ? bit_of(t, pl_notify_state(type, data)) : ALL_STATES)))
        return PL_NOTIFY_NO;
    if (t->scope == OF_PROJECT && strcmp(pl_json_str(data, "project"), f->project) != 0)
        return PL_NOTIFY_NO;
    if (*f->repo && (!t->repo || strcmp(pl_json_str(data, t->repo), f->repo) != 0))
        return PL_NOTIFY_NO;
    return t->scope == OF_RUN ? PL_NOTIFY_IF_RUN : PL_NOTIFY_YES;
}

int64_t pl_notify_wait_ms(unsigned failures, uint32_t random)
{
    return pl_back_off_ms(PL_NOTIFY_BACK_OFF_MS, PL_NOTIFY_BACK_OFF_MAX_MS, failures > 0 ? failures - 1 : 0, random);
}

/* ---- the URL ---- */

static int bad_url(struct pl_err *err, const char *why)
{
    return pl_err_field(err, pl_err_set(err, PL_EINVAL, "url: %s: use an address such as https://example.org/hook", why), "url");
}

int pl_notify_url_split(const char *url, char ret_scheme[8], char ret_host[PL_NOTIFY_HOST_MAX + 1], struct pl_err *err)
{
    static const char host_chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    const size_t scheme = strncmp(url, "https://", 8) == 0 ? 5 : strncmp(url, "http://", 7) == 0 ? 4 : 0;
    const bool six = scheme && url[scheme + 3] == '[';
    const char *host = url + scheme + 3 + six, *at;
    size_t len, digits = 0;

    if (!scheme)
        return bad_url(err, "it does not begin with https:// or http://");
    if (strlen(url) > PL_NOTIFY_URL_MAX)
        return bad_url(err, "it is longer than 2000 bytes");
    for (at = url; *at; at++)
        if (*at <= ' ' || *at > '~' || strchr("\"<>\\^`{|}#@", *at))
            return bad_url(err, "it has a character that must be escaped, a user name or a fragment");
    len = six ? strspn(host, "0123456789abcdefABCDEF:.") : strspn(host, host_chars);
    at = host + len;
    if (len == 0 || len > PL_NOTIFY_HOST_MAX || (six && *at++ != ']'))
        return bad_url(err, "its host is not a name or address");
    if (*at == ':') {
        digits = strspn(at + 1, "0123456789");
        at += digits + 1;
        if (digits == 0 || digits > 5)
            return bad_url(err, "its port is not a number");
    }
    if (*at && *at != '/' && *at != '?')
        return bad_url(err, "its host is not a name or address");
    snprintf(ret_scheme, 8, "%.*s", (int)scheme, url);
    snprintf(ret_host, PL_NOTIFY_HOST_MAX + 1, "%.*s", (int)len, host);
    return 0;
}

/* ---- settings ---- */

static int check_url(const char *text, struct pl_err *err)
{
    char scheme[8], host[PL_NOTIFY_HOST_MAX + 1];

    return pl_notify_url_split(text, scheme, host, err);
}

static int check_format(const char *text, struct pl_err *err)
{
    if (strcmp(text, "json") == 0 || strcmp(text, "slack") == 0 || strcmp(text, "s3") == 0)
        return 0;
    return pl_err_set(err, PL_EINVAL, "format: \"%.40s\": json, slack or s3 is expected", text);
}

static int check_secret(const char *text, struct pl_err *err)
{
    int r = *text ? pl_secret_name_check(text, err) : 0;

    return r < 0 ? pl_err_wrap(err, r, "secret") : 0;
}

static int check_repo(const char *text, struct pl_err *err)
{
    return *text ? pl_name_check("repo", text, err) : 0;
}

static const struct setting {
    const char *name, *fallback; /* NULL = the setting is required */
    int (*check)(const char *text, struct pl_err *err);
} rows[] = {{"url", NULL, check_url}, {"format", "json", check_format}, {"secret", "", check_secret}, {"repo", "", check_repo}};

/* Checks one setting and adds it to `out`. */
static int take_text(const struct setting *row, const json_t *settings, json_t *out, struct pl_err *err)
{
    const json_t *value = json_object_get(settings, row->name);
    const char *text = value ? json_string_value(value) : row->fallback;
    int r;

    if (!text)
        r = pl_err_set(err, PL_EINVAL, value ? "%s: a text is expected" : "%s is missing", row->name);
    else
        r = row->check(text, err);
    if (r < 0)
        return pl_err_field(err, r, row->name);
    return json_object_set_new(out, row->name, json_string(text)) < 0 ? pl_err_nomem(err) : 0;
}

static int refuse_unknown(const json_t *settings, struct pl_err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(settings))
        return pl_err_set(err, PL_EINVAL, "the settings of a notification are an object");
    json_object_foreach((json_t *)settings, key, value)
    {
        bool known = strcmp(key, "on") == 0;

        for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
            known = known || strcmp(key, rows[i].name) == 0;
        if (!known)
            return pl_err_field(err,
                                pl_err_set(err, PL_EINVAL,
                                           "%.60s: a notification has no such setting; it has on, url, format, secret and repo",
                                           key),
                                key);
    }
    return 0;
}

int pl_notify_settings_check(const json_t *settings, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out = json_object();
    const json_t *on = json_object_get(settings, "on");
    int r = out ? refuse_unknown(settings, err) : pl_err_nomem(err);

    if (r == 0 && (r = check_on(on, err)) < 0)
        return pl_err_field(err, r, "on");
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(rows); i++)
        r = take_text(&rows[i], settings, out, err);
    r = r < 0 ? r : check_fit(on, pl_json_str(out, "format"), pl_json_str(out, "repo"), err);
    if (r == 0 && json_object_set_new(out, "on", json_deep_copy(on)) < 0)
        r = pl_err_nomem(err);
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}
