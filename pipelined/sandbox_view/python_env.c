/* Tells the environment from the files in it: bin/python3 and pyvenv.cfg (PEP 405). */
#include "pipelined/sandbox_view/python_env.h"

#include "storage/system/io.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PYVENV_MAX 8192u

/* Writes A/B to `out`; false if it does not fit. */
static bool join(char out[PATH_MAX], const char *a, const char *b)
{
    return snprintf(out, PATH_MAX, "%s/%s", a, b) < PATH_MAX;
}

/* Finds the interpreter in the folder `bin`. */
static bool find_program(struct pl_python_env *p)
{
    static const char *const names[] = {"python3", "python"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        if (join(p->program, p->bin, names[i]) && access(p->program, X_OK) == 0)
            return true;
    return false;
}

/* Reads `home` from the text of pyvenv.cfg: lines "key = value". */
static void read_home(char *text, char out[PATH_MAX])
{
    for (char *line = text, *next; line; line = next) {
        char *value, *end;

        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        value = strchr(line, '=');
        while (isspace((unsigned char)*line))
            line++;
        if (!value || strncmp(line, "home", 4) != 0 || strspn(line + 4, " \t") != (size_t)(value - line - 4))
            continue;
        value += 1 + strspn(value + 1, " \t");
        for (end = value + strlen(value); end > value && isspace((unsigned char)end[-1]);)
            *--end = 0;
        snprintf(out, PATH_MAX, "%s", value);
        return;
    }
}

/* True if both names lead to the same file. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Cuts the last part of a path off; false if it would be "". */
static bool cut(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');

    if (!slash || slash == path)
        return false;
    *slash = 0;
    return true;
}

int pl_python_env_find(const char *path, struct pl_python_env *ret, struct pl_err *err)
{
    struct pl_python_env p = {0};
    size_t len = strlen(path);
    char config[PATH_MAX];
    struct stat st;

    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len + sizeof "/bin/python3" > PATH_MAX)
        return pl_err_set(err, PL_EINVAL, "python: the path is longer than %d bytes", PATH_MAX);
    snprintf(p.folder, sizeof p.folder, "%.*s", (int)len, path);
    if (stat(p.folder, &st) < 0)
        return pl_err_set(err, PL_ENOTFOUND,
                          "python \"%.400s\" does not exist on this machine: make it with python3 -m venv %.400s", path, path);
    if (!S_ISDIR(st.st_mode)) {
        memcpy(p.bin, p.folder, len + 1);
        if (!cut(p.bin) || !find_program(&p) || !same_file(p.folder, p.program))
            return pl_err_set(
                err, PL_EINVAL,
                "python \"%.400s\" is not the python3 of its folder, so that commands would not find it by name: name "
                "an environment that is made of it (%.400s -m venv DIR)",
                path, path);
        memcpy(p.folder, p.bin, sizeof p.folder);
        (void)cut(p.folder);
    } else if (!join(p.bin, p.folder, "bin") || !find_program(&p)) {
        return pl_err_set(
            err, PL_EINVAL,
            "python \"%.400s\" is not a Python environment, it has no bin/python3: name a folder that python3 -m venv "
            "made, or an interpreter",
            path);
    }
    p.venv = join(config, p.folder, "pyvenv.cfg") && access(config, F_OK) == 0;
    *ret = p;
    return 0;
}

int pl_python_env_home(const struct pl_python_env *p, char ret[PATH_MAX], struct pl_err *err)
{
    char path[PATH_MAX], text[PYVENV_MAX + 1];
    _cleanup_close_ int fd = -1;
    struct stat st;
    size_t len = 0;
    ssize_t n = 1;

    ret[0] = '\0';
    if (!p->venv || !join(path, p->folder, "pyvenv.cfg"))
        return 0;
    /* whoever can write the folder may put a pipe or a device there: those are not read */
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return pl_err_errno(err, errno, "cannot read %.900s", path);
    if (!S_ISREG(st.st_mode))
        return pl_err_set(err, PL_EINVAL, "%.900s is not a file", path);
    while (n > 0 && len < PYVENV_MAX) {
        n = read(fd, text + len, PYVENV_MAX - len);
        if (n < 0)
            return pl_err_errno(err, errno, "cannot read %.900s", path);
        len += (size_t)n;
    }
    text[len] = '\0';
    read_home(text, ret);
    return 0;
}
