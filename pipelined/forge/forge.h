/* forge: Tells servers of git repositories (GitHub, GitLab, Gitea, Forgejo) whether a commit is good.
 *
 *   commit, good or not, text ──commit_status──▶ POST of JSON ──status_poster──▶ the server of the repository
 *
 * In:      The address of a repository, a commit and what to say of it; a secret of a project.
 * Out:     Requests; a note of what was sent, or why not.
 * Uses:    policy, text, storage/{base, http}
 * Threads: One of http_io, from the first request on. Callers wait for the answer.
 *
 * Headers for other rooms:
 *   status_poster    sends statuses of commits, and notes which were sent
 *   commit_status    the request, made purely */
#pragma once
