/* cli/try: Subcommands that need no server: validate, glob, plan, try.
 *
 * In:      Specs and local folders.
 * Out:     Datums, the output of one datum.
 * Uses:    cli/{local, support}, net/remote, plan, sandbox_view, text, storage/{base, http, pack, store, system}
 * Threads: Main thread; starts pipelined-worker.
 *
 * Inside:
 *   try_folder    temporary folder of the subcommand try
 *   try_inputs    inputs of a tried datum, and the choice of the datum
 *   try_sandbox   makes the sandbox like the daemon's
 *   try_worker    runs pipelined-worker --try
 *   verb_offline  validate, glob
 *   verb_plan     plan: datums of local folders
 *   verb_try      try: runs one datum */
#pragma once
