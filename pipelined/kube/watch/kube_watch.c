/* kube_watch.c: makes events by comparing list items and watch frames with a table of the known objects, and
 * chooses the next request with a state machine. */
#include "pipelined/kube/watch/kube_watch.h"

#include "pipelined/text/json_text.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"
#include "storage/http/uri.h"

#include <stdio.h>

#define VERSION_MAX 256u /* maximum bytes of a resourceVersion, which is opaque (in practice a number) */

/* A known object. */
struct known {
    uint64_t version; /* hash of its resourceVersion */
    uint32_t round;   /* number of the list in which the object was last seen */
    char uid[];
};

enum phase { LISTING, WATCHING };

struct pl_kube_watch {
    struct pl_kube_watch_config config;
    char *path, *labels, *fields;
    struct pl_kube_keep *keep;
    struct pl_kube_scan *scan; /* parser of the request in progress */
    struct pl_map objects;     /* "namespace/name" → struct known */
    struct pl_buf request;
    enum phase phase;
    uint32_t round;
    char version[VERSION_MAX];
    char *rest; /* continue token of the list's next page; NULL = the next request is for a first page */
    bool under_way, page_done;
    uint32_t timeout_s;
    int64_t began_ms, not_before_ms;
    /* random: state of the generator; frames: number of frames that this request has received */
    uint64_t random, frames;
    unsigned failures, empties;
    uint64_t lists, watches, events;
    bool synced;
    /* Status that the server sent instead of a list, or in an ERROR frame; code 0 = none */
    struct pl_kube_status in_band;
    char problem[1024];
};

const char *pl_kube_event_name(enum pl_kube_event e)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED", "SYNCED"};

    return names[e];
}

int pl_kube_watch_create(const struct pl_kube_watch_config *config, struct pl_kube_watch **ret, struct pl_err *err)
{
    struct pl_kube_watch *w = calloc(1, sizeof(*w));
    int r = 0;

    if (w == NULL)
        return pl_err_nomem(err);
    w->config = *config;
    w->random = config->seed;
    w->path = strdup(config->path);
    w->labels = config->labels != NULL ? strdup(config->labels) : NULL;
    w->fields = config->fields != NULL ? strdup(config->fields) : NULL;
    if (w->path == NULL || (config->labels != NULL && w->labels == NULL) || (config->fields != NULL && w->fields == NULL))
        r = pl_err_nomem(err);
    if (r == 0 && config->keep != NULL)
        r = pl_kube_keep_create(config->keep, &w->keep, err);
    if (r < 0) {
        pl_kube_watch_destroy(w);
        return r;
    }
    *ret = w;
    return 0;
}

struct pl_kube_watch *pl_kube_watch_destroy(struct pl_kube_watch *w)
{
    if (w == NULL)
        return NULL;
    pl_map_finish(&w->objects, free);
    pl_kube_scan_destroy(w->scan);
    pl_kube_keep_destroy(w->keep);
    pl_buf_finish(&w->request);
    free(w->path);
    free(w->labels);
    free(w->fields);
    free(w->rest);
    free(w);
    return NULL;
}

/* ---- objects ---- */

static int say(struct pl_kube_watch *w, enum pl_kube_event e, json_t *object, struct pl_err *err)
{
    w->events++;
    return w->config.event(w->config.self, e, object, err);
}

/* Reports that an object was deleted although no DELETED frame came for it: the event has only the object's
 * metadata. */
static int say_deleted(struct pl_kube_watch *w, const char *key, size_t key_len, const char *uid, struct pl_err *err)
{
    const char *slash = memchr(key, '/', key_len);
    const int space = (int)(slash - key), name = (int)key_len - space - 1;
    json_t *object = json_pack("{s:{s:s%,s:s}}", "metadata", "name", slash + 1, (size_t)name, "uid", uid);
    int r = 0;

    if (object == NULL || (space > 0 && json_object_set_new(json_object_get(object, "metadata"), "namespace",
                                                            json_stringn(key, (size_t)space)) < 0))
        r = pl_err_nomem(err);
    if (r == 0)
        r = say(w, PL_KUBE_DELETED, object, err);
    json_decref(object);
    return r;
}

