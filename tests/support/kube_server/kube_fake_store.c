/* The fake API server's objects, and the history that watches go back in. */
#include "tests/support/kube_server/kube_fake_internal.h"

#include "storage/base/hash.h"

#include <stdio.h>
#include <time.h>

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* --- states --- */

static struct state *ref(struct state *s)
{
    if (s != NULL)
        s->refs++;
    return s;
}

static void unref(struct state *s)
{
    if (s != NULL && --s->refs == 0)
        free(s);
}

static json_t *parse(const struct state *s)
{
    json_t *object = json_loadb(s->text, s->len, JSON_ALLOW_NUL, NULL);

    must(object != NULL);
    return object;
}

static struct state *make_state(const json_t *object, unsigned long version)
{
    const size_t n = json_dumpb(object, NULL, 0, JSON_COMPACT);
    struct state *s = malloc(sizeof *s + n);

    must(s != NULL);
    s->refs = 1;
    s->version = version;
    s->len = n;
    s->asked = 0;
    (void)json_dumpb(object, s->text, n, JSON_COMPACT);
    return s;
}

/* --- selectors --- */

/* "a.b.c" of an object as text; "" when it is not there. */
static const char *field(const json_t *object, const char *dotted, size_t n, bool flat)
{
    char part[256];

    while (n > 0 && object != NULL) {
        const char *dot = flat ? NULL : memchr(dotted, '.', n);
        const size_t len = dot != NULL ? (size_t)(dot - dotted) : n;

        (void)snprintf(part, sizeof part, "%.*s", (int)len, dotted);
        object = json_object_get(object, part);
        dotted += len + (dot != NULL);
        n -= len + (dot != NULL);
    }
    return json_is_string(object) ? json_string_value(object) : "";
}

/* "k=v,k2!=v2" over members of `object`; "k" alone: it is there. */
static bool selects(const json_t *object, const char *selector, bool labels)
{
    while (selector != NULL && *selector != '\0') {
        const size_t pair = strcspn(selector, ","), key = strcspn(selector, "!=,");
        const bool unlike = selector[key] == '!';
        const size_t value = key + 1 + unlike;
        const char *has = field(object, selector, key, labels);

        if (key == pair ? *has == '\0'
                        : (strlen(has) == pair - value && strncmp(has, selector + value, pair - value) == 0) == unlike)
            return false;
        selector += pair + (selector[pair] == ',');
    }
    return true;
}

/* What a state was asked last is remembered: an event asks of the state before it what the last one asked. */
static bool matches(struct state *s, const char *labels, const char *fields)
{
    uint64_t asked;
    json_t *object;

    if (s == NULL || (labels == NULL && fields == NULL))
        return s != NULL;
    asked = pl_xxh64(labels != NULL ? labels : "", labels != NULL ? strlen(labels) : 0, 1);
    asked = pl_xxh64(fields != NULL ? fields : "", fields != NULL ? strlen(fields) : 0, asked);
    if (s->asked == asked)
        return s->matched;
    object = parse(s);
    s->matched =
        selects(json_object_get(json_object_get(object, "metadata"), "labels"), labels, true) && selects(object, fields, false);
    s->asked = asked;
    json_decref(object);
    return s->matched;
}

/* "/api/v1/pods" is the pods of all namespaces; "/api/v1/namespaces/n/pods" of one. */
static bool is_in(const char *path, size_t collection, const char *asked)
{
    const char *space = strstr(path, "/namespaces/"), *kind;

    if (strlen(asked) == collection && strncmp(path, asked, collection) == 0)
        return true;
    if (space == NULL || strstr(asked, "/namespaces/") != NULL)
        return false;
    kind = strchr(space + 12, '/');
    return kind != NULL && strlen(asked) == (size_t)(space - path) + collection - (size_t)(kind - path) &&
           strncmp(asked, path, (size_t)(space - path)) == 0 &&
           strncmp(asked + (space - path), kind, collection - (size_t)(kind - path)) == 0;
}

/* --- watches --- */

