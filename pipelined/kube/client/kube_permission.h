/* kube_access: what the cluster lets us do, asked once at the start, and what is switched off for want of it.
 *
 * Each row of the table is one question (SelfSubjectAccessReview). Those that nothing works without are needed; each other belongs to a
 * feature, which is off when one of its questions is answered with no. A question without an answer counts as yes: what is forbidden is
 * seen again when it is done. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

/*  X(NAME, what is off without it) — the first: nothing works */
#define PL_KUBE_FEATURES(X)                                                                                                      \
    X(PODS, "no stage can run as a pod")                                                                                         \
    X(MANIFESTS, "pods have no owner, so that deleting the daemon leaves them")                                                  \
    X(EVENTS, "why a pod waits is told from its conditions alone")                                                               \
    X(LOGS, "what a container printed is not shown: not where its agent does not come, not by pipelinectl logs --container")     \
    X(NODES, "what the cluster could offer is learnt from the pods that ran; GPUs are not listed")                               \
    X(ALL_PODS, "how much of a node is free is not shown: pods of other namespaces are not seen")                                \
    X(QUOTAS, "quotas and limit ranges are seen only when they refuse a pod")                                                    \
    X(ROOM, "a pod that a quota refused is tried again by time alone, not as soon as there is room")                             \
    X(RUNTIME_CLASSES, "a runtime class is asked for without knowing whether it is there")                                       \
    X(CLAIMS, "GPUs by resource claims (DRA) are not available")                                                                 \
    X(SECRETS, "stages with secrets do not run: whose a secret is is not seen")                                                  \
    X(KEEP_SECRETS, "pipelinectl makes, changes and removes no secrets")

enum pl_kube_feature {
#define PL_KUBE_FEATURE_ENUM(name, without) PL_KUBE_MAY_##name,
    PL_KUBE_FEATURES(PL_KUBE_FEATURE_ENUM)
#undef PL_KUBE_FEATURE_ENUM
        PL_KUBE_FEATURE_COUNT
};

struct pl_kube_question {
    enum pl_kube_feature feature;
    const char *verb, *group, *resource, *sub; /* group "" = core; sub NULL = none */
    bool cluster;                              /* asked of the cluster, not of the namespace */
};
/* The table; `*ret_n` rows. */
const struct pl_kube_question *pl_kube_questions(size_t *ret_n);

enum pl_kube_reply { PL_KUBE_YES, PL_KUBE_NO, PL_KUBE_UNKNOWN };

struct pl_kube_access {
    bool on[PL_KUBE_FEATURE_COUNT];
    unsigned unknown; /* questions without an answer */
};

/* Pure: what follows from the replies, one a question. For each feature that is off a line is appended to `lines` (may be NULL):
 * "list nodes, watch nodes (cluster): not allowed: what the cluster could offer …". PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_access_conclude(const enum pl_kube_reply *replies, size_t n, struct pl_kube_access *ret, struct pl_buf *lines,
                            struct pl_err *err);
/* Asks all of them, together; waits. PL_EAUTH, PL_ENET and the like only when not one could be asked. Not on the I/O thread. */
PL_MUST_CHECK
int pl_kube_access_ask(struct pl_kube_client *c, const char *space, struct pl_kube_access *ret, struct pl_buf *lines,
                       struct pl_err *err);