static int remember(struct pl_kube_watch *w, const struct pl_buf *key, const char *uid, uint64_t version, struct pl_err *err)
{
    const size_t n = strlen(uid) + 1;
    struct known *k;
    void *old = NULL;
    int r;

    if (w->objects.len >= PL_KUBE_OBJECTS_MAX)
        return pl_err_set(err, PL_ELIMIT, "%s contains more than %u objects", w->path, PL_KUBE_OBJECTS_MAX);
    k = malloc(sizeof(*k) + n);
    if (k == NULL)
        return pl_err_nomem(err);
    k->version = version;
    k->round = w->round;
    memcpy(k->uid, uid, n);
    r = pl_map_put(&w->objects, key->data, key->len, k, &old, err);
    free(r < 0 ? k : old);
    return r;
}

static void forget(struct pl_kube_watch *w, const struct pl_buf *key)
{
    free(pl_map_remove(&w->objects, key->data, key->len));
}

/* Reports an existing object as ADDED or MODIFIED, unless it is unchanged. If the callback fails, the table
 * does not record the change, so that it is reported again later. */
static int take_present(struct pl_kube_watch *w, const struct pl_buf *key, json_t *object, struct pl_err *err)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *uid = pl_json_str(metadata, "uid"), *version = pl_json_str(metadata, "resourceVersion");
    const uint64_t hash = pl_xxh64(version, strlen(version), 0);
    struct known *k = pl_map_get(&w->objects, key->data, key->len);
    int r = 0;

    if (k != NULL && !pl_streq(k->uid, uid)) {
        r = say_deleted(w, (const char *)key->data, key->len, k->uid, err);
        if (r < 0)
            return r;
        forget(w, key);
        k = NULL;
    }
    if (k == NULL) {
        r = remember(w, key, uid, hash, err);
        if (r == 0)
            r = say(w, PL_KUBE_ADDED, object, err);
        if (r < 0)
            forget(w, key);
        return r;
    }
    k->round = w->round;
    if (k->version == hash && *version != '\0')
        return 0;
    r = say(w, PL_KUBE_MODIFIED, object, err);
    if (r == 0)
        k->version = hash;
    return r;
}

static int take_gone(struct pl_kube_watch *w, const struct pl_buf *key, json_t *object, struct pl_err *err)
{
    int r;

    if (pl_map_get(&w->objects, key->data, key->len) == NULL)
        return 0;
    r = say(w, PL_KUBE_DELETED, object, err);
    if (r == 0)
        forget(w, key);
    return r;
}

static int take_object(struct pl_kube_watch *w, json_t *object, bool gone, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf key = {0};
    const json_t *metadata = json_object_get(object, "metadata");
    int r;

    if (*pl_json_str(metadata, "name") == '\0')
        return pl_err_set(err, PL_EPROTO, "an object of %s has no name", w->path);
    r = pl_buf_addf(&key, err, "%s/%s", pl_json_str(metadata, "namespace"), pl_json_str(metadata, "name"));
    if (r < 0)
        return r;
    return gone ? take_gone(w, &key, object, err) : take_present(w, &key, object, err);
}

/* Reports as deleted the known objects that a complete list did not contain. */
static int sweep(struct pl_kube_watch *w, struct pl_err *err)
{
    const struct pl_map_slot *slot;
    size_t i = 0;
    int r = 0;

    while (r == 0 && (slot = pl_map_next(&w->objects, &i)) != NULL) {
        _cleanup_(pl_buf_finish) struct pl_buf key = {0};
        const struct known *k = slot->value;

        if (k->round == w->round)
            continue;
        /* copy the key, because removing the object frees the slot's key */
        r = pl_buf_add(&key, slot->key, slot->key_len, err);
        if (r < 0)
            return r;
        r = say_deleted(w, (const char *)key.data, key.len, k->uid, err);
        if (r == 0)
            forget(w, &key);
    }
    return r;
}

