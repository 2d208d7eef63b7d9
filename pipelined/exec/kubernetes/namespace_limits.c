/* namespace_limits.c: lists quotas and limit ranges once, then watches them. Where a watch is not permitted,
 * they are listed again after a refusal. */
#include "pipelined/exec/kubernetes/namespace_limits.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define KEEP "metadata{name} spec status"
#define MOST "?limit=500" /* most objects of one kind that a listing returns; a watch delivers all */

enum { QUOTAS, RANGES, KINDS };
static const char *const collections[KINDS] = {"resourcequotas", "limitranges"};

/* A watched collection: the quotas, or the limit ranges. */
struct side {
    struct pl_limits *limits;
    json_t *objects; /* map: name → object */
    struct pl_kube_feed *feed;
};

/* A listing in progress. It has its own memory, because answers may come after the limits object was
 * destroyed. */
struct look {
    struct pl_limits *limits; /* NULL: the limits object was destroyed */
    struct pl_loop *loop;
    unsigned left; /* number of unanswered calls; only the I/O thread uses it */
    struct pl_kube_call calls[KINDS];
    char paths[KINDS][300];
    struct pl_loop_work work;
};

struct pl_limits {
    struct pl_namespace_limits_config config;
    char *space;
    struct side sides[KINDS];
    struct look *look; /* the listing in progress; NULL = none */
    int64_t looked_ms; /* monotonic time of the last listing; 0 = never */
};

static const char *name_of(const json_t *object)
{
    return pl_json_str(json_object_get(object, "metadata"), "name");
}

static void on_event(void *self, enum pl_kube_event e, json_t *object)
{
    struct side *s = self;

    if (e == PL_KUBE_DELETED)
        json_object_del(s->objects, name_of(object));
    else if (e != PL_KUBE_SYNCED)
        json_object_set(s->objects, name_of(object), object);
    s->limits->config.changed(s->limits->config.self);
}

static void path_of(const struct pl_limits *l, unsigned kind, const char *query, char ret[300])
{
    snprintf(ret, 300, "/api/v1/namespaces/%.200s/%s%s", l->space, collections[kind], query);
}

/* ---- listing again after a refusal ---- */

static void look_free(struct look *look)
{
    for (unsigned i = 0; i < KINDS; i++)
        pl_kube_call_finish(&look->calls[i]);
    free(look);
}

/* Replaces the known objects by the listed ones; returns true if they differ. */
static bool take_list(struct side *s, const struct pl_kube_call *call)
{
    _cleanup_(json_decrefp) json_t *list =
        call->err.code == 0 ? json_loadb((const char *)call->reply.data, call->reply.len, JSON_ALLOW_NUL, NULL) : NULL;
    json_t *objects = json_object(), *object;
    size_t i;

    json_array_foreach(json_object_get(list, "items"), i, object) json_object_set(objects, name_of(object), object);
    if (!list || !objects || json_equal(objects, s->objects)) {
        json_decref(objects);
        return false;
    }
    json_decref(s->objects);
    s->objects = objects;
    return true;
}

static void on_looked(void *arg)
{
    struct look *look = arg;
    struct pl_limits *l = look->limits;
    bool changed = false;

    for (unsigned i = 0; l && i < KINDS; i++)
        changed = take_list(&l->sides[i], &look->calls[i]) || changed;
    look_free(look);
    if (!l)
        return;
    l->look = NULL;
    if (changed)
        l->config.changed(l->config.self);
}

static void on_list(struct pl_kube_call *call)
{
    struct look *look = call->arg;

    if (--look->left == 0)
        pl_loop_post_work(look->loop, &look->work, "kube.limits", on_looked, look);
}

/* Lists both collections, if the account may, unless they are watched or were listed recently. */
void pl_namespace_limits_refresh(struct pl_limits *l)
{
    const int64_t now_ms = pl_clock_mono_ms();

    if (!l->config.ask || l->config.follow || l->look || (l->looked_ms && now_ms - l->looked_ms < PL_NAMESPACE_LIMITS_RETRY_MS))
        return;
    l->look = calloc(1, sizeof *l->look);
    if (!l->look)
        return; /* without memory nothing is listed; the next refusal tries again */
    l->looked_ms = now_ms;
    l->look->limits = l;
    l->look->loop = l->config.loop;
    l->look->left = KINDS;
    for (unsigned i = 0; i < KINDS; i++) {
        path_of(l, i, MOST, l->look->paths[i]);
        l->look->calls[i] = (struct pl_kube_call){.method = "GET",
                                                  .path = l->look->paths[i],
                                                  .deadline_ms = PL_NAMESPACE_LIMITS_RETRY_MS,
                                                  .done = on_list,
                                                  .arg = l->look};
    }
    for (unsigned i = 0; i < KINDS; i++)
        pl_kube_client_start(l->config.client, &l->look->calls[i]);
}

