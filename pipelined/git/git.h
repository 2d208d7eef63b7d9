/* git: What git knows: about a code folder, and about repositories that the daemon follows (pl-git, a process of its own).
 *
 * In:      A folder; requests with addresses and branches.
 * Out:     JSON: commit, ignored files; tips, and the files of commits.
 * Uses:    text, storage/base
 * Threads: Its own process.
 *
 * Inside:
 *   git_code   git facts about a code folder, through libgit2
 *   git_copy   a bare copy of one branch of a repository, and the files of its commits
 *   git_fence  limits what the process can do
 *   git_main   main function of pl-git
 *   git_serve  the daemon's requests about repositories
 *   git_setup  libgit2 without the settings of any user */
#pragma once
