// link: pipelined/sandbox_view storage/system
/* What sandboxes show of a machine, the Python of a stage, and programs that are missing or hidden. The machine is a
 * temporary folder: M in the tables stands for its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/sandbox_view/python_env.h"
#include "pipelined/sandbox_view/sandbox_view.h"
#include "storage/system/io.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char machine[] = "/tmp/sandbox-view-XXXXXX";

/* Replaces each M that begins a path of `text` by the machine's folder. */
static const char *on(const char *text)
{
    static char out[8][4096];
    static unsigned turn;
    char *to = out[turn++ % PL_ARRAY_SIZE(out)];
    size_t n = 0;

    if (!text)
        return NULL;
    for (const char *p = text; *p; p++)
        if (*p == 'M' && p[1] == '/')
            n += (size_t)snprintf(to + n, 4096 - n, "%s", machine);
        else
            to[n++] = *p;
    to[n] = 0;
    return to;
}

static void put(const char *path, const char *text, mode_t mode)
{
    const char *full = on(path);
    char folder[4096];

    snprintf(folder, sizeof folder, "%s", full);
    *strrchr(folder, '/') = 0;
    assert_int_equal(pl_io_mkdirs(folder, 0755, NULL), 0);
    assert_int_equal(pl_io_write_file(full, text, strlen(text), mode, NULL), 0);
}

static void link_to(const char *target, const char *path)
{
    assert_int_equal(symlink(on(target), on(path)), 0);
}

/* A machine with a Python of its own, an environment made of it, one made of the system's, and tools. */
static int make(void **state)
{
    (void)state;
    if (!mkdtemp(machine))
        return -1;
    put("M/py312/bin/python3.12", "", 0755);
    link_to("python3.12", "M/py312/bin/python3");
    put("M/py312/bin/other", "", 0755);
    assert_int_equal(pl_io_mkdirs(on("M/py312/lib"), 0755, NULL), 0);
    put("M/venv/pyvenv.cfg", on("version = 3.12\nhome = M/py312/bin\n"), 0644);
    assert_int_equal(pl_io_mkdirs(on("M/venv/bin"), 0755, NULL), 0);
    link_to("M/py312/bin/python3", "M/venv/bin/python3");
    link_to("python3", "M/venv/bin/python");
    put("M/sys/pyvenv.cfg", "home=/usr/bin\r\ninclude-system-site-packages = false\n", 0644);
    assert_int_equal(pl_io_mkdirs(on("M/sys/bin"), 0755, NULL), 0);
    link_to("/bin/sh", "M/sys/bin/python3");
    put("M/home/bin/tool", "", 0755);
    put("M/home/notes", "", 0644);
    put("M/plain", "", 0644);
    assert_int_equal(pl_io_mkdirs(on("M/pipe/bin"), 0755, NULL), 0);
    link_to("/bin/sh", "M/pipe/bin/python3");
    assert_int_equal(mkfifo(on("M/pipe/pyvenv.cfg"), 0600), 0);
    put("M/first/sh", "", 0755);
    link_to("py312", "M/linked");
    return 0;
}

static int end(void **state)
{
    (void)state;
    return pl_io_remove_tree(machine, NULL);
}

