/* cli/doctor: Checks of a machine or a cluster, one line each.
 *
 * In:      This machine, a kubeconfig.
 * Out:     ok, warn or FAIL with the remedy.
 * Uses:    cli/support, db/writer, kube/{client, nodes, pod, pod_state}, storage/{base, system}
 * Threads: Main thread.
 *
 * Inside:
 *   doctor_cluster  checks of a cluster
 *   doctor_machine  checks of this machine
 *   doctor_probe    starts one test pod
 *   verb_doctor     doctor */

/* doctor: checks of what pipelined needs of a machine and a daemon, or of a cluster, a line each: ok, warn or FAIL, and what to do about it.
 *
 *   verb_doctor     options, the end                     doctor_cluster  what the API server says of itself, the namespace, nodes
 *   doctor          the lines                            doctor_probe    a pod as a stage's, started there once
 *   doctor_machine  programs, sandbox, folder, daemon
 *
 * Who asks a cluster is who the kubeconfig says: run it as the daemon's account (in its pod), or as an admin who prepares a cluster for it. */
#pragma once

#include "pipelined/cli/support/cli.h"

#include "pipelined/kube/client/kube_permission.h"
#include "pipelined/kube/pod/cluster_facts.h"

enum pl_doctor_grade { PL_DOCTOR_OK, PL_DOCTOR_WARN, PL_DOCTOR_FAIL };

/* What the daemon will be told (the keys of its configuration); NULL or 0 = not given. */
struct pl_doctor_asked {
    const char *kubeconfig, *context, *name_space, *image, *default_image, *owner, *ca, *trust_bundle, *worker_url, *node_cache;
    const char *pull_secret;
    const char *arch; /* with commas between */
    uint64_t wait_s;  /* for the probe's pod */
};

struct pl_doctor {
    struct pl_cli *cli;
    struct pl_doctor_asked asked;
    json_t *lines; /* [{"grade", "check", "text", "remedy"?}] */
    unsigned count[3];
    struct pl_kube_client *client;
    const char *space;
    struct pl_kube_access access;
    struct pl_pod_cluster facts; /* what is known of the cluster so far */
    bool no_space;               /* the namespace is not there */
    char dra[PL_FACTS_DRA_BYTES];
    json_t *classes; /* names that facts.runtime_classes point to */
    const char **class_names;
};

/* Prints and keeps a line. `remedy` NULL: nothing is to be done. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_doctor_say(struct pl_doctor *d, enum pl_doctor_grade grade, const char *check, const char *remedy, struct pl_err *err,
                  const char *fmt, ...) PL_PRINTF(6, 7);
/* GET, where "may not" and "not there" are answers: *ret_code PL_EFORBIDDEN or PL_ENOTFOUND with `*ret` NULL. As pl_kube_client_get. */
PL_MUST_CHECK
int pl_doctor_get(struct pl_doctor *d, const char *path, json_t **ret, int *ret_code, struct pl_err *err);

/* This machine, and the daemon that pipelinectl would ask. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_doctor_machine(struct pl_doctor *d, struct pl_err *err);
/* Of a cluster: all checks but the probe; fills d->facts. Negative only when going on makes no sense: the line was said. */
PL_MUST_CHECK
int pl_doctor_cluster(struct pl_doctor *d, struct pl_err *err);
/* Starts a pod as a stage's in the namespace and says how it fared; it is removed whatever happens. */
PL_MUST_CHECK
int pl_doctor_probe(struct pl_doctor *d, struct pl_err *err);