static void tell(struct conn *c, const struct event *e)
{
    const bool here = is_in(e->path, e->collection, c->collection), was = here && matches(e->was, c->labels, c->fields),
               is = here && !e->gone && matches(e->is, c->labels, c->fields);
    char head[64];
    struct pl_buf line = {.max = 64u << 20};

    if (!was && !is)
        return;
    (void)snprintf(head, sizeof head, "{\"type\":\"%s\",\"object\":", is ? (was ? "MODIFIED" : "ADDED") : "DELETED");
    must(pl_buf_add_str(&line, head, NULL) == 0 && pl_buf_add(&line, e->is->text, e->is->len, NULL) == 0 &&
         pl_buf_add_str(&line, "}\n", NULL) == 0);
    kube_fake_stream(c, line.data, line.len);
    pl_buf_finish(&line);
}

static void tell_expired(struct conn *c, unsigned long version)
{
    char line[320];
    int n = snprintf(line, sizeof line,
                     "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\","
                     "\"message\":\"too old resource "
                     "version: %lu (%lu)\",\"reason\":\"Expired\",\"code\":410}}\n",
                     version, c->fake->oldest);

    kube_fake_stream(c, line, (size_t)n);
    kube_fake_stream_end(c);
}

void kube_fake_replay(struct kube_fake *f, struct conn *c, unsigned long version)
{
    const unsigned long first = f->n_events > KUBE_FAKE_HISTORY ? f->n_events - KUBE_FAKE_HISTORY : 0;

    if (version < f->oldest) {
        tell_expired(c, version);
        return;
    }
    for (unsigned long i = first; i < f->n_events; i++) {
        const struct event *e = &f->history[i % KUBE_FAKE_HISTORY];

        if (e->is->version > version)
            tell(c, e);
    }
}

static void event_finish(struct event *e)
{
    unref(e->was);
    unref(e->is);
    free(e->path);
}

static void record(struct kube_fake *f, const struct stored *o, struct state *was, struct state *is, bool gone)
{
    struct event *e = &f->history[f->n_events++ % KUBE_FAKE_HISTORY];

    if (e->is != NULL) {
        f->oldest = PL_MAX(f->oldest, e->is->version);
        event_finish(e);
    }
    *e = (struct event){strdup(o->path), o->collection, ref(was), ref(is), gone};
    for (struct conn *c = f->conns; c != NULL; c = c->next)
        if (c->watching)
            tell(c, e);
}

/* --- objects --- */

/* Where it is, or would be. */
static bool find(const struct kube_fake *f, const char *path, size_t *ret)
{
    size_t low = 0, high = f->n;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        const int order = strcmp(f->objects[mid].path, path);

        if (order == 0) {
            *ret = mid;
            return true;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *ret = low;
    return false;
}

static void set_version(struct kube_fake *f, json_t *object)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%lu", ++f->version);
    must(json_object_set_new(json_object_get(object, "metadata"), "resourceVersion", json_string(text)) == 0);
}

/* "/a/b/c" → its collection's length. */
static size_t collection_of(const char *path)
{
    return (size_t)(strrchr(path, '/') - path);
}

static struct stored *insert(struct kube_fake *f, size_t at, const char *path)
{
    if (f->n == f->cap) {
        f->cap = PL_MAX((size_t)64, 2 * f->cap);
        f->objects = realloc(f->objects, f->cap * sizeof *f->objects);
        must(f->objects != NULL);
    }
    memmove(&f->objects[at + 1], &f->objects[at], (f->n - at) * sizeof *f->objects);
    f->n++;
    f->objects[at] = (struct stored){strdup(path), collection_of(path), NULL};
    return &f->objects[at];
}

/* Makes version, uid and time; the object stays the caller's. */
static void store(struct kube_fake *f, size_t at, bool is_new, const char *path, json_t *object)
{
    struct stored *o = is_new ? insert(f, at, path) : &f->objects[at];
    json_t *meta = json_object_get(object, "metadata");
    struct state *was = o->now;
    char text[64];

    set_version(f, object);
    if (is_new) {
        time_t now = time(NULL);
        struct tm tm;

        (void)snprintf(text, sizeof text, "00000000-0000-4000-8000-%012lx", f->version);
        must(json_object_set_new(meta, "uid", json_string(text)) == 0);
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
        must(json_object_set_new(meta, "creationTimestamp", json_string(text)) == 0);
    }
    o->now = make_state(object, f->version);
    record(f, o, was, o->now, false);
    unref(was);
}

