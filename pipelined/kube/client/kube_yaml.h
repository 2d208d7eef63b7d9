/* kube_yaml: parses one YAML document to a JSON value, with libyaml. Plain scalars are null, booleans and
 * integers as in YAML 1.2's core schema ("yes" and "on" are strings); all other scalars and all keys are
 * strings. Aliases are expanded, within the limits below. Tags, duplicate keys and several documents are
 * errors: PL_EINVAL. */
#pragma once

#include "storage/base/buf.h"
#include <jansson.h>

/* maximum number of values; each use of an alias counts all values of the node that it names */
#define PL_KUBE_YAML_NODES_MAX 200000u
#define PL_KUBE_YAML_DEPTH_MAX 64u

/* Parses the document; JSON null for an empty one. PL_EINVAL "line 3, column 5: …", PL_ETOOBIG, PL_ENOMEM.
 * Any thread. */
PL_MUST_CHECK
int pl_kube_yaml_parse(const void *text, size_t n, json_t **ret, struct pl_err *err);
