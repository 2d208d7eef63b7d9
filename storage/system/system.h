/* storage/system: Files, threads, child programs and log lines of this machine.
 *
 * In:      File names, work items, log messages.
 * Out:     Whole reads and durable writes; finished work; lines on stderr.
 * Uses:    storage/base
 * Threads: Any thread; the thread pool owns its threads.
 *
 * Headers for other rooms:
 *   cgroup             limits for the processes of a sandbox, by control groups
 *   file_users         finds processes that have a file open (/proc)
 *   io                 whole-file reads and writes, fsync, fault injection for tests
 *   lock_order         debug builds abort on a lock cycle
 *   log_line           log lines on stderr, as JSON or text
 *   pool_turns         slow work of one owner takes turns
 *   process_hardening  no core dumps, no debugger: the process holds tokens
 *   program_run        runs a program and returns its output and its exit status
 *   sync_priority      lets foreground threads sync before background threads
 *   thread_pool        fixed number of threads with one bounded work queue
 *   timed_cond         condition variables with limits on the monotonic clock
 *   trace              what a room does, line by line, for debugging (PIPELINED_TRACE) */
#pragma once