static void the_python_of_a_stage_is_found(void **state)
{
    static const struct {
        const char *path;
        int code;
        const char *folder, *program, *home, *says;
        bool venv;
    } rows[] = {
        {"M/venv", 0, "M/venv", "M/venv/bin/python3", "M/py312/bin", NULL, true},
        {"M/venv//", 0, "M/venv", "M/venv/bin/python3", "M/py312/bin", NULL, true},
        {"M/venv/bin/python", 0, "M/venv", "M/venv/bin/python3", "M/py312/bin", NULL, true},
        {"M/sys", 0, "M/sys", "M/sys/bin/python3", "/usr/bin", NULL, true},
        {"M/py312", 0, "M/py312", "M/py312/bin/python3", "", NULL, false},
        {"M/py312/bin/python3.12", 0, "M/py312", "M/py312/bin/python3", "", NULL, false},
        {"M/py312/bin/other", PL_EINVAL, NULL, NULL, NULL, "is not the python3 of its folder", false},
        {"M/home", PL_EINVAL, NULL, NULL, NULL, "it has no bin/python3", false},
        {"M/plain", PL_EINVAL, NULL, NULL, NULL, "is not the python3 of its folder", false},
        {"M/gone", PL_ENOTFOUND, NULL, NULL, NULL, "does not exist on this machine: make it with python3 -m venv", false},
    };
    (void)state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_python_env env;
        struct pl_err err = {0};
        char home[PATH_MAX];

        assert_int_equal(pl_python_env_find(on(rows[i].path), &env, &err), rows[i].code);
        if (rows[i].code < 0) {
            if (!strstr(err.msg, rows[i].says))
                fail_msg("%s: %s", rows[i].path, err.msg);
            continue;
        }
        assert_string_equal(env.folder, on(rows[i].folder));
        assert_string_equal(env.program, on(rows[i].program));
        assert_int_equal(env.venv, rows[i].venv);
        assert_int_equal(pl_python_env_home(&env, home, &err), 0);
        assert_string_equal(home, on(rows[i].home));
    }
}

/* Each row: what the sandbox adds, what a file is, and the folder that the error says to add; NULL = it is shown. */
static void a_hidden_file_names_the_folder_to_add(void **state)
{
    static const struct {
        const char *read_only, *path, *add;
    } rows[] = {
        {NULL, "/usr/bin/env", NULL},
        {NULL, "/bin/sh", NULL},
        {NULL, "M/venv/bin/python", "M/venv"},
        {"M/venv", "M/venv/bin/python", "M/py312"},
        {"M/venv:M/py312", "M/venv/bin/python", NULL},
        {"M/venv/bin", "M/venv/bin/python", "M/py312"},
        {"M/ven", "M/venv/bin/python", "M/venv"},
        {"M/sys/", "M/sys/bin/python3", NULL},
        {"/:/x", "M/venv/bin/python", NULL},
        {NULL, "M/home/bin/tool", "M/home/bin"},
        {NULL, "M/home/notes", "M/home"},
        {"M/linked", "M/linked/bin/python3", NULL}, /* the sandbox shows what a listed link leads to */
        {"M/linked/", "M/linked/bin/python3.12", NULL},
    };
    (void)state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const struct pl_sandbox_view view = {.read_only = on(rows[i].read_only)};
        struct pl_err err = {0};
        char says[4096];
        int r = pl_sandbox_view_check(&view, on(rows[i].path), &err);

        assert_int_equal(r, rows[i].add ? PL_EINVAL : 0);
        if (!rows[i].add)
            continue;
        snprintf(says, sizeof says,
                 " exists on this machine, but the sandbox does not show it: add \"%s\" to sandbox_read_only, or use \"setup\"",
                 on(rows[i].add));
        if (!strstr(err.msg, says))
            fail_msg("row %zu: %s", i, err.msg);
    }
    assert_int_equal(pl_sandbox_view_check(&(struct pl_sandbox_view){.all = true}, on("M/venv/bin/python"), NULL), 0);
    assert_int_equal(pl_sandbox_view_check(&(struct pl_sandbox_view){.all = true}, on("M/gone"), NULL), PL_ENOTFOUND);
}

static void the_path_begins_with_the_python(void **state)
{
    const struct pl_sandbox_view view = {.read_only = "/opt:/srv", .path = "/opt/x/bin:/home/me/bin:/usr/bin"};
    char *path = pl_sandbox_view_path(&view, "/v/bin");
    (void)state;

    assert_string_equal(path, "/v/bin:/opt/x/bin:" PL_SANDBOX_USUAL_PATH);
    free(path);
    path = pl_sandbox_view_path(&(struct pl_sandbox_view){.all = true, .path = "/a:/b"}, "/v/bin");
    assert_string_equal(path, "/v/bin:/a:/b");
    free(path);
    path = pl_sandbox_view_path(&(struct pl_sandbox_view){.read_only = NULL}, NULL);
    assert_string_equal(path, PL_SANDBOX_USUAL_PATH);
    free(path);
}

