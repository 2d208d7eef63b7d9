/* agent/connection: The agent's connection to the daemon: requests that survive a restart of the daemon, task
 * leases, and the delivery of command output.
 *
 * In:      Results, pieces of command output.
 * Out:     Tasks; lease renewals.
 * Uses:    net/{agent_protocol, http_client, remote}, text, storage/{base, chunk, pack, system}
 * Threads: Its own renewal thread and its own log thread.
 *
 * Headers for other rooms:
 *   daemon_client  requests to the daemon, with reconnection
 *   output_log     sends command output and metrics in order
 *   task_lease     leased tasks, renewals and results */
#pragma once