/* ---- first listing and watches ---- */

/* Lists one collection and waits for the answer. A failure is only logged. */
static int ask(struct pl_limits *l, unsigned kind, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = NULL;
    struct side *s = &l->sides[kind];
    char path[300];
    json_t *object;
    size_t i;
    int r;

    path_of(l, kind, MOST, path);
    r = pl_kube_client_get(l->config.client, path, &list, err);
    if (r < 0 && r != PL_ENOTFOUND)
        pl_log_warn("limits", "%s: %s", path, err->msg);
    if (r < 0)
        return 0;
    json_array_foreach(json_object_get(list, "items"), i, object)
    {
        if (json_object_set(s->objects, name_of(object), object) < 0)
            return pl_err_nomem(err);
    }
    return 0;
}

static int begin(struct pl_limits *l, unsigned kind, struct pl_err *err)
{
    struct side *s = &l->sides[kind];

    *s = (struct side){.limits = l, .objects = json_object()};
    if (!s->objects)
        return pl_err_nomem(err);
    return l->config.ask ? ask(l, kind, err) : 0;
}

int pl_namespace_limits_follow(struct pl_limits *l, struct pl_err *err)
{
    char path[300];
    struct pl_loop_informer_config feed = {
        .loop = l->config.loop, .client = l->config.client, .path = path, .keep = KEEP, .event = on_event};
    int r = 0;

    for (unsigned kind = 0; kind < KINDS && r == 0 && l->config.ask && l->config.follow; kind++) {
        path_of(l, kind, "", path);
        feed.self = &l->sides[kind];
        /* NULL without memory: objects that were deleted since the listing then stay known until the daemon
         * restarts */
        feed.known = json_copy(l->sides[kind].objects);
        r = pl_loop_informer_create(&feed, &l->sides[kind].feed, err);
    }
    return r;
}

int pl_namespace_limits_create(const struct pl_namespace_limits_config *config, struct pl_limits **ret, struct pl_err *err)
{
    struct pl_limits *l = calloc(1, sizeof *l);
    int r = l ? 0 : pl_err_nomem(err);

    if (r < 0)
        return r;
    l->config = *config;
    l->space = strdup(config->space);
    r = l->space ? 0 : pl_err_nomem(err);
    for (unsigned i = 0; i < KINDS && r == 0; i++)
        r = begin(l, i, err);
    if (r < 0) {
        pl_namespace_limits_destroy(l);
        return r;
    }
    *ret = l;
    return 0;
}

struct pl_limits *pl_namespace_limits_destroy(struct pl_limits *l)
{
    if (!l)
        return NULL;
    for (unsigned i = 0; i < KINDS; i++) {
        pl_loop_informer_destroy(l->sides[i].feed);
        json_decref(l->sides[i].objects);
    }
    if (l->look)
        l->look->limits = NULL;
    free(l->space);
    free(l);
    return NULL;
}

/* Returns true if a limit range sets a default limit of the resource for containers. */
static bool has_default(const struct pl_limits *l, const char *resource)
{
    const json_t *limit;
    json_t *range;
    const char *name;
    size_t i;

    json_object_foreach(l->sides[RANGES].objects, name, range)
    {
        json_array_foreach(json_object_get(json_object_get(range, "spec"), "limits"), i, limit)
        {
            if (pl_streq(pl_json_str(limit, "type"), "Container") && json_object_get(json_object_get(limit, "default"), resource))
                return true;
        }
    }
    return false;
}

bool pl_namespace_limits_required(const struct pl_limits *l, const char *resource)
{
    char key[64];
    const char *name;
    json_t *quota;

    snprintf(key, sizeof key, "limits.%s", resource);
    json_object_foreach(l->sides[QUOTAS].objects, name, quota)
    {
        if (json_object_get(json_object_get(json_object_get(quota, "spec"), "hard"), key))
            return !has_default(l, resource);
    }
    return false;
}

bool pl_namespace_limits_refuse(const struct pl_limits *l, const json_t *pod, struct pl_own_limits *ret)
{
    const char *name;
    json_t *object;

    json_object_foreach(l->sides[RANGES].objects, name, object)
    {
        if (pl_own_limits_range(object, pod, ret))
            return true;
    }
    json_object_foreach(l->sides[QUOTAS].objects, name, object)
    {
        if (pl_own_limits_quota(object, pod, ret))
            return true;
    }
    return false;
}