static void a_stage_is_checked_before_it_runs(void **state)
{
    static const struct {
        const char *read_only, *run, *script, *python, *path;
        int code;
        const char *field, *says;
    } rows[] = {
        {.run = "sh"},
        {.run = "/bin/sh"},
        {.run = "./run.sh"},
        {.run = "bin/run.sh"},
        {.run = "/code/run.sh"},
        {.run = "/pl/bin/pl-next"},
        {.run = "pl-next"},
        {.run = "no-such-program", .code = PL_ENOTFOUND, .field = "run", .says = "there is no program \"no-such-program\""},
        {.run = "no-such-program", .path = "/code/bin:/usr/bin"},
        {.run = "/no/such/program", .code = PL_ENOTFOUND, .field = "run", .says = "/no/such/program does not exist"},
        {.run = "tool", .code = PL_EINVAL, .field = "run", .says = "home/bin/tool exists on this machine"},
        {.run = "tool", .read_only = "M/home/bin"},
        {.run = "${params.python}"},
        {.run = "no-such-program", .path = "${params.tools}/bin:/usr/bin"},
        {.run = "sh", .path = "M/first:/usr/bin"}, /* the hidden one is passed over, as in the sandbox */
        {.run = "sh", .path = "M/first:/no/such", .code = PL_EINVAL, .field = "run", .says = "first/sh exists"},
        {.run = "no-such-program", .path = ".:bin:/usr/bin"},
        {.run = "python3", .python = "M/py312", .read_only = "M/py312", .path = "/no/such"},
        {.run = "sh",
         .python = "M/pipe",
         .code = PL_EINVAL,
         .field = "python",
         .says = "pipe/bin/python3 exists on this machine"},
        {.run = "sh",
         .python = "M/pipe",
         .read_only = "M/pipe",
         .code = PL_EINVAL,
         .field = "python",
         .says = "pyvenv.cfg is not a file"},
        {.run = "tool", .path = "M/home/bin", .code = PL_EINVAL, .field = "run", .says = "home/bin/tool exists"},
        {.run = "M/venv/bin/python", .code = PL_EINVAL, .field = "run", .says = "venv/bin/python exists on this machine"},
        {.run = "python3", .python = "M/venv", .code = PL_EINVAL, .field = "python", .says = "venv/bin/python3 exists"},
        {.run = "python3", .python = "M/venv", .read_only = "M/venv", .code = PL_EINVAL, .field = "python", .says = "py312\" to"},
        {.run = "python3", .python = "M/venv", .read_only = "M/venv:M/py312"},
        {.run = "sh", .python = "M/gone", .code = PL_EINVAL, .field = "python", .says = "does not exist on this machine"},
        {.script = "echo hello"},
        {.script = "#!/bin/sh\necho"},
        {.script = "#!/usr/bin/env sh\necho"},
        {.script = "#!/usr/bin/env -S sh -e\necho"},
        {.script = "#!/usr/bin/env A=1 no-such-program\n"},
        {.script = "#! /no/such/shell -x\n", .code = PL_ENOTFOUND, .field = "script", .says = "/no/such/shell does not exist"},
        {.script = "#!/usr/bin/env no-such-program\n", .code = PL_ENOTFOUND, .field = "script", .says = "no-such-program"},
        {.script = "#!"},
    };
    (void)state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const struct pl_sandbox_view view = {.read_only = on(rows[i].read_only), .path = on("/usr/bin:M/home/bin")};
        char word[4096], python[4096], path[4096];
        const char *const run[] = {word, NULL};
        struct pl_sandbox_stage stage = {.script = rows[i].script, .run = rows[i].run ? run : NULL};
        struct pl_err err = {0};
        int r;

        snprintf(word, sizeof word, "%s", rows[i].run ? on(rows[i].run) : "");
        snprintf(python, sizeof python, "%s", rows[i].python ? on(rows[i].python) : "");
        snprintf(path, sizeof path, "%s", rows[i].path ? on(rows[i].path) : "");
        stage.python = rows[i].python ? python : NULL;
        stage.path = rows[i].path ? path : NULL;
        r = pl_sandbox_view_stage(&view, &stage, &err);
        if (r != rows[i].code)
            fail_msg("row %zu: %d %s", i, r, err.msg);
        if (r < 0 && (!strstr(err.msg, rows[i].says) || strcmp(err.field, rows[i].field) != 0))
            fail_msg("row %zu: %s: %s", i, err.field, err.msg);
    }
}

