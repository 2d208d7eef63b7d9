/* kube/client: Requests to the Kubernetes API: kubeconfig, identity, rate, retries, permissions, container logs.
 *
 * In:      Paths and objects.
 * Out:     Objects, or an error with its remedy.
 * Uses:    text, storage/{base, http, system}
 * Threads: I/O thread of storage/http; blocking forms on any other thread.
 *
 * Headers for other rooms:
 *   kube_client       requests with retries and a rate limit
 *   kube_log          reads a container's log across reconnects
 *   kube_object       creates an object once and deletes exactly that object
 *   kube_permission   checks the daemon's permissions and what is off without them
 *   kube_response     classifies API responses
 *   kubeconfig        reads kubeconfig files and the pod's service account
 *
 * Inside:
 *   kube_exec_plugin  runs a kubeconfig's credential plugin
 *   kube_identity     the credential in force and its renewal
 *   kube_rate_limit   adaptive request rate
 *   kube_wait         lets a thread wait for an asynchronous request
 *   kube_yaml         reads a YAML document as JSON */

/* pipelined/kube: Kubernetes as seen through its API: which server and who we are, requests that are tried again where that may help,
 * lists that are kept up to date, logs of pods, what we are allowed. Nothing here decides what runs where.
 *
 *   kubeconfig     which cluster, whose identity: kubeconfig files, or the pod's own account
 *   kube_yaml      YAML as JSON
 *   kube_identity  the identity in force: tokens read again, plugins run again (kube_exec)
 *   kube_status    the server's refusals, and what to do about each: pure
 *   kube_rate      how many requests a second: pure
 *   kube_client    requests, by storage/object's http_io, on its one thread
 *   kube_write     create once, delete exactly that one
 *   kube_scan      JSON as it arrives, less what nobody needs: pure
 *   kube_watch     list, watch and what may go wrong between: pure;  kube_informer: the same over kube_client
 *   kube_log       what a container prints;  kube_access: what we may do, and what is switched off without it
 *
 *   pod_render     a stage's worker as a pod: pure;  pod_gpu: the ways to ask for GPUs (gpu_presets.json), pod_patch, pod_patched: applied to a
 *                  pod, pod_check (pod_check_container, pod_check_volume): what specs may not ask for
 *   cluster_facts  what pods are rendered by, from the API server's answers: pure;  cache_folder: which folder of nodes may be agents' cache: pure
 *   pod_state      what is the matter with a pod, and whose business it is: pure;  last_words: the end of what a container printed;  workload: what Kueue says
 *                  of one that it holds back: pure
 *   offer          what the cluster's nodes could give it, offer_answers: in sentences;  pod_ramp: how many may wait for a node at once: pure
 *
 *   gpu_report     which GPUs the nodes have, who holds them and how they are used (dcgm), and gpushare_table: pure;  secret_object: secrets of
 *                  projects as the cluster keeps them: pure
 *
 * Uses core, storage and libcurl (by storage/object); no loop: what a callback brings on the I/O thread is handed over by its owner. */
#pragma once

#include "storage/base/base.h"
