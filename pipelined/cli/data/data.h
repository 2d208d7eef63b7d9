/* cli/data: Subcommands for data: put, get, file, commit, branch, repo, project.
 *
 * In:      Local files.
 * Out:     Commits; files.
 * Uses:    cli/support, net/remote, storage/dataset/{checkout, file, ingest},
 *          storage/{pack, system, tree_edit}
 * Threads: Main thread; ingest and checkout start their own threads.
 *
 * Inside:
 *   local_space   free space of this machine's disks
 *   verb_branch   branches
 *   verb_commit   commits
 *   verb_file     list, glob, inspect, diff and delete file
 *   verb_get      get file
 *   verb_project  projects
 *   verb_put      put file
 *   verb_repo     repos */
#pragma once
