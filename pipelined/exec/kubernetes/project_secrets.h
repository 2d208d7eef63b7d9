/* project_secrets: secrets of projects (core/secret.h) in the namespace of their stages' pods: which there are is followed, by their
 * metadata alone; what is asked of them is carried out. Whose one is its labels tell (secret_object.h), whoever made it. */
#pragma once

#include "pipelined/kube/client/kube_client.h"
#include "pipelined/net/loop/loop.h"
#include "pipelined/policy/project_secret.h"
#include "pipelined/spec/spec.h"

#define PL_PROJECT_SECRETS_MAX  65536u /* that are known, of all projects */
#define PL_PROJECT_SECRETS_PAGE 10     /* read at once with their values, for the names of their keys: each may have 1 MiB */

struct pl_project_secrets;

struct pl_project_secrets_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    const char *space, *store;   /* copied; of the pods, and the store's id */
    bool may_see, may_keep;      /* as the cluster's answers are (kube_access.h) */
    void (*changed)(void *self); /* there are others now; on the loop */
    void *self;
};

/* Asks which there are, and waits for that; follows them from then on. What is not answered is said in the log, and learnt later. PL_ENOMEM. */
PL_MUST_CHECK
int pl_project_secrets_create(const struct pl_project_secrets_config *config, struct pl_project_secrets **ret,
                              struct pl_err *err);
/* The loop's. Takes NULL, returns NULL. */
struct pl_project_secrets *pl_project_secrets_destroy(struct pl_project_secrets *s);

/* Names of a project's, malloc'ed with all its texts: free() the list. NULL without memory. Any thread. */
const char **pl_project_secrets_names(struct pl_project_secrets *s, const char *project, size_t *ret_n);
/* Whether all that the stage wants is there. PL_EUNAVAILABLE with how to make it, or why it is not known. Any thread. */
PL_MUST_CHECK
int pl_project_secrets_have(struct pl_project_secrets *s, const char *project, const struct pl_stage *stage, struct pl_err *err);
/* Another one whenever there are others. Any thread. */
uint64_t pl_project_secrets_number(struct pl_project_secrets *s);

/* As `secrets` of an executor: `op` was checked. PL_EEXISTS, PL_ENOTFOUND, PL_ELIMIT, PL_EFORBIDDEN, PL_EINUSE; what the cluster answers. Any thread
 * but the loop's and the client's; blocks. */
PL_MUST_CHECK
int pl_project_secrets_carry_out(struct pl_project_secrets *s, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
