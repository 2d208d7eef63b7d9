/* secret_object: secrets of projects (project_secret.h) as Kubernetes Secrets. The label PL_SECRET_LABEL
 * names the project. PL_SECRET_STORE names the store whose daemon keeps the secret, because several daemons
 * may share a namespace, each with a project of that name. Secrets without the project's label do not belong
 * to the project: its stages may not name them, and this module does not list, change or delete them. Pure. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"
#include "pipelined/policy/project_secret.h"

#define PL_SECRET_LABEL       PL_POD_LABEL "project"
#define PL_SECRET_STORE       PL_POD_LABEL "store"

#define PL_SECRET_LABEL_BYTES 64
/* Makes the label's value: the project's name, with ".x" appended if it ends with - or _, which labels may
 * not. Different names give different values. */
void pl_secret_label(const char *project, char ret[PL_SECRET_LABEL_BYTES]);
/* Makes the object for PL_SECRET_CREATE, kept by the daemon of `store`. New reference; NULL if out
 * of memory. */
json_t *pl_secret_object(const struct pl_secret_op *op, const char *space, const char *store);
/* Makes the patch for PL_SECRET_UPDATE (RFC 7396, application/merge-patch+json): it sets the given keys and
 * leaves others. New reference; NULL if out of memory. */
json_t *pl_secret_object_patch(const struct pl_secret_op *op);

/* Relation of an object to a project of a store's daemon. */
enum pl_secret_whose {
    PL_SECRET_OTHERS, /* the object belongs to another project or daemon, or to none */
    /* a user labelled the object for the project by hand: stages may use it and lists show it, but the
     * daemon does not change or delete it */
    PL_SECRET_LENT,
    PL_SECRET_OWN /* the object also has the store's label: the daemon created it, and may change or delete it */
};
enum pl_secret_whose pl_secret_object_whose(const json_t *object, const char *project, const char *store);
/* Overwrites the values of secrets in an answer's text with asterisks, in place, so that no copy of them
 * is made: all values in the objects "data" and "stringData", and in "annotations", where kubectl apply
 * stores copies of them. Keys stay. Text nested deeper than any API object becomes invalid JSON. */
void pl_secret_object_blank(char *text, size_t n);
/* Returns the value of the secret's project label; "" if it has none or another store keeps the secret.
 * Points into the object. */
const char *pl_secret_object_label(const json_t *object, const char *store);
/* Makes the result of PL_SECRET_LIST: [{"name", "keys", "updated_us"}] of the project's objects, including
 * those labelled by hand, by name and without values. `updated_us` is the time of creation. New reference;
 * NULL if out of memory. */
json_t *pl_secret_object_list(const json_t *items, const char *project, const char *store);
