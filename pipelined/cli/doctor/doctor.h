/* cli/doctor: Checks a machine or a cluster and prints one line per check.
 *
 * In:      This machine, a kubeconfig.
 * Out:     ok, warn or FAIL with the remedy.
 * Uses:    cli/support, db/writer, kube/{client, nodes, pod, pod_state}, storage/{base, system}
 * Threads: Main thread.
 *
 * Inside:
 *   doctor_cluster  checks of a cluster
 *   doctor_machine  checks of this machine and its daemon
 *   doctor_probe    starts a test pod
 *   verb_doctor     the verb doctor */

/* doctor: checks what pipelined needs of a machine and its daemon, or of a cluster. Each check prints a line
 * with ok, warn or FAIL, and what to do about it.
 *
 *   verb_doctor     options, order of checks, summary
 *   doctor          prints and collects the lines
 *   doctor_machine  programs, sandbox, folder, daemon
 *   doctor_cluster  API server, namespace, rights, nodes, quotas
 *   doctor_probe    starts one pod as a stage would
 *
 * A cluster is asked with the account of the kubeconfig: run doctor with the daemon's account (in its pod), or
 * as an admin who prepares a cluster for it. */
#pragma once

#include "pipelined/cli/support/cli.h"

#include "pipelined/kube/client/kube_permission.h"
#include "pipelined/kube/pod/cluster_facts.h"

enum pl_doctor_grade { PL_DOCTOR_OK, PL_DOCTOR_WARN, PL_DOCTOR_FAIL };

/* Settings that the daemon will use, named like the keys of its configuration; NULL or 0 = not given. */
struct pl_doctor_asked {
    const char *kubeconfig, *context, *name_space, *image, *default_image, *owner, *ca, *trust_bundle, *worker_url, *node_cache;
    const char *pull_secret;
    const char *arch; /* architectures, separated by commas */
    uint64_t wait_s;  /* seconds to wait for the probe's pod */
};

struct pl_doctor {
    struct pl_cli *cli;
    struct pl_doctor_asked asked;
    json_t *lines; /* lines so far: [{"grade", "check", "text", "remedy"?}] */
    /* number of lines per grade */
    unsigned count[3];
    struct pl_kube_client *client;
    /* the namespace in which stages' pods run */
    const char *space;
    /* which requests the account may make */
    struct pl_kube_access access;
    struct pl_pod_cluster facts; /* what the checks have found out about the cluster */
    bool no_space;               /* the namespace does not exist */
    /* version of the API group resource.k8s.io; facts.dra points to it */
    char dra[PL_FACTS_DRA_BYTES];
    json_t *classes; /* list of RuntimeClasses, which owns the names in `class_names` */
    /* names of the RuntimeClasses; facts.runtime_classes points to it */
    const char **class_names;
};

/* Prints a line and adds it to d->lines. `remedy` NULL = nothing needs to be done. PL_ENOMEM. */
PL_MUST_CHECK
int pl_doctor_say(struct pl_doctor *d, enum pl_doctor_grade grade, const char *check, const char *remedy, struct pl_err *err,
                  const char *fmt, ...) PL_PRINTF(6, 7);
/* Sends GET to the API server. "Forbidden" and "not found" are no errors here: then `*ret_code` is
 * PL_EFORBIDDEN or PL_ENOTFOUND, and `*ret` is NULL. Other errors as for pl_kube_client_get. */
PL_MUST_CHECK
int pl_doctor_get(struct pl_doctor *d, const char *path, json_t **ret, int *ret_code, struct pl_err *err);

/* Checks this machine, and the daemon that pipelinectl would use. PL_ENOMEM. */
PL_MUST_CHECK
int pl_doctor_machine(struct pl_doctor *d, struct pl_err *err);
/* Runs all checks of a cluster except the probe, and fills d->facts. Negative only if no further check makes
 * sense; then the line that says why has been printed. */
PL_MUST_CHECK
int pl_doctor_cluster(struct pl_doctor *d, struct pl_err *err);
/* Starts a pod in the namespace, built like a stage's pod, and prints what happened to it. The pod is removed
 * in every case. */
PL_MUST_CHECK
int pl_doctor_probe(struct pl_doctor *d, struct pl_err *err);
