/* agent/runner: Static programs that run next to a stage's command: pl-runner starts the command, pl-next
 * asks for the next datum. They link libc only and use only the headers of other rooms.
 *
 * In:      Frames over a Unix socket. Out:     Exit status, resource usage, output. Uses:
 * net/agent_protocol, storage/base Threads: Single-threaded processes.
 *
 * Headers for other rooms:
 *   copy_links    replaces output links by copies of their targets
 *   link_target   resolves where an output link leads
 *
 * Inside:
 *   next_program  pl-next: asks for the next datum of a batch
 *   no_network    removes the network from a pod's command
 *   runner_pod    pl-runner as the first process of a container */
#pragma once
