/* cluster_facts.c: reads the pod security level from a Namespace and the served API groups from /apis. */
#include "pipelined/kube/pod/cluster_facts.h"

#include "pipelined/text/json_text.h"

#include <stdio.h>

static const char *const levels[] = {
    [PL_LEVEL_PRIVILEGED] = "privileged", [PL_LEVEL_BASELINE] = "baseline", [PL_LEVEL_RESTRICTED] = "restricted"};

const char *pl_facts_level_name(enum pl_pod_level level)
{
    return levels[level];
}

enum pl_pod_level pl_facts_level(const json_t *space)
{
    const json_t *labels = json_object_get(json_object_get(space, "metadata"), "labels");
    const char *name = pl_json_str(labels, "pod-security.kubernetes.io/enforce");

    for (size_t i = 0; i < PL_ARRAY_SIZE(levels); i++)
        if (pl_streq(levels[i], name))
            return (enum pl_pod_level)i;
    return PL_LEVEL_PRIVILEGED;
}

void pl_facts_groups(const json_t *groups, struct pl_pod_cluster *ret, char dra[PL_FACTS_DRA_BYTES])
{
    const json_t *group;
    size_t i;

    json_array_foreach(json_object_get(groups, "groups"), i, group)
    {
        const char *name = pl_json_str(group, "name");

        if (pl_streq(name, "security.openshift.io"))
            ret->openshift = true;
        if (pl_streq(name, "resource.k8s.io"))
            snprintf(dra, PL_FACTS_DRA_BYTES, "%s", pl_json_str(json_object_get(group, "preferredVersion"), "version"));
    }
    ret->dra = *dra ? dra : NULL;
}
