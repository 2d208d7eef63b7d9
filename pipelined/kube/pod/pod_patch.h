/* pod_patch: three ways to change a JSON document, as pods are patched. Pure; any thread.
 *
 *   pl_json_merge   RFC 7396: objects are merged member by member, null removes a member, lists are replaced
 *   pl_pod_merge    the same, but a pod's lists of named elements (containers and env by `name`, volumeMounts by
 *                   `mountPath`, …) are merged element by element; "$patch": "delete" in an element or object
 *                   removes it, "$patch": "replace" replaces the old one
 *   pl_json_patch   RFC 6902 */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>

#define PL_PATCHED_MAX     262144u /* maximum bytes of a patched document */
#define PL_PATCH_DEPTH_MAX 64u

/* Each function changes `*doc`, possibly to another object; after a failure `*doc` is partly changed.
 * PL_EINVAL: the error says what is wrong with the patch; PL_ETOOBIG, PL_ENOMEM. */
PL_MUST_CHECK
int pl_json_merge(json_t **doc, const json_t *patch, struct pl_err *err);
PL_MUST_CHECK
int pl_pod_merge(json_t **doc, const json_t *patch, struct pl_err *err);
PL_MUST_CHECK
int pl_json_patch(json_t **doc, const json_t *operations, struct pl_err *err);
