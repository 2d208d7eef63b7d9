/* git_serve: the daemon's requests about repositories, answered one after another by this process. The daemon starts it for
 * a batch of sources and kills it when an answer takes too long: libgit2 has no time limits.
 *
 *   pl-git serve FOLDER RULES [READABLE…]
 *
 * FOLDER holds the copies. RULES is what the process may connect to, {"schemes", "hosts", "networks", "ca"} as in
 * storage/http/outbound.h. READABLE: folders below which local repositories may lie.
 *
 * Each request is one line of JSON on standard input, each answer lines of JSON on standard output:
 *
 *   {"do": "look", "copy", "url", "branch", "have", "preview"?: true, "secret": {"username"?, "password"?, "ssh_key"?, "passphrase"?, "known_hosts"?}}
 *     → {"progress": true} for each 512 KiB of a pack, and some of its messages; {"id", "author", "message", "at", "forced"}
 *     `preview`: another branch than the one that the copy is of, which is fetched beside it
 *   {"do": "branches", "copy", "url", "secret"}
 *     → {"branch", "id"} for each branch, at most PL_GIT_BRANCHES_MAX; {"done": true, "more", "head"}. `more`: there are more of them;
 *       `head`: the default branch, "" = none. Of other references, such as those of forks, nothing is told.
 *   {"do": "read", "copy", "commit", "folder", "glob"?, "files": [GLOB…], "ignore", "n_max", "len_max"}
 *     → {"path", "kind": "file" | "exec" | "link", "len", "lfs"} and then `len` bytes, for each file; {"done": true}
 *   each →  {"error": number of the code, "message"}
 *
 * `copy` is a name below FOLDER, NAME or NAME.NAME. The process ends when its input does, and at once when the thread that
 * started it ends: two processes must not work in one copy. It can write only below FOLDER and read only FOLDER, the READABLE
 * folders and what programs need (certificates, name service), where the kernel has Landlock; its memory and the size of its
 * files are limited. */
#pragma once

#include "storage/base/err.h"

/* Answers requests until the input ends or nobody reads the output. `rules` is the JSON text of RULES. PL_EIO, PL_EINVAL: the
 * input is not a request, or an answer could not be written. */
PL_MUST_CHECK
int pl_git_serve(const char *folder, const char *rules, const char *const *readable, size_t n_readable, struct pl_err *err);