/* ---- answers ---- */

/* Handles a Status that the server sent in place of data. Returns a negative error. */
static int take_status(struct pl_kube_watch *w, const json_t *object, struct pl_err *err)
{
    if (!pl_kube_status_take(object, &w->in_band))
        return pl_err_set(err, PL_EPROTO, "%s: the API server sent an ERROR frame without a Status", w->path);
    if (w->in_band.code == 0 || w->in_band.code == 200)
        w->in_band.code = 500;
    return pl_err_set(err, PL_ERETRY, "%s", w->in_band.message);
}

static int keep_version(struct pl_kube_watch *w, const json_t *object, struct pl_err *err)
{
    const char *version = pl_json_str(json_object_get(object, "metadata"), "resourceVersion");

    if (*version == '\0' || strlen(version) >= sizeof(w->version))
        return pl_err_set(err, PL_EPROTO, "%s: the answer has no resourceVersion to continue from", w->path);
    (void)snprintf(w->version, sizeof(w->version), "%s", version);
    return 0;
}

static int on_item(void *self, json_t *object, struct pl_err *err)
{
    return take_object(self, object, false, err);
}

/* Handles the end of a list page: another page follows, or the list is complete. */
static int on_page(void *self, json_t *doc, struct pl_err *err)
{
    struct pl_kube_watch *w = self;
    const char *rest = pl_json_str(json_object_get(doc, "metadata"), "continue");
    int r;

    if (pl_streq(pl_json_str(doc, "kind"), "Status"))
        return take_status(w, doc, err);
    if (json_object_get(doc, "items") == NULL)
        return pl_err_set(err, PL_EPROTO, "%s: the answer is not a list", w->path);
    r = keep_version(w, doc, err);
    if (r < 0)
        return r;
    free(w->rest);
    w->rest = *rest != '\0' ? strdup(rest) : NULL;
    if (*rest != '\0')
        r = w->rest != NULL ? 0 : pl_err_nomem(err);
    else
        r = sweep(w, err);
    if (r == 0 && w->rest == NULL) {
        w->phase = WATCHING;
        w->synced = true;
        r = w->config.event(w->config.self, PL_KUBE_SYNCED, NULL, err);
    }
    w->page_done = r == 0;
    return r;
}

static int on_frame(void *self, json_t *doc, struct pl_err *err)
{
    struct pl_kube_watch *w = self;
    const char *type = pl_json_str(doc, "type");
    json_t *object = json_object_get(doc, "object");
    int r;

    if (pl_streq(type, "ERROR"))
        return take_status(w, object, err);
    w->frames++;
    if (pl_streq(type, "BOOKMARK"))
        return keep_version(w, object, err);
    if (!pl_streq(type, "ADDED") && !pl_streq(type, "MODIFIED") && !pl_streq(type, "DELETED"))
        return pl_err_set(err, PL_EPROTO, "%s: the API server sent a frame of unknown type \"%.40s\"", w->path, type);
    r = take_object(w, object, *type == 'D', err);
    return r < 0 ? r : keep_version(w, object, err);
}

int pl_kube_watch_bytes(struct pl_kube_watch *w, const void *data, size_t n, struct pl_err *err)
{
    return pl_kube_scan_feed(w->scan, data, n, err);
}

/* ---- requests ---- */

static int add_param(struct pl_kube_watch *w, const char *name, const char *value, struct pl_err *err)
{
    const char sep = memchr(w->request.data, '?', w->request.len) != NULL ? '&' : '?';
    int r = value != NULL ? pl_buf_addf(&w->request, err, "%c%s=", sep, name) : 0;

    return r < 0 || value == NULL ? r : pl_uri_escape(value, false, &w->request, err);
}

