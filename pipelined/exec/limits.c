#include "pipelined/exec/limits.h"

#include "pipelined/core/json_text.h"
#include "storage/base/log.h"

#include <stdio.h>

#define KEEP "metadata{name} spec status"

enum { QUOTAS, RANGES, KINDS };
static const char *const collections[KINDS] = {"resourcequotas", "limitranges"};

/* One collection. */
struct side {
    struct pl_limits *limits;
    json_t *objects; /* by name */
    json_t *listed;  /* names of those that the watch has not brought yet; NULL once it is at one with the server */
    struct pl_kube_feed *feed;
};

struct pl_limits {
    struct pl_limits_config config;
    struct side sides[KINDS];
};

static const char *name_of(const json_t *object)
{
    return pl_json_str(json_object_get(object, "metadata"), "name");
}

static void on_event(void *self, enum pl_kube_event e, json_t *object)
{
    struct side *s = self;
    const char *name;
    void *next;

    if (e == PL_KUBE_SYNCED) { /* who went before the watch began was told by nobody */
        json_object_foreach_safe(s->listed, next, name, object) json_object_del(s->objects, name);
        s->listed = (json_decref(s->listed), NULL);
    } else {
        json_object_del(s->listed, name_of(object));
        if (e == PL_KUBE_DELETED)
            json_object_del(s->objects, name_of(object));
        else
            json_object_set(s->objects, name_of(object), object);
    }
    s->limits->config.changed(s->limits->config.self);
}

static int ask(struct pl_limits *l, struct side *s, const char *path, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = NULL;
    json_t *object;
    size_t i;

    int r = pl_kube_client_get(l->config.client, path, &list, err);

    if (r < 0 && r != PL_ENOTFOUND)
        pl_log_warn("limits", "%s: %s", path, err->msg);
    if (r < 0)
        return 0;
    json_array_foreach(json_object_get(list, "items"), i, object)
    {
        if (json_object_set(s->objects, name_of(object), object) < 0 ||
            json_object_set_new(s->listed, name_of(object), json_true()) < 0)
            return pl_err_nomem(err);
    }
    return 0;
}

static int begin(struct pl_limits *l, unsigned kind, struct pl_err *err)
{
    struct side *s = &l->sides[kind];
    char path[300];
    const struct pl_kube_feed_config feed = {
        .loop = l->config.loop, .client = l->config.client, .path = path, .keep = KEEP, .event = on_event, .self = s};
    int r;

    *s = (struct side){.limits = l, .objects = json_object(), .listed = json_object()};
    if (!s->objects || !s->listed)
        return pl_err_nomem(err);
    snprintf(path, sizeof path, "/api/v1/namespaces/%.200s/%s", l->config.space, collections[kind]);
    r = l->config.ask ? ask(l, s, path, err) : 0;
    return r < 0 || !l->config.ask || !l->config.follow ? r : pl_kube_feed_create(&feed, &s->feed, err);
}

int pl_limits_create(const struct pl_limits_config *config, struct pl_limits **ret, struct pl_err *err)
{
    struct pl_limits *l = calloc(1, sizeof *l);
    int r = l ? 0 : pl_err_nomem(err);

    if (r < 0)
        return r;
    l->config = *config;
    for (unsigned i = 0; i < KINDS && r == 0; i++)
        r = begin(l, i, err);
    if (r < 0) {
        pl_limits_destroy(l);
        return r;
    }
    *ret = l;
    return 0;
}

struct pl_limits *pl_limits_destroy(struct pl_limits *l)
{
    if (!l)
        return NULL;
    for (unsigned i = 0; i < KINDS; i++) {
        pl_kube_feed_destroy(l->sides[i].feed);
        json_decref(l->sides[i].objects);
        json_decref(l->sides[i].listed);
    }
    free(l);
    return NULL;
}

/* Does a range give containers that limit when they have none? */
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

bool pl_limits_demand(const struct pl_limits *l, const char *resource)
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
