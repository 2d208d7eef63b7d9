/* kube_stream: parses an API server's answer as it arrives: the frames of a watch, or the items of a list.
 * Each frame or item is passed to a callback as soon as it is complete, reduced to selected members. Members
 * that are not kept use no memory, however large.
 *
 *   watch   {"type":"ADDED","object":{…}} {"type":…}…     one `doc` per frame
 *   list    {"kind":"PodList","metadata":{…},"items":[{…},…]}     one `item` per element; then `doc` without items
 *
 * The selection names members of the object; it applies to each element of an array. An empty selection keeps
 * everything. `metadata.managedFields` is never kept; apiVersion, kind and metadata's name, namespace, uid
 * and resourceVersion always are. Frames of type ERROR and BOOKMARK are kept whole, except managedFields.
 *
 *   selection  = { member } ;   member = name , [ "{" , { member } , "}" ] ;   name = "*" | letters, digits, "-_./"
 *   for example  metadata{labels} spec{nodeName containers{name resources}} status
 *
 * The structure of all input is checked; the content of skipped strings and numbers is not. Pure;
 * single-threaded. */
#pragma once

#include "storage/base/buf.h"
#include <jansson.h>

/* maximum bytes kept of one object; etcd limits whole objects to 1.5 MiB */
#define PL_KUBE_OBJECT_MAX (8u << 20)
#define PL_KUBE_DEPTH_MAX  64u
#define PL_KUBE_KEY_MAX    1024u /* maximum bytes of a member's name, as written */
#define PL_KUBE_KEEP_MAX   256u  /* maximum number of names in a selection */

struct pl_kube_keep;
struct pl_kube_scan;

/* Parses a selection; copies `text`. PL_EINVAL: the error has the position. PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_keep_create(const char *text, struct pl_kube_keep **ret, struct pl_err *err);
struct pl_kube_keep *pl_kube_keep_destroy(struct pl_kube_keep *k);

enum pl_kube_scan_kind { PL_KUBE_SCAN_WATCH, PL_KUBE_SCAN_LIST };

struct pl_kube_scan_sink {
    /* Callbacks. They borrow the values; a negative result ends the scan with that error. */
    int (*item)(void *self, json_t *object, struct pl_err *err); /* called for lists only */
    int (*doc)(void *self, json_t *doc, struct pl_err *err);
    void *self;
};

/* Creates a parser. `keep`: the selection, borrowed; NULL = everything. PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_scan_create(enum pl_kube_scan_kind kind, const struct pl_kube_keep *keep, const struct pl_kube_scan_sink *sink,
                        struct pl_kube_scan **ret, struct pl_err *err);
struct pl_kube_scan *pl_kube_scan_destroy(struct pl_kube_scan *s);
/* Processes the next bytes of the answer, which may be split anywhere. PL_EPROTO (not JSON, or not a document
 * of the parser's kind), PL_ETOOBIG, PL_ENOMEM, or an error of a callback. After an error every call returns
 * that error. */
PL_MUST_CHECK
int pl_kube_scan_feed(struct pl_kube_scan *s, const void *data, size_t n, struct pl_err *err);
/* True if the answer may end here: no frame is open, or the list is complete. */
bool pl_kube_scan_is_whole(const struct pl_kube_scan *s);
