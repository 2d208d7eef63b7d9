/* Tells the environment from the files in it: bin/python3 and pyvenv.cfg (PEP 405). */
#include "pipelined/sandbox_view/python_env.h"

#include "storage/system/io.h"
#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

#define PYVENV_MAX (64u << 10)

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

static int read_venv(struct pl_python_env *p, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = PYVENV_MAX};
    char path[PATH_MAX];
    int r;

    if (!join(path, p->folder, "pyvenv.cfg") || access(path, F_OK) < 0)
        return 0;
    r = pl_io_read_file(path, &text, err);
    r = r < 0 ? r : pl_buf_add(&text, "", 1, err);
    if (r < 0)
        return r;
    p->venv = true;
    read_home((char *)text.data, p->home);
    return 0;
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
    struct stat st;
    int r;

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
    r = read_venv(&p, err);
    if (r < 0)
        return pl_err_wrap(err, r, "python \"%.400s\"", path);
    *ret = p;
    return 0;
}