static void programs_of_an_image_are_looked_for_in_it(void **state)
{
    static const struct {
        const char *run, *script, *path, *says;
    } rows[] = {
        {"tool", NULL, NULL, NULL},
        {"/opt/tool", NULL, NULL, NULL},
        {"tool", NULL, "/code/bin", NULL}, /* what only the sandbox has */
        {"data", NULL, NULL, "there is no program \"data\" in image tools:1 in PATH (/opt:/usr/bin)"},
        {"/opt/out", NULL, NULL, "/opt/out does not exist in image tools:1"}, /* a link that leaves the image leads into it */
        {"/bin/cat", NULL, NULL, "/bin/cat does not exist in image tools:1"},
        {"./own", NULL, NULL, NULL},
        {"/code/own", NULL, NULL, NULL},
        {"pl-next", NULL, NULL, NULL},
        {NULL, "echo", NULL, "/bin/sh does not exist in image tools:1"},
        {NULL, "#!/opt/tool\n", NULL, NULL},
        {NULL, "#!/usr/bin/env python3\n", NULL, "/usr/bin/env does not exist in image tools:1"},
    };
    struct pl_image image = {0};
    const struct pl_sandbox_view view = {.image = &image, .read_only = machine, .path = "/usr/bin:/bin"};

    (void)state;
    put("M/image/opt/tool", "", 0755);
    put("M/image/opt/data", "", 0644);
    link_to("../../../../../../bin/cat", "M/image/opt/out");
    assert_int_equal(pl_image_read(json_pack("{s:s, s:s, s:s, s:[s, s]}", "name", "tools:1", "root", on("M/image"), "digest", "",
                                             "env", "A=b", "PATH=/opt:/usr/bin"),
                                   &image, NULL),
                     0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const char *const run[] = {rows[i].run, NULL};
        const struct pl_sandbox_stage stage = {
            .run = run, .script = rows[i].script, .path = rows[i].path, .python = "/no/such/python"}; /* the image has its own */
        struct pl_err err = {0};
        int r = pl_sandbox_view_stage(&view, &stage, &err);

        assert_string_equal(r < 0 ? err.msg : "", rows[i].says ? rows[i].says : "");
        assert_int_equal(r, rows[i].says ? PL_ENOTFOUND : 0);
    }
    pl_image_finish(&image);
}

static void names_of_images(void **state)
{
    static const struct {
        const char *name;
        bool good;
    } rows[] = {
        {"debian", true},
        {"python:3.12-slim", true},
        {"docker.io/library/python:3.12", true},
        {"127.0.0.1:5000/a/b@sha256:00ff", true},
        {"localhost/own_one:1", true},
        {"", false},
        {"-q", false},
        {"--help", false},
        {"/x", false},
        {"a//b", false},
        {"dir:/etc", false},
        {"docker://x", false},
        {"oci:a/b", false},
        {"a:/b", false},
        {"containers-storage:[vfs@/x]y", false},
        {"a b", false},
        {"a\n", false},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        assert_int_equal(pl_image_check_name(rows[i].name, NULL), rows[i].good ? 0 : PL_EINVAL);
}

static void an_image_that_is_no_description_is_refused(void **state)
{
    static const char *const texts[] = {"{}", "{\"root\": \"relative\", \"env\": []}", "{\"root\": \"/x\"}", "[]"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(texts); i++) {
        struct pl_image image;

        assert_int_equal(pl_image_read(json_loads(texts[i], 0, NULL), &image, NULL), PL_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_python_of_a_stage_is_found),
        cmocka_unit_test(a_hidden_file_names_the_folder_to_add),
        cmocka_unit_test(the_path_begins_with_the_python),
        cmocka_unit_test(a_stage_is_checked_before_it_runs),
        cmocka_unit_test(programs_of_an_image_are_looked_for_in_it),
        cmocka_unit_test(names_of_images),
        cmocka_unit_test(an_image_that_is_no_description_is_refused),
    };

    return cmocka_run_group_tests(tests, make, end);
}
