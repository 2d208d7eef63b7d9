/* failure: Explains failed datums: the line that says why, and which failures say the same. Pure.
 *
 * In:      Reasons, the ends of printed logs, paths, sizes, nodes.
 * Out:     Lines, groups.
 * Uses:    storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   error_line      the line of a command's output that says why it failed
 *   failure_groups  failed datums, in groups whose messages say the same, and what each group has in common */
#pragma once
