/* kube_scan: what an API server sends, as it arrives: frames of a watch or the items of a list, each handed on as soon as it is whole,
 * less what nobody needs. What is not kept costs no memory, however large it is.
 *
 *   watch   {"type":"ADDED","object":{…}} {"type":…}…     one `doc` a frame
 *   list    {"kind":"PodList","metadata":{…},"items":[{…},…]}     one `item` an element; at the end `doc`, its items left out
 *
 * What is kept is named by members of the object; arrays are looked through. An empty list keeps all. `metadata.managedFields` is never
 * kept; apiVersion, kind and metadata's name, namespace, uid and resourceVersion always are. Frames of type ERROR and BOOKMARK stay
 * whole but for managedFields.
 *
 *   keep    = { member } ;   member = name , [ "{" , { member } , "}" ] ;   name = "*" | letters, digits, "-_./"
 *   e.g.      metadata{labels} spec{nodeName containers{name resources}} status
 *
 * Structure is checked of everything; the inside of strings and numbers that are skipped is not. Pure; one thread at a time. */
#pragma once

#include "storage/base/buf.h"
#include <jansson.h>

#define PL_KUBE_OBJECT_MAX (8u << 20) /* bytes of one object that are kept; etcd's own bound is 1.5 MiB */
#define PL_KUBE_DEPTH_MAX  64u
#define PL_KUBE_KEY_MAX    1024u /* bytes of a member's name as it is written */
#define PL_KUBE_KEEP_MAX   256u  /* names in a list of what is kept */

struct pl_kube_keep;
struct pl_kube_scan;

/* `text` may go. PL_EINVAL naming the place, PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_keep_create(const char *text, struct pl_kube_keep **ret, struct pl_err *err);
struct pl_kube_keep *pl_kube_keep_destroy(struct pl_kube_keep *k);

enum pl_kube_scan_kind { PL_KUBE_SCAN_WATCH, PL_KUBE_SCAN_LIST };

struct pl_kube_scan_sink {
    /* Borrowed values; a negative result ends the scan with it. */
    int (*item)(void *self, json_t *object, struct pl_err *err); /* LIST */
    int (*doc)(void *self, json_t *doc, struct pl_err *err);
    void *self;
};

/* `keep` (borrowed) may be NULL = all. PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_scan_create(enum pl_kube_scan_kind kind, const struct pl_kube_keep *keep, const struct pl_kube_scan_sink *sink,
                        struct pl_kube_scan **ret, struct pl_err *err);
struct pl_kube_scan *pl_kube_scan_destroy(struct pl_kube_scan *s);
/* The next bytes, cut anywhere. PL_EPROTO (no JSON, or not such JSON), PL_ETOOBIG, PL_ENOMEM, of the sink; from then on always that. */
PL_MUST_CHECK
int pl_kube_scan_feed(struct pl_kube_scan *s, const void *data, size_t n, struct pl_err *err);
/* Whether all that came is whole: not within a frame, the list at its end. */
bool pl_kube_scan_is_whole(const struct pl_kube_scan *s);