static void delete_at(struct kube_fake *f, size_t at)
{
    struct stored o = f->objects[at];
    json_t *object = parse(o.now);
    struct state *last;

    set_version(f, object); /* a deletion has a version of its own */
    last = make_state(object, f->version);
    f->n--;
    memmove(&f->objects[at], &f->objects[at + 1], (f->n - at) * sizeof *f->objects);
    record(f, &o, o.now, last, true);
    unref(last);
    unref(o.now);
    free(o.path);
    json_decref(object);
}

/* RFC 7386. */
static void merge(json_t *to, json_t *patch)
{
    const char *key;
    json_t *value;

    json_object_foreach(patch, key, value)
    {
        json_t *old = json_object_get(to, key);

        if (json_is_null(value))
            (void)json_object_del(to, key);
        else if (json_is_object(value) && json_is_object(old))
            merge(old, value);
        else
            must(json_object_set(to, key, value) == 0);
    }
}

/* --- requests --- */

static void do_review(struct kube_fake *f, struct conn *c, json_t *review)
{
    const json_t *a = json_object_get(json_object_get(review, "spec"), "resourceAttributes");
    const char *verb = json_string_value(json_object_get(a, "verb")), *group = json_string_value(json_object_get(a, "group"));
    const char *resource = json_string_value(json_object_get(a, "resource")),
               *sub = json_string_value(json_object_get(a, "subresource"));
    char asked[256];
    bool denied;

    (void)snprintf(asked, sizeof asked, " %s %s/%s%s%s ", verb, group != NULL ? group : "", resource, sub != NULL ? "/" : "",
                   sub != NULL ? sub : "");
    denied = f->denied != NULL && strstr(f->denied, asked) != NULL;
    must(json_object_set_new(review, "status", json_pack("{s:b}", "allowed", !denied)) == 0);
    kube_fake_answer_json(c, 201, json_incref(review));
}

static void do_create(struct kube_fake *f, struct conn *c, const struct request *q, json_t *object)
{
    const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
    char path[4096], text[512];
    size_t at;

    if (strstr(q->path, "/selfsubjectaccessreviews") != NULL) {
        do_review(f, c, object);
        return;
    }
    if (name == NULL) {
        kube_fake_refuse(c, 422, "Invalid", "metadata.name: Required value: name or generateName is required");
        return;
    }
    (void)snprintf(path, sizeof path, "%s/%s", q->path, name);
    if (find(f, path, &at)) {
        (void)snprintf(text, sizeof text, "%s \"%s\" already exists", strrchr(q->path, '/') + 1, name);
        kube_fake_refuse(c, 409, "AlreadyExists", text);
        return;
    }
    if (strstr(q->query, "dryRun=All") == NULL) {
        const char *space = strstr(q->path, "/namespaces/");

        if (space != NULL)
            must(json_object_set_new(json_object_get(object, "metadata"), "namespace",
                                     json_stringn(space + 12, strcspn(space + 12, "/"))) == 0);
        store(f, at, true, path, object);
    }
    kube_fake_answer_json(c, 201, json_incref(object));
}

static void not_found(struct conn *c, const char *path)
{
    char text[512], collection[512];

    (void)snprintf(collection, sizeof collection, "%.*s", (int)collection_of(path), path);
    (void)snprintf(text, sizeof text, "%s \"%s\" not found", strrchr(collection, '/') != NULL ? strrchr(collection, '/') + 1 : "",
                   strrchr(path, '/') + 1);
    kube_fake_refuse(c, 404, "NotFound", text);
}

static void do_delete(struct kube_fake *f, struct conn *c, const struct request *q, const json_t *options)
{
    const char *uid = json_string_value(json_object_get(json_object_get(options, "preconditions"), "uid")), *has;
    json_t *object;
    size_t at;

    if (!find(f, q->path, &at)) {
        not_found(c, q->path);
        return;
    }
    object = parse(f->objects[at].now);
    has = json_string_value(json_object_get(json_object_get(object, "metadata"), "uid"));
    if (uid != NULL && !pl_streq(uid, has)) {
        kube_fake_refuse(c, 409, "Conflict", "Precondition failed: UID in precondition does not match");
        json_decref(object);
        return;
    }
    delete_at(f, at);
    kube_fake_answer_json(c, 200, object);
}