static int add_number(struct pl_kube_watch *w, const char *name, unsigned value, struct pl_err *err)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", value);
    return add_param(w, name, text, err);
}

/* Builds the path of the next request. A list request has no resourceVersion, so that the server returns its
 * current, consistent state. */
static int make_path(struct pl_kube_watch *w, struct pl_err *err)
{
    int r;

    pl_buf_clear(&w->request);
    r = pl_buf_add_str(&w->request, w->path, err);
    if (r == 0)
        r = add_param(w, "labelSelector", w->labels, err);
    if (r == 0)
        r = add_param(w, "fieldSelector", w->fields, err);
    if (r == 0 && w->phase == LISTING) {
        r = add_number(w, "limit", w->config.page > 0 ? w->config.page : PL_KUBE_PAGE, err);
        return r < 0 ? r : add_param(w, "continue", w->rest, err);
    }
    if (r == 0)
        r = add_param(w, "watch", "1", err);
    if (r == 0)
        r = add_param(w, "allowWatchBookmarks", "true", err);
    if (r == 0)
        r = add_param(w, "resourceVersion", w->version, err);
    return r < 0 ? r : add_number(w, "timeoutSeconds", w->timeout_s, err);
}

static int begin_scan(struct pl_kube_watch *w, struct pl_err *err)
{
    const struct pl_kube_scan_sink sink = {.item = on_item, .doc = w->phase == LISTING ? on_page : on_frame, .self = w};

    w->scan = pl_kube_scan_destroy(w->scan);
    return pl_kube_scan_create(w->phase == LISTING ? PL_KUBE_SCAN_LIST : PL_KUBE_SCAN_WATCH, w->keep, &sink, &w->scan, err);
}

/* The time limits of a watch request exceed its own timeoutSeconds by PL_KUBE_PATIENCE_MS: a connection that
 * stays open longer is dead. */
int64_t pl_kube_watch_next(struct pl_kube_watch *w, int64_t now_ms, struct pl_kube_watch_request *ret, struct pl_err *err)
{
    int r;

    if (now_ms < w->not_before_ms)
        return w->not_before_ms - now_ms;
    w->timeout_s = PL_KUBE_WATCH_S + (uint32_t)(pl_splitmix64(&w->random) % (PL_KUBE_WATCH_S + 1));
    if (w->phase == LISTING && w->rest == NULL)
        w->round++;
    r = begin_scan(w, err);
    if (r == 0)
        r = make_path(w, err);
    if (r == 0 && pl_buf_str(&w->request) == NULL)
        r = pl_err_nomem(err);
    if (r < 0)
        return r;
    w->under_way = true;
    w->page_done = false;
    w->frames = 0;
    w->in_band = (struct pl_kube_status){0};
    w->began_ms = now_ms;
    *ret = (struct pl_kube_watch_request){.path = (const char *)w->request.data, .watching = w->phase == WATCHING};
    if (ret->watching) {
        w->watches++;
        ret->timeout_ms = ret->stall_ms = 1000 * (int64_t)w->timeout_s + PL_KUBE_PATIENCE_MS;
    } else {
        w->lists += w->rest == NULL;
        ret->timeout_ms = PL_KUBE_LIST_MS;
        ret->stall_ms = PL_KUBE_PATIENCE_MS;
    }
    return 0;
}

/* ---- the end of a request ---- */

static void wait_some(struct pl_kube_watch *w, int64_t now_ms, uint32_t asked_s)
{
    const int64_t first = w->config.pause_ms > 0 ? w->config.pause_ms : PL_KUBE_BACKOFF_MS;
    const int64_t whole = PL_MIN((int64_t)PL_KUBE_BACKOFF_MOST, first << PL_MIN(w->failures, 10u));
    const int64_t some = whole / 2 + (int64_t)(pl_splitmix64(&w->random) % (uint64_t)(whole / 2 + 1));

    w->failures++;
    w->not_before_ms = now_ms + PL_MAX(some, 1000 * (int64_t)asked_s);
}

