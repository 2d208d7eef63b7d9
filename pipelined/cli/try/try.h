/* cli/try: Verbs without a server: validate, glob, plan, try.
 *
 * In:      Specs and local folders.
 * Out:     Datums, the output of one datum.
 * Uses:    cli/{local, support}, net/remote, plan, text, storage/{base, pack, store, system}
 * Threads: Main thread; starts pipelined-worker.
 *
 * Inside:
 *   try_folder    temporary folder of a try
 *   try_inputs    inputs and datum of a try
 *   try_worker    starts pipelined-worker --try
 *   verb_offline  validate, glob
 *   verb_plan     plan over local folders
 *   verb_try      try one datum */
#pragma once
