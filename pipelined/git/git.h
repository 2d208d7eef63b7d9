/* git: What git knows: about a code folder, and about repositories that the daemon follows (pl-git, a process of its own).
 *
 * In:      A folder; requests with addresses and branches.
 * Out:     JSON: commit, ignored files; tips, and the files of commits.
 * Uses:    policy, text, storage/{base, http}
 * Threads: Its own process.
 *
 * Inside:
 *   git_code   git facts about a code folder, through libgit2
 *   git_copy   a bare copy of one branch of a repository, and the files of its commits
 *   git_fence  limits what the process can do
 *   git_http   git's protocol over https, by libcurl
 *   git_main   main function of pl-git
 *   git_remote connects to repositories, within the rules of the daemon
 *   git_serve  the daemon's requests about repositories
 *   git_setup  libgit2 without the settings of any user
 *   git_ssh    addresses and keys of hosts, for ssh */
#pragma once
