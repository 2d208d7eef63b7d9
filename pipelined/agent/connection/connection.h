/* agent/connection: The agent's connection: requests that survive a restart of the daemon, leases, output log.
 *
 * In:      Results, log pieces.
 * Out:     Tasks; renewals.
 * Uses:    net/{agent_protocol, http_client, remote}, text, storage/{base, chunk, pack, system}
 * Threads: A renewal thread and a log thread of its own.
 *
 * Headers for other rooms:
 *   daemon_client  requests to the daemon with reconnect
 *   output_log     sends command output and metrics in order
 *   task_lease     leased tasks, renewals and results */
#pragma once