static void list_again(struct pl_kube_watch *w)
{
    free(w->rest);
    w->rest = NULL;
    w->phase = LISTING;
    w->synced = false;
    w->empties = 0;
}

static void fail(struct pl_kube_watch *w, int64_t now_ms, const char *why, uint32_t asked_s)
{
    (void)snprintf(w->problem, sizeof(w->problem), "%s", why);
    wait_some(w, now_ms, asked_s);
}

/* Handles a refusal by the server: `s` is its Status. */
static void refused(struct pl_kube_watch *w, int64_t now_ms, const struct pl_kube_status *s)
{
    const enum pl_kube_verdict v = pl_kube_status_verdict(s);

    fail(w, now_ms, s->message, s->retry_after_s);
    if (v == PL_KUBE_AHEAD) {
        if (++w->empties >= PL_KUBE_EMPTY_MAX || w->phase == LISTING)
            list_again(w);
    } else if (v == PL_KUBE_EXPIRED || (s->code == 400 && w->rest != NULL)) {
        const bool first = w->failures == 1;

        list_again(w);
        /* One expired version is normal: list again at once. Pause only when it happens repeatedly. */
        w->not_before_ms = first ? now_ms : w->not_before_ms;
    }
}

static void watch_ended_well(struct pl_kube_watch *w, int64_t now_ms)
{
    const int64_t lasted_ms = now_ms - w->began_ms;

    w->problem[0] = '\0';
    if (w->frames > 0)
        w->empties = 0;
    else if (lasted_ms >= PL_KUBE_QUIET_MS || ++w->empties >= PL_KUBE_EMPTY_MAX)
        list_again(w);
    if (lasted_ms >= 1000)
        w->failures = 0;
    else if (w->failures > 0)
        wait_some(w, now_ms, 0);
    else
        w->failures = 1; /* if the next watch is as short, a pause follows it */
}

void pl_kube_watch_answers(struct pl_kube_watch *w)
{
    w->problem[0] = '\0';
}

void pl_kube_watch_ended(struct pl_kube_watch *w, int64_t now_ms, const struct pl_kube_status *status, const struct pl_err *err)
{
    const bool well = status->code >= 200 && status->code <= 299;
    const bool watched = w->phase == WATCHING && !w->page_done;

    w->under_way = false;
    w->not_before_ms = now_ms;
    if (w->in_band.code != 0) {
        refused(w, now_ms, &w->in_band);
    } else if (!well && status->code != 0) {
        refused(w, now_ms, status);
    } else if (w->page_done) { /* the page was complete, whatever happened to the connection afterwards */
        w->failures = 0;
        w->problem[0] = '\0';
    } else if (err->code == 0 && watched && pl_kube_scan_is_whole(w->scan)) {
        watch_ended_well(w, now_ms);
    } else if (watched && w->frames > 0 && err->code != PL_EPROTO && err->code != PL_ETOOBIG && now_ms - w->began_ms >= 1000) {
        w->failures = 0; /* the connection broke after useful data: continue from the last version at once */
        w->problem[0] = '\0';
    } else {
        fail(w, now_ms, err->code != 0 ? err->msg : "the answer ended too early", 0);
        if (err->code == PL_EPROTO && watched)
            list_again(w); /* list again, because the change in the unreadable frame is unknown */
    }
    w->scan = pl_kube_scan_destroy(w->scan);
}

void pl_kube_watch_look(const struct pl_kube_watch *w, struct pl_kube_watch_view *ret)
{
    *ret = (struct pl_kube_watch_view){.objects = w->objects.len,
                                       .lists = w->lists,
                                       .watches = w->watches,
                                       .events = w->events,
                                       .synced = w->synced,
                                       .failures = w->failures,
                                       .problem = w->problem};
}