static void do_patch(struct kube_fake *f, struct conn *c, const char *path, json_t *patch)
{
    char whole[4096];
    json_t *object;
    size_t at;

    (void)snprintf(whole, sizeof whole, "%s", path);
    if (strlen(whole) > 7 && pl_streq(whole + strlen(whole) - 7, "/status"))
        whole[strlen(whole) - 7] = '\0';
    if (!find(f, whole, &at)) {
        not_found(c, whole);
        return;
    }
    object = parse(f->objects[at].now);
    merge(object, patch);
    store(f, at, false, whole, object);
    kube_fake_answer_json(c, 200, object);
}

static bool listed(const struct kube_fake *f, size_t i, const char *path, const char *labels, const char *fields)
{
    return is_in(f->objects[i].path, f->objects[i].collection, path) && matches(f->objects[i].now, labels, fields);
}

static void add_shown(struct pl_buf *out, struct conn *c, struct state *s)
{
    json_t *object;
    char *text;

    if (!c->metadata_only && memmem(s->text, s->len, "\"data\":", 7) == NULL) { /* most, in loads of many */
        must(pl_buf_add(out, s->text, s->len, NULL) == 0);
        return;
    }
    object = kube_fake_shown(c, parse(s));
    text = json_dumps(object, JSON_COMPACT);
    must(text != NULL && pl_buf_add_str(out, text, NULL) == 0);
    free(text);
    json_decref(object);
}

static void do_list(struct kube_fake *f, struct conn *c, const struct request *q)
{
    char *labels = kube_fake_param(q->query, "labelSelector"), *fields = kube_fake_param(q->query, "fieldSelector");
    char *limit_text = kube_fake_param(q->query, "limit"), *from = kube_fake_param(q->query, "continue");
    const size_t limit = limit_text != NULL ? strtoul(limit_text, NULL, 10) : SIZE_MAX;
    struct pl_buf out = {.max = 512u << 20};
    const char *rest = "";
    size_t i = 0, n = 0;

    if (from != NULL && find(f, from, &i))
        i++;
    must(pl_buf_add_str(&out, "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[", NULL) == 0);
    for (; i < f->n; i++) {
        if (!listed(f, i, q->path, labels, fields))
            continue;
        if (n == limit)
            break;
        must(pl_buf_add_str(&out, n++ > 0 ? "," : "", NULL) == 0);
        add_shown(&out, c, f->objects[i].now);
        rest = f->objects[i].path;
    }
    must(pl_buf_addf(&out, NULL, "],\"metadata\":{\"resourceVersion\":\"%lu\",\"continue\":\"%s\"}}\n", f->version,
                     i < f->n ? rest : "") == 0);
    kube_fake_answer(c, 200, (const char *)out.data, out.len, 0);
    pl_buf_finish(&out);
    free(labels);
    free(fields);
    free(limit_text);
    free(from);
}

static bool is_collection(const struct kube_fake *f, const char *path)
{
    for (size_t i = 0; i < f->n; i++)
        if (is_in(f->objects[i].path, f->objects[i].collection, path))
            return true;
    return false;
}

/* Of collections with nothing in them it is known by the limit alone that a list is wanted. */
static void do_get(struct kube_fake *f, struct conn *c, const struct request *q)
{
    size_t at;

    if (pl_streq(q->path, "/version"))
        kube_fake_answer_json(c, 200, json_pack("{s:s,s:s,s:s}", "major", "1", "minor", "34", "gitVersion", "v1.34.2"));
    else if (find(f, q->path, &at))
        kube_fake_answer_json(c, 200, parse(f->objects[at].now));
    else if (strstr(q->query, "limit=") != NULL || is_collection(f, q->path))
        do_list(f, c, q);
    else
        not_found(c, q->path);
}

