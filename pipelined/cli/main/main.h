/* cli/main: main(), the table of verbs, help, completion.
 *
 * In:      argv.
 * Out:     Exit status.
 * Uses:    cli/{admin, data, doctor, runs, support, try}, storage/base
 * Threads: Main thread.
 *
 * Inside:
 *   verb_completion  shell completion
 *   verb_help        help */
#pragma once
