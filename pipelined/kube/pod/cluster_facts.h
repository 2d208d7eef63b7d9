/* cluster_facts: what an API server's answers say of the cluster, as far as pods are rendered by it. Pure. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"

#define PL_FACTS_DRA_BYTES 32

/* The level of Pod Security that a v1 Namespace enforces; NULL: what admits all. */
enum pl_pod_level pl_facts_level(const json_t *space);
/* "restricted", "baseline", "privileged" */
const char *pl_facts_level_name(enum pl_pod_level level);
/* Of the list of API groups ("/apis"; NULL = none): whether it is OpenShift, and the version of resource.k8s.io, which is kept in `dra`. */
void pl_facts_groups(const json_t *groups, struct pl_pod_cluster *ret, char dra[PL_FACTS_DRA_BYTES]);
