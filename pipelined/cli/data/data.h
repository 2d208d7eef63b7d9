/* cli/data: Verbs: put, get, file, commit, branch, repo, project.
 *
 * In:      Local files.
 * Out:     Commits; files.
 * Uses:    cli/support, net/remote, storage/dataset/{checkout, file, ingest}, storage/{pack, system, tree_edit}
 * Threads: Main thread; ingest and checkout start theirs.
 *
 * Inside:
 *   verb_branch   branches
 *   verb_commit   commits
 *   verb_file     list, diff and delete files
 *   verb_get      get file
 *   verb_project  projects
 *   verb_put      put file
 *   verb_repo     repos */
#pragma once
