/* kube/watch: Collections of the cluster that are kept up to date (list, watch, resume).
 *
 * In:      A collection's path.
 * Out:     One event per added, changed or deleted object.
 * Uses:    kube/client, text, storage/{base, http}
 * Threads: The state machine is pure; callbacks on the I/O thread.
 *
 * Headers for other rooms:
 *   kube_informer  runs kube_watch over a client
 *   kube_watch     list-and-watch state machine (pure)
 *
 * Inside:
 *   kube_stream    incremental parser of watch frames and list items */
#pragma once
