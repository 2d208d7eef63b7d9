/* cluster_facts: reads the facts about the cluster that pod_render needs from an API server's answers.
 * Pure. */
#pragma once

#include "pipelined/kube/pod/pod_render.h"

#define PL_FACTS_DRA_BYTES 32

/* Returns the Pod Security level that a v1 Namespace enforces; "privileged", which admits every pod, if
 * `space` is NULL. */
enum pl_pod_level pl_facts_level(const json_t *space);
/* Returns "restricted", "baseline" or "privileged". */
const char *pl_facts_level_name(enum pl_pod_level level);
/* Reads the list of API groups ("/apis"; NULL = none): whether the cluster is OpenShift, and the preferred
 * version of resource.k8s.io, which is stored in `dra`; ret->dra points there. */
void pl_facts_groups(const json_t *groups, struct pl_pod_cluster *ret, char dra[PL_FACTS_DRA_BYTES]);
