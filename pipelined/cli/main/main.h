/* cli/main: main(), the list of all tables of subcommands, help, shell completion.
 *
 * In:      argv.
 * Out:     Exit status.
 * Uses:    cli/{admin, data, doctor, runs, support, try}, storage/base
 * Threads: Main thread.
 *
 * Inside:
 *   verb_completion  shell completion
 *   verb_help        help and version */
#pragma once
