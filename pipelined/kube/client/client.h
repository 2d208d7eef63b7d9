/* kube/client: Requests to the Kubernetes API: kubeconfig, identity, rate, retries, permissions, container
 * logs.
 *
 * In:      Paths and objects.
 * Out:     Objects, or an error with its remedy.
 * Uses:    text, storage/{base, http, system}
 * Threads: I/O thread of storage/http; blocking forms on any other thread.
 *
 * Headers for other rooms:
 *   kube_client       requests with retries and a rate limit
 *   kube_event        builds the Events about one object, and bounds how many are sent
 *   kube_log          reads a container's log across reconnects
 *   kube_object       creates an object once and deletes exactly that object
 *   kube_permission   checks the daemon's permissions, and which features are off without them
 *   kube_response     classifies API responses
 *   kubeconfig        reads kubeconfig files and the pod's service account
 *
 * Inside:
 *   kube_exec_plugin  runs a kubeconfig's credential plugin
 *   kube_identity     the current credentials and their renewal
 *   kube_rate_limit   adaptive request rate
 *   kube_wait         lets a thread wait for an asynchronous request
 *   kube_yaml         reads a YAML document as JSON
 *
 * This room makes no decisions about what runs where, and does not know the event loop: callbacks run on the
 * I/O thread, and their owner hands the results to its own thread. */
#pragma once

#include "storage/base/base.h"
