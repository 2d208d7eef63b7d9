/* sandbox_view: What the sandbox of a stage shows of this machine, and whether the stage's programs are there.
 *
 * In:      The folders of sandbox_read_only, $PATH, and what a stage runs.
 * Out:     $PATH of the command; an error that says which program is missing and what to do.
 * Uses:    spec, text, storage/{base, system}
 * Threads: Any; the functions look at files and keep nothing.
 *
 * Headers for other rooms:
 *   image       container images, whose files a sandbox shows instead of this machine's
 *   python_env  the Python that a stage names
 *
 * The sandbox itself is made by agent/sandbox. This room answers from outside of it, before anything runs: the
 * daemon asks when a pipeline is created and when a worker starts, the agent for the command's $PATH. */
#pragma once

#include "pipelined/sandbox_view/image.h"
#include "storage/base/err.h"

#define PL_SANDBOX_USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Variables of the daemon that say where packages come from: index, proxy, certificates. Commands that make an environment get
 * them, no others do. NULL-terminated. */
extern const char *const pl_sandbox_package_variables[];
#define PL_SANDBOX_PACKAGE_VARIABLES 18u /* their number */

/* What a sandbox shows. Texts are borrowed. */
struct pl_sandbox_view {
    bool all;                     /* there is no sandbox: commands see the whole machine */
    const struct pl_image *image; /* its files are shown instead of this machine's; NULL = none */
    const char *read_only;        /* absolute folders that are shown besides the system's, separated by ':'; NULL = none */
    const char *path;             /* $PATH of the daemon or agent; NULL = the usual one */
};

/* What a stage runs. Texts are borrowed. */
struct pl_sandbox_stage {
    const char *const *run; /* argv; NULL if `script` is given */
    const char *script;
    const char *python; /* field `python`; NULL = not given */
    const char *path;   /* PATH of the stage's `env`; NULL = not given */
    bool environment;   /* the stage has an environment, whose programs are not known here: names are not looked up */
};

/* True if commands can see the absolute path. Looks at the path alone, not at links. */
bool pl_sandbox_view_shows(const struct pl_sandbox_view *view, const char *path);
/* Checks that commands can see the file at an absolute path, and what it links to. PL_ENOTFOUND: there is no such file
 * on this machine; PL_EINVAL: the sandbox does not show it, and the error names the folder to add. */
PL_MUST_CHECK
int pl_sandbox_view_check(const struct pl_sandbox_view *view, const char *path, struct pl_err *err);
/* Makes the command's $PATH without the folder of our own programs: the Python's folder, then the folders of view->path
 * that are shown, then the usual ones. `python_bin` NULL = none. malloc'ed, NULL without memory. */
char *pl_sandbox_view_path(const struct pl_sandbox_view *view, const char *python_bin);
/* Checks that the programs with which a stage begins are there: its `python`, the first word of `run` or the
 * interpreter of `script`. A relative path with a slash is in the stage's code and is not checked, nor is a
 * word with a parameter. PL_ENOTFOUND: a
 * program is not on this machine, or not in the image; PL_EINVAL: the sandbox does not show it, or `python` is wrong. The error's field is
 * "python", "run" or "script". */
PL_MUST_CHECK
int pl_sandbox_view_stage(const struct pl_sandbox_view *view, const struct pl_sandbox_stage *stage, struct pl_err *err);
