/* kube_permission: the permissions of the daemon's account in the cluster, queried once at the start, and the
 * features that are off without them.
 *
 * Each row of the table is one question (a SelfSubjectAccessReview) and belongs to a feature. A feature is
 * off if one of its questions is answered with no; without PODS nothing works. A question without an answer
 * counts as yes: a permission that is really missing is noticed when it is needed. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

/* X(NAME, text that says what does not work without the feature); without the first feature nothing works */
#define PL_KUBE_FEATURES(X)                                                                                                      \
    X(PODS, "no stage can run as a pod")                                                                                         \
    X(MANIFESTS, "pods have no owner, so they stay when the daemon is deleted")                                                  \
    X(EVENTS, "the reason why a pod waits is taken only from its conditions")                                                    \
    X(WRITE_EVENTS, "no Events tell of lost workers and outages; the log and inspect job do")                                    \
    X(LOGS, "container logs are not shown: neither for an agent that does not connect nor by pipelinectl logs --container")      \
    X(NODES, "the cluster's capacity is unknown and GPUs are not listed")                                                        \
    X(ALL_PODS, "free capacity of nodes is not shown, because pods of other namespaces are unknown")                             \
    X(QUOTAS, "quotas and limit ranges are noticed only when they refuse a pod")                                                 \
    X(ROOM, "a pod that a quota refused is retried after a pause, not as soon as there is room")                                 \
    X(RUNTIME_CLASSES, "runtime classes are requested without checking that they exist")                                         \
    X(CLAIMS, "GPUs by resource claims (DRA) are not available")                                                                 \
    X(SECRETS, "stages with secrets do not run, because it is unknown which project a secret belongs to")                        \
    X(KEEP_SECRETS, "pipelinectl cannot create, change or delete secrets")

enum pl_kube_feature {
#define PL_KUBE_FEATURE_ENUM(name, without) PL_KUBE_MAY_##name,
    PL_KUBE_FEATURES(PL_KUBE_FEATURE_ENUM)
#undef PL_KUBE_FEATURE_ENUM
        PL_KUBE_FEATURE_COUNT
};

struct pl_kube_question {
    enum pl_kube_feature feature;
    const char *verb, *group, *resource, *sub; /* group "" = core API group; sub = subresource, NULL = none */
    /* cluster-wide permission; false = permission in the daemon's namespace */
    bool cluster;
};
/* Returns the table of questions and its number of rows. */
const struct pl_kube_question *pl_kube_questions(size_t *ret_n);

enum pl_kube_reply { PL_KUBE_YES, PL_KUBE_NO, PL_KUBE_UNKNOWN };

struct pl_kube_access {
    bool on[PL_KUBE_FEATURE_COUNT];
    unsigned unknown; /* number of questions without an answer */
};

/* Concludes from the replies, one per question, which features are on. For each feature that is off a line is
 * appended to `lines` (may be NULL): "list nodes (cluster), watch nodes (cluster): not allowed: …".
 * PL_ENOMEM. Pure. */
PL_MUST_CHECK
int pl_kube_access_conclude(const enum pl_kube_reply *replies, size_t n, struct pl_kube_access *ret, struct pl_buf *lines,
                            struct pl_err *err);
/* Sends all questions at once and waits for the replies. PL_EAUTH, PL_ENET and other errors only if none of
 * the questions was answered. Not on the I/O thread. */
PL_MUST_CHECK
int pl_kube_access_ask(struct pl_kube_client *c, const char *space, struct pl_kube_access *ret, struct pl_buf *lines,
                       struct pl_err *err);
