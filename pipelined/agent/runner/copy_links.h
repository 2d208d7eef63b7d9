/* copy_links: pl-runner's second task: after a command has ended, what links of its output lead to is put in their place, for stages with
 * output.copy_links. It is a command like the one before, in the same sandbox with the same rights: nothing is read that the command
 * could not have read, and paths are what they were for it.
 *
 *   pl-runner --copy-links OUT PFS      OUT: the output folder; PFS: the folder of the inputs, of which it is "out"
 *
 * Links within the output and into an input stay (link_target.h). A link to a file becomes a file with its bytes, executable or not; one to a
 * folder a folder with all that is in it, links in which lead to files. What else it may lead to is refused, naming the link: nothing,
 * a device, a FIFO or socket, a folder that holds the output, a link to a folder in such a folder, more than PL_COPY_ITEMS_MAX items or
 * deeper than PL_COPY_DEPTH_MAX. Exit code 0, or 1 with one line on standard error. libc alone. */
#pragma once

#define PL_COPY_LINKS     "--copy-links"
#define PL_COPY_ITEMS_MAX (1u << 20)
#define PL_COPY_DEPTH_MAX 256u

/* The exit code. */
int pl_copy_links(const char *out, const char *pfs);