void kube_fake_do(struct kube_fake *f, struct conn *c, const struct request *q)
{
    json_t *body = q->body_len > 0 ? json_loadb(q->body, q->body_len, JSON_ALLOW_NUL, NULL) : NULL;

    if (pl_streq(q->method, "GET"))
        do_get(f, c, q);
    else if (pl_streq(q->method, "DELETE"))
        do_delete(f, c, q, body);
    else if (body == NULL)
        kube_fake_refuse(c, 400, "BadRequest", "the body is no JSON");
    else if (pl_streq(q->method, "PATCH"))
        do_patch(f, c, q->path, body);
    else
        do_create(f, c, q, body);
    json_decref(body);
}

/* --- what others do --- */

void kube_fake_put(struct kube_fake *f, const char *collection, json_t *object)
{
    const char *space = strstr(collection, "/namespaces/");
    json_t *meta = json_object_get(object, "metadata");
    char path[4096];
    size_t at;
    bool is_new;

    if (space != NULL)
        must(json_object_set_new(meta, "namespace", json_stringn(space + 12, strcspn(space + 12, "/"))) == 0);
    (void)snprintf(path, sizeof path, "%s/%s", collection, json_string_value(json_object_get(meta, "name")));
    pthread_mutex_lock(&f->lock);
    is_new = !find(f, path, &at);
    store(f, at, is_new, path, object);
    pthread_mutex_unlock(&f->lock);
    json_decref(object);
}

bool kube_fake_patch(struct kube_fake *f, const char *path, json_t *patch)
{
    json_t *object;
    size_t at;
    bool found;

    pthread_mutex_lock(&f->lock);
    found = find(f, path, &at);
    if (found) {
        object = parse(f->objects[at].now);
        merge(object, patch);
        store(f, at, false, path, object);
        json_decref(object);
    }
    pthread_mutex_unlock(&f->lock);
    json_decref(patch);
    return found;
}

bool kube_fake_delete(struct kube_fake *f, const char *path)
{
    size_t at;
    bool found;

    pthread_mutex_lock(&f->lock);
    found = find(f, path, &at);
    if (found)
        delete_at(f, at);
    pthread_mutex_unlock(&f->lock);
    return found;
}

json_t *kube_fake_get(struct kube_fake *f, const char *path)
{
    json_t *object = NULL;
    size_t at;

    pthread_mutex_lock(&f->lock);
    if (find(f, path, &at))
        object = parse(f->objects[at].now);
    pthread_mutex_unlock(&f->lock);
    return object;
}

size_t kube_fake_count(struct kube_fake *f, const char *collection)
{
    size_t n = 0;

    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->n; i++)
        n += is_in(f->objects[i].path, f->objects[i].collection, collection);
    pthread_mutex_unlock(&f->lock);
    return n;
}

static void forget_history(struct kube_fake *f)
{
    for (size_t i = 0; i < KUBE_FAKE_HISTORY; i++) {
        event_finish(&f->history[i]);
        f->history[i] = (struct event){0};
    }
    f->n_events = 0;
}

void kube_fake_compact(struct kube_fake *f)
{
    pthread_mutex_lock(&f->lock);
    forget_history(f);
    f->oldest = ++f->version;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_set_back(struct kube_fake *f, unsigned long version)
{
    size_t left = 0;

    pthread_mutex_lock(&f->lock);
    forget_history(f);
    for (size_t i = 0; i < f->n; i++) {
        if (f->objects[i].now->version <= version) {
            f->objects[left++] = f->objects[i];
            continue;
        }
        unref(f->objects[i].now);
        free(f->objects[i].path);
    }
    f->n = left;
    f->version = f->oldest = version;
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_bookmark(struct kube_fake *f)
{
    char line[160];

    pthread_mutex_lock(&f->lock);
    (void)snprintf(line, sizeof line,
                   "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"%lu\"}}}\n",
                   f->version);
    for (struct conn *c = f->conns; c != NULL; c = c->next)
        if (c->watching)
            kube_fake_stream(c, line, strlen(line));
    pthread_mutex_unlock(&f->lock);
}

void kube_fake_store_finish(struct kube_fake *f)
{
    forget_history(f);
    for (size_t i = 0; i < f->n; i++) {
        unref(f->objects[i].now);
        free(f->objects[i].path);
    }
    free(f->objects);
}
