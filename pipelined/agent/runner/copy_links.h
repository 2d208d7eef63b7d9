/* copy_links: pl-runner's second task. After a command of a stage with output.copy_links has ended, links in
 * its output are replaced by copies of their targets. The copying runs as a command in the same sandbox with
 * the same rights: it cannot read anything that the stage's command could not read, and paths mean the same.
 *
 *   pl-runner --copy-links OUT PFS      OUT: the output folder; PFS: the folder of the inputs and of OUT
 *
 * Links within the output and links into an input are not replaced (link_target.h). A link to a file becomes
 * a file with the same bytes and executable bit. A link to a folder becomes a folder with everything in it;
 * links in it are followed if they lead to files. Refused, with the link's name: a missing target, a device,
 * a FIFO or socket, a folder that contains the output, a link to a folder inside such a folder, more than
 * PL_COPY_ITEMS_MAX items, or more than PL_COPY_DEPTH_MAX levels. Exit code 0, or 1 with one line on standard
 * error. Uses libc only. */
#pragma once

#define PL_COPY_LINKS     "--copy-links"
#define PL_COPY_ITEMS_MAX (1u << 20)
#define PL_COPY_DEPTH_MAX 256u

/* Replaces the links. Returns the exit code. */
int pl_copy_links(const char *out, const char *pfs);
