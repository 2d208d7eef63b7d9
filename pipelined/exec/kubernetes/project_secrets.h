/* project_secrets: secrets of projects (project_secret.h) in the namespace of the stages' pods. Watches which
 * secrets exist, by their metadata only, and carries out operations on them. The labels of a secret
 * (secret_object.h) say to which project it belongs, no matter who created it. */
#pragma once

#include "pipelined/kube/client/kube_client.h"
#include "pipelined/net/loop/loop.h"
#include "pipelined/policy/project_secret.h"
#include "pipelined/spec/spec.h"

#define PL_PROJECT_SECRETS_MAX 65536u /* most secrets in the table, of all projects together */
/* number of secrets per page of a listing that also reads the values, because the API server returns the
 * names of the keys only together with the values. The values of one secret may have 1 MiB */
#define PL_PROJECT_SECRETS_PAGE 10

struct pl_project_secrets;

struct pl_project_secrets_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    const char *space, *store; /* namespace of the stages' pods, and id of this daemon's store; copied */
    /* `may_see`: the account may list and watch secrets; `may_keep`: it may also create, change and delete
     * them (kube_permission.h) */
    bool may_see, may_keep;
    void (*changed)(void *self); /* called on the loop when the set of secrets has changed */
    void *self;
};

/* Lists the secrets, waits for the answer, and watches them from then on. A failed listing is only logged,
 * because the watch delivers the secrets later. PL_ENOMEM. */
PL_MUST_CHECK
int pl_project_secrets_create(const struct pl_project_secrets_config *config, struct pl_project_secrets **ret,
                              struct pl_err *err);
/* Frees the object. Call it on the loop's thread. NULL is allowed; returns NULL. */
struct pl_project_secrets *pl_project_secrets_destroy(struct pl_project_secrets *s);

/* Returns the names of a project's secrets in one allocation, to be freed with free(). NULL without memory.
 * Any thread. */
const char **pl_project_secrets_names(struct pl_project_secrets *s, const char *project, size_t *ret_n);
/* Checks that all secrets that the stage uses exist. PL_EUNAVAILABLE: the error says how to create the
 * missing secret, or why it is unknown which secrets exist. Any thread. */
PL_MUST_CHECK
int pl_project_secrets_have(struct pl_project_secrets *s, const char *project, const struct pl_stage *stage, struct pl_err *err);
/* Returns a number that changes whenever the set of secrets changes. Any thread. */
uint64_t pl_project_secrets_number(struct pl_project_secrets *s);

/* Carries out an operation on secrets, as pl_executor_ops.secrets does; the caller must have checked `op`.
 * PL_EEXISTS, PL_ENOTFOUND, PL_ELIMIT, PL_EFORBIDDEN, PL_EINUSE, and the cluster's errors. Any thread except
 * the loop's and the client's; blocks. */
PL_MUST_CHECK
int pl_project_secrets_carry_out(struct pl_project_secrets *s, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
