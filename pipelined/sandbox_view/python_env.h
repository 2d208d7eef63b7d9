/* python_env: the Python that a stage names with `python`: a virtual environment, another folder with bin/python3, or
 * an interpreter in the folder bin of one. Commands find it by name, because its bin is first in their $PATH. */
#pragma once

#include "storage/base/err.h"

#include <limits.h>

struct pl_python_env {
    char folder[PATH_MAX];  /* /home/ana/venv */
    char bin[PATH_MAX];     /* /home/ana/venv/bin */
    char program[PATH_MAX]; /* /home/ana/venv/bin/python3 */
    bool venv;              /* the folder has a pyvenv.cfg */
};

/* Finds the environment of `path`, an absolute path of a folder or of an interpreter. Reads no file. PL_ENOTFOUND: it is not on this
 * machine; PL_EINVAL: it is no Python environment, or is an interpreter that is not the python3 of its folder. The
 * messages quote `path`. */
PL_MUST_CHECK
int pl_python_env_find(const char *path, struct pl_python_env *ret, struct pl_err *err);
/* Reads `home` of pyvenv.cfg, the folder of the Python that the environment is made of; "" = none. Never blocks.
 * PL_EINVAL: pyvenv.cfg is not a file; PL_EIO and its kin. */
PL_MUST_CHECK
int pl_python_env_home(const struct pl_python_env *env, char ret[PATH_MAX], struct pl_err *err);
