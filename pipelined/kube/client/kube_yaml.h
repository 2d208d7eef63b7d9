/* kube_yaml: one YAML document as a JSON value, by libyaml. Plain scalars are null, booleans and integers as YAML 1.2's core schema has
 * them ("yes" and "on" are texts), everything else is text; keys are always text. Aliases are followed within the bounds; tags, a key that
 * stands twice, several documents: PL_EINVAL. */
#pragma once

#include "storage/base/buf.h"
#include <jansson.h>

#define PL_KUBE_YAML_NODES_MAX 200000u /* values, aliases counted as what they stand for */
#define PL_KUBE_YAML_DEPTH_MAX 64u

/* `*ret` JSON null for an empty document. PL_EINVAL "line 3, column 5: …", PL_ETOOBIG, PL_ENOMEM. Any thread. */
PL_MUST_CHECK
int pl_kube_yaml_parse(const void *text, size_t n, json_t **ret, struct pl_err *err);
