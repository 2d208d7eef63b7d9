/* cli/support: Code that all subcommands share: arguments, tables and JSON output, server access, saved contexts.
 *
 * In:      argv, the environment.
 * Out:     A parsed verb; printed answers.
 * Uses:    net/{http_client, remote}, spec, storage/{base, system, tree_edit}, storage/dataset/commit
 * Threads: Main thread.
 *
 * Headers for other rooms:
 *   args           parses the command line
 *   cli            rows of the verb tables, interrupts, entry point of the whole program
 *   confirm        asks on a terminal before data goes; deletes
 *   contexts       saved server addresses and tokens
 *   job_table      prints a run's jobs as a table
 *   progress       progress line on a terminal
 *   push_ops       sends operations to a branch and prints the result
 *   run_wait       waits for runs
 *   server_client  finds the server's address and token; makes requests
 *   show           tables, fields and JSON output
 *
 * Inside:
 *   word_hints     hints for verbs and options of kubectl, pachctl, dvc and git */
#pragma once
