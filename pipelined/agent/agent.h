/* pipelined/agent: the programs that do a stage's work. pipelined-worker (the agent) moves data and talks to the daemon;
 * pl-runner (static, libc alone) starts the command where the user's files are and cleans up behind it.
 *
 *   worker_main   options, signals, the work folder, exit codes
 *   worker        attach → tasks → each datum → results, until the daemon says end: one thread fetches, one runs commands (the main
 *                 one), one uploads;  flow is how rows pass from one to the next
 *   try           one datum for pipelinectl try, without lease and commit;  shell  a person in the place of its command
 *   uplink        the connection to the daemon, and how long it goes without
 *   wire          agent protocol 1: JSON of attach, next and renew ⇄ plain structs
 *   lease         the calls of that protocol, the renewing thread, what to do while the daemon is away
 *   datum         one datum, in steps: inputs → command → outputs, with the seconds and bytes of each
 *   inputs        /pfs/<input> of a datum, built aside and put in place by rename;  input_folder writes the files,
 *                 input_change turns those of one commit into those of another,
 *                 input_kept leaves them to the next worker
 *   input_refs    entries of inputs that an output links to
 *   folder_move   what a command left → aside, while the next one writes
 *   early         output files that the command leaves alone are uploaded while it runs;  early_walk sees them, writers who writes
 *   outputs       /pfs/out of a datum → entries; names, links and special files judged
 *   link_target   where a symbolic link of /pfs/out leads (pure)
 *   env           the environment of the command (pure)
 *   batch         a command that stays alive and asks for each datum;  next_server is where it asks, next_main (pl-next) and pl.py how
 *   outlog        output of commands and lines of metrics.jsonl → the daemon, as they are produced (a thread)
 *   metrics       follows metrics.jsonl while the command runs
 *   mesh          the proxy of a service mesh, which ends with its worker
 *   gpu           utilisation and memory of the worker's GPUs, through NVML when it is there
 *   sandbox       bubblewrap's arguments; seccomp, the system calls it denies; the probe
 *   runner_client starts sandbox and runner, runs one command after another in it
 *   runner_proto  the frames between agent and runner;  runner.c is the runner, runner_pod what it does differently in a pod
 *   unix_listen   a socket in a folder
 *
 * Uses net (HTTP client, remote store), all of storage and core; never exec, api, git or cli. */
#pragma once
