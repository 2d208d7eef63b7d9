/* kube/pod: A stage's worker as a pod: render, patch, check; secrets as objects. Pure.
 *
 * In:      Stage, cluster facts, settings.
 * Out:     The JSON of a pod, or an error that names what the spec may not request.
 * Uses:    policy, spec, text, storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   cluster_facts        facts about the cluster that pod_render uses
 *   gpushare             arithmetic of shared GPU memory
 *   node_cache_path      validates the node folder for the agents' cache
 *   own_limits           whether a namespace's limits refuse pipelined's own containers
 *   pod_patch            JSON merge, strategic merge and JSON patch
 *   pod_render           renders a worker's pod
 *   secret_object        project secrets as Kubernetes Secrets
 *
 * Inside:
 *   gpu_labels           GPU facts from cloud node labels
 *   pod_check            refuses what a spec may not request
 *   pod_check_container  checks of containers
 *   pod_check_internal   state shared by the pod checks
 *   pod_check_volume     checks of volumes
 *   pod_finish           applies template and patches and fills defaults
 *   pod_gpu              ways to request GPUs
 *   pod_internal         pod under construction */
#pragma once
