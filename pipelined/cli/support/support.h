/* cli/support: What all verbs share: arguments, tables and JSON output, the server, saved contexts.
 *
 * In:      argv, the environment.
 * Out:     A parsed verb; printed answers.
 * Uses:    net/{http_client, remote}, spec, storage/{base, system, tree_edit}, storage/dataset/commit
 * Threads: Main thread.
 *
 * Headers for other rooms:
 *   args           parses the command line
 *   cli            verb rows, interrupts, the whole program's entry
 *   contexts       saved server addresses
 *   job_table      runs and their jobs as a table
 *   program_path   finds the programs installed beside this one
 *   progress       progress line on a terminal
 *   push_ops       sends operations to a branch and prints the result
 *   server_client  address, token and requests
 *   show           tables, fields and JSON output
 *
 * Inside:
 *   word_hints     words of other tools and our word for them */
#pragma once
