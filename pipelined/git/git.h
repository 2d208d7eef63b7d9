/* git: What git knows about a code folder (pl-git, a process of its own).
 *
 * In:      A folder.
 * Out:     JSON: commit, ignored files.
 * Uses:    storage/base
 * Threads: Its own process.
 *
 * Inside:
 *   git_code  git facts about a code folder, through libgit2
 *   git_main  main function of pl-git */
#pragma once
