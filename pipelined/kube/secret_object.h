/* secret_object: secrets of projects (core/secret.h) as a cluster keeps them: v1 Secrets with the label PL_SECRET_LABEL, whose value tells
 * the project. Secrets without it are not ours: stages may not name them, and nothing here lists, changes or removes them. Pure. */
#pragma once

#include "pipelined/core/secret.h"
#include "pod_render.h"

#define PL_SECRET_LABEL       PL_POD_LABEL "project"

#define PL_SECRET_LABEL_BYTES 64
/* The label's value: the project's name; of one that ends with - or _, which labels may not, with ".x" behind it. Another name has another. */
void pl_secret_label(const char *project, char ret[PL_SECRET_LABEL_BYTES]);
/* CREATE: the object to POST. New reference, NULL without memory. */
json_t *pl_secret_object(const struct pl_secret_op *op, const char *space);
/* UPDATE: an RFC 7396 patch (application/merge-patch+json) that sets the keys and leaves the others. New reference, NULL without memory. */
json_t *pl_secret_object_patch(const struct pl_secret_op *op);
/* Whether an object that was read may be changed or removed for the project. */
bool pl_secret_object_is(const json_t *object, const char *project);
/* LIST: [{"name", "keys", "updated_us"}] of the objects that are the project's, by name; without a value. `updated_us` is when it was made. New
 * reference, NULL without memory. */
json_t *pl_secret_object_list(const json_t *items, const char *project);
