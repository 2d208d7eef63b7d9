// link: pipelined/kube/watch
/* Any bytes as a watch or a list, cut anywhere: the same verdict and the same values however they are cut; what jansson takes as one
 * object of such a shape is taken, and all of it is there. The first two bytes choose the kind, the list of what is kept and the cut. */
#include "pipelined/kube/watch/kube_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

struct heard {
    json_t *docs, *items;
};

static int on_item(void *self, json_t *object, struct pl_err *err)
{
    struct heard *h = self;

    (void)err;
    must(json_array_append(h->items, object) == 0);
    return 0;
}

static int on_doc(void *self, json_t *doc, struct pl_err *err)
{
    struct heard *h = self;

    (void)err;
    must(json_array_append(h->docs, doc) == 0);
    return 0;
}

static struct heard scan(enum pl_kube_scan_kind kind, const struct pl_kube_keep *keep, const uint8_t *data, size_t n, size_t step,
                         int *ret)
{
    struct heard h = {json_array(), json_array()};
    const struct pl_kube_scan_sink sink = {on_item, on_doc, &h};
    struct pl_kube_scan *s = NULL;
    struct pl_err err = {0};

    must(h.docs != NULL && h.items != NULL && pl_kube_scan_create(kind, keep, &sink, &s, NULL) == 0);
    *ret = 0;
    for (size_t at = 0; at < n && *ret == 0; at += PL_MIN(step, n - at))
        *ret = pl_kube_scan_feed(s, data + at, PL_MIN(step, n - at), &err);
    must(*ret == 0 || (*ret == PL_EPROTO && err.msg[0] != '\0') || *ret == PL_ETOOBIG);
    if (*ret == 0 && !pl_kube_scan_is_whole(s))
        *ret = 1;
    pl_kube_scan_destroy(s);
    return h;
}

static void drop(struct heard *h)
{
    json_decref(h->docs);
    json_decref(h->items);
}

static bool has_depth(const json_t *v, unsigned left)
{
    const char *key;
    json_t *child;
    size_t i;

    if (json_is_object(v) || json_is_array(v)) {
        if (left == 0)
            return true;
        json_object_foreach((json_t *)v, key, child) if (has_depth(child, left - 1)) return true;
        json_array_foreach(v, i, child) if (has_depth(child, left - 1)) return true;
    }
    return false;
}

/* A frame that jansson takes is handed on as it is, but for its managedFields. */
static void check_whole(const uint8_t *data, size_t n, const struct heard *h, int result)
{
    const bool nul = memchr(data, 0, n) != NULL; /* jansson passes over one behind a number, where JSON has none */
    json_t *want = nul ? NULL : json_loadb((const char *)data, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL), *meta;

    if (json_is_object(want) && !has_depth(want, PL_KUBE_DEPTH_MAX)) {
        must(result == 0 && json_array_size(h->docs) == 1);
        meta = json_object_get(json_object_get(want, "object"), "metadata");
        json_object_del(meta, "managedFields");
        must(json_equal(want, json_array_get(h->docs, 0)));
    }
    json_decref(want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const keeps[] = {"", "metadata{labels} spec{nodeName containers{name}} status", "status{*{a}}"};
    struct pl_kube_keep *keep = NULL;
    enum pl_kube_scan_kind kind;
    struct heard a, b;
    int ra, rb;

    if (n < 2 || n > 600) /* keys stay within their bound */
        return 0;
    kind = data[0] & 1 ? PL_KUBE_SCAN_LIST : PL_KUBE_SCAN_WATCH;
    must(pl_kube_keep_create(keeps[data[0] / 2 % PL_ARRAY_SIZE(keeps)], &keep, NULL) == 0);
    a = scan(kind, keep, data + 2, n - 2, n, &ra);
    b = scan(kind, keep, data + 2, n - 2, 1 + data[1] % 16, &rb);
    must(ra == rb && json_equal(a.docs, b.docs) && json_equal(a.items, b.items));
    if (kind == PL_KUBE_SCAN_WATCH && data[0] / 2 % PL_ARRAY_SIZE(keeps) == 0)
        check_whole(data + 2, n - 2, &a, ra);
    drop(&a);
    drop(&b);
    pl_kube_keep_destroy(keep);
    return 0;
}
