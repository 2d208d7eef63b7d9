/* kube/nodes: What nodes have and what a pod could get; which GPUs are held and how busy they are. Pure.
 *
 * In:      Nodes, pods, exporter text.
 * Out:     An answer with its reason; tables.
 * Uses:    kube/pod, text, storage/base
 * Threads: The event loop.
 *
 * Headers for other rooms:
 *   dcgm_metrics            parses dcgm-exporter metrics
 *   gpu_report              which GPUs nodes have and which pods hold them
 *   node_capacity           what nodes have, and how much of it is taken
 *
 * Inside:
 *   gpushare_table          table of shared GPU memory
 *   node_capacity_answer    whether a pod could be placed, and why not
 *   node_capacity_internal  state shared by node_capacity and node_capacity_answer */
#pragma once
