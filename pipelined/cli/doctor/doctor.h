/* cli/doctor: Checks a machine or a cluster and prints one line per check.
 *
 * In:      This machine, a kubeconfig.
 * Out:     ok, warn or FAIL with the remedy.
 * Uses:    cli/support, db/writer, kube/{client, nodes, pod, pod_state}, sandbox_view, text, storage/{base, system}
 * Threads: Main thread.
 *
 * Inside:
 *   doctor_cluster  checks of a cluster
 *   doctor_machine  checks of this machine and its daemon
 *   doctor_probe    starts a test pod
 *   verb_doctor     the subcommand doctor */

/* doctor: checks whether a machine and its daemon, or a cluster, have what pipelined needs. Each check prints a
 * line with ok, warn or FAIL, and what to do about it.
 *
 *   verb_doctor     options, order of checks, summary
 *   doctor          prints and collects the lines
 *   doctor_machine  programs, sandbox, folder, daemon
 *   doctor_cluster  API server, namespace, rights, nodes, quotas
 *   doctor_probe    starts one pod as a stage would
 *
 * Requests to a cluster are made with the account of the kubeconfig: run doctor with the daemon's account (in its
 * pod), or as an admin who prepares a cluster for the daemon. */
#pragma once

#include "pipelined/cli/support/cli.h"

#include "pipelined/kube/client/kube_permission.h"
#include "pipelined/kube/pod/cluster_facts.h"

enum pl_doctor_grade { PL_DOCTOR_OK, PL_DOCTOR_WARN, PL_DOCTOR_FAIL };

/* The settings that the daemon will use, named like the keys of its configuration; NULL or 0 = not given. */
struct pl_doctor_asked {
    const char *kubeconfig, *context, *name_space, *image, *default_image, *owner, *ca, *trust_bundle, *worker_url, *node_cache;
    const char *pull_secret, *agent_memory;
    int64_t agent_memory_bytes; /* of `agent_memory` */
    const json_t *pod_template; /* owned by the configuration's JSON */
    const char *arch;           /* list of processor architectures, separated by commas */
    uint64_t wait_s;            /* how long to wait for the test pod, in seconds */
};

struct pl_doctor {
    struct pl_cli *cli;
    struct pl_doctor_asked asked;
    json_t *lines; /* JSON array of the lines printed so far: [{"grade", "check", "text", "remedy"?}] */
    /* number of lines printed with each grade (ok, warn, FAIL) */
    unsigned count[3];
    struct pl_kube_client *client;
    /* the namespace in which stages' pods run */
    const char *space;
    /* the requests to the API server that the account is allowed to make */
    struct pl_kube_access access;
    /* what the checks have found out about the cluster; the test pod is built with it */
    struct pl_pod_cluster facts;
    bool no_space; /* the namespace does not exist */
    /* version of the API group resource.k8s.io; facts.dra points to it */
    char dra[PL_FACTS_DRA_BYTES];
    json_t *classes; /* JSON list of the cluster's RuntimeClasses; it owns the strings in `class_names` */
    /* names of the RuntimeClasses; facts.runtime_classes points to it */
    const char **class_names;
};

/* Prints a line and appends it to d->lines. `remedy` says what to do; NULL = nothing. PL_ENOMEM. */
PL_MUST_CHECK
int pl_doctor_say(struct pl_doctor *d, enum pl_doctor_grade grade, const char *check, const char *remedy, struct pl_err *err,
                  const char *fmt, ...) PL_PRINTF(6, 7);
/* Sends a GET request to the API server. The replies "forbidden" and "not found" are not errors of this
 * function: it then returns 0, with PL_EFORBIDDEN or PL_ENOTFOUND in `*ret_code` and `*ret` NULL. Other
 * errors as for pl_kube_client_get. */
PL_MUST_CHECK
int pl_doctor_get(struct pl_doctor *d, const char *path, json_t **ret, int *ret_code, struct pl_err *err);

/* Runs all checks of this machine, and of the daemon to which pipelinectl would connect. PL_ENOMEM. */
PL_MUST_CHECK
int pl_doctor_machine(struct pl_doctor *d, struct pl_err *err);
/* Runs all checks of a cluster except the test pod, and fills d->facts. Returns a negative code only if no
 * further check makes sense; a line that says why has then been printed. */
PL_MUST_CHECK
int pl_doctor_cluster(struct pl_doctor *d, struct pl_err *err);
/* Builds the pod of a stage exactly as the daemon would. `*ret` is a new reference. PL_ENOMEM; errors of
 * pl_pod_render. */
PL_MUST_CHECK
int pl_doctor_pod(struct pl_doctor *d, json_t **ret, struct pl_err *err);
/* Starts a test pod in the namespace, built like the pod of a stage, and prints the result. The pod is always
 * deleted afterwards. */
PL_MUST_CHECK
int pl_doctor_probe(struct pl_doctor *d, struct pl_err *err);
