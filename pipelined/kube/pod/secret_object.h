/* secret_object: secrets of projects (core/secret.h) as a cluster keeps them: v1 Secrets whose label PL_SECRET_LABEL tells the project, and
 * PL_SECRET_STORE whose daemon keeps them: several share a namespace, and each may have a project of that name. Secrets without the project's
 * label are nobody's: stages may not name them, and nothing here lists, changes or removes them. Pure. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"
#include "pipelined/policy/project_secret.h"

#define PL_SECRET_LABEL       PL_POD_LABEL "project"
#define PL_SECRET_STORE       PL_POD_LABEL "store"

#define PL_SECRET_LABEL_BYTES 64
/* The label's value: the project's name; of one that ends with - or _, which labels may not, with ".x" behind it. Another name has another. */
void pl_secret_label(const char *project, char ret[PL_SECRET_LABEL_BYTES]);
/* CREATE: the object to POST, kept by the daemon of `store`. New reference, NULL without memory. */
json_t *pl_secret_object(const struct pl_secret_op *op, const char *space, const char *store);
/* UPDATE: an RFC 7396 patch (application/merge-patch+json) that sets the keys and leaves the others. New reference, NULL without memory. */
json_t *pl_secret_object_patch(const struct pl_secret_op *op);

/* Whose an object that was read is, for a project of a store's daemon. */
enum pl_secret_whose {
    PL_SECRET_OTHERS, /* another project's, another daemon's, nobody's */
    PL_SECRET_LENT, /* it has the project's label alone, by somebody's hand: it is given to stages and listed; other daemons may do the same, so
                         that it is changed and removed by that hand */
    PL_SECRET_OWN /* it has the store's label as well */
};
enum pl_secret_whose pl_secret_object_whose(const json_t *object, const char *project, const char *store);
/* Stars in place of the values that an answer's text has, in objects "data", "stringData" and "annotations" (kubectl apply notes them there, too),
 * before anything copies them. Keys stay. What is nested too deeply for the API becomes no JSON. */
void pl_secret_object_blank(char *text, size_t n);
/* The project's label of one that is not another store's; else "". Lives as long as the object. */
const char *pl_secret_object_label(const json_t *object, const char *store);
/* LIST: [{"name", "keys", "updated_us"}] of the objects that are the project's, lent ones too, by name; without a value. `updated_us` is when it was
 * made. New reference, NULL without memory. */
json_t *pl_secret_object_list(const json_t *items, const char *project, const char *store);
