/* The files are embedded by CMake (pl_embed) from pipelines/examples. The commands to print are those of the first block
 * of the example's README, so that page and program say the same. */
#include "pipelined/cli/runs/example_folder.h"

#include "pl_example_image.h"
#include "pl_example_params.h"
#include "pl_example_plain.h"
#include "pl_example_setup.h"
#include "storage/base/buf.h"
#include "storage/base/path.h"
#include "storage/system/io.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define README "README.md"
#define BLOCK  "```sh\n"

struct example {
    const char *name;
    const struct pl_embedded_file *files;
    const size_t *n_files;
};

static const struct example examples[] = {
    {"plain", pl_example_plain_files, &pl_example_plain_files_count},
    {"setup", pl_example_setup_files, &pl_example_setup_files_count},
    {"image", pl_example_image_files, &pl_example_image_files_count},
    {"params", pl_example_params_files, &pl_example_params_files_count},
};

static const struct example *find(const char *name, struct pl_err *err)
{
    const char *names[PL_ARRAY_SIZE(examples)], *near;

    for (size_t i = 0; i < PL_ARRAY_SIZE(examples); i++) {
        names[i] = examples[i].name;
        if (pl_streq(names[i], name))
            return &examples[i];
    }
    near = pl_word_nearest(name, names, PL_ARRAY_SIZE(names));
    pl_err_set(err, PL_EUSAGE,
               "--example: there is no example \"%.100s\"%s%s: use plain (two stages), setup (packages for a stage), image "
               "(commands in a container image) or params (one datum for each combination of parameters)",
               name, near ? ", did you mean " : "", near ? near : "");
    return NULL;
}

/* Adds `text` with the paths of the example's files below `folder` instead of its own name, as in "-f plain/cat.txt". */
static int add_text(const char *text, size_t size, const struct example *e, const char *folder, struct pl_buf *out,
                    struct pl_err *err)
{
    const size_t len = strlen(e->name);
    const char *end = text + size;
    int r = 0;

    while (r == 0 && text < end) {
        if ((size_t)(end - text) > len + 4 && memcmp(text, "-f ", 3) == 0 && memcmp(text + 3, e->name, len) == 0 &&
            text[3 + len] == '/') {
            r = pl_buf_addf(out, err, "-f %s/", folder);
            text += len + 4;
        } else {
            r = pl_buf_add(out, text++, 1, err);
        }
    }
    return r;
}

/* Prints the commands of the first block of the README. */
static void print_commands(char *readme)
{
    char *line = strstr(readme, BLOCK), *next;

    for (line = line ? line + strlen(BLOCK) : NULL; line && *line != '`' && (next = strchr(line, '\n')); line = next + 1) {
        *next = 0;
        printf("next: %s\n", line);
    }
}

/* Returns true if a shell takes the text as one word. */
static bool is_word(const char *text)
{
    return *text && *text != '-' && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=,@")];
}

/* Writes the files of the example; `readme` receives the text of its README as written. */
static int write_files(const struct example *e, const char *folder, struct pl_buf *readme, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < *e->n_files; i++) {
        const struct pl_embedded_file *f = &e->files[i];
        const bool is_readme = pl_streq(f->name, README);
        char path[4096];

        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, f->name) >= sizeof path)
            return pl_err_set(err, PL_EINVAL, "folder %.300s…: the path is too long", folder);
        if (is_readme)
            r = add_text((const char *)f->data, f->size, e, folder, readme, err);
        if (r == 0)
            r = pl_io_write_file(path, is_readme ? readme->data : f->data, is_readme ? readme->len : f->size, 0644, err);
    }
    return r;
}

int pl_cli_example_write(const struct pl_cli *c, const char *name, const char *folder, struct pl_err *err)
{
    const struct example *e = find(name, err);
    _cleanup_(pl_buf_finish) struct pl_buf readme = {0};
    int r;

    if (!e)
        return PL_EUSAGE;
    if (!folder)
        folder = e->name;
    if (!is_word(folder))
        return pl_err_set(err, PL_EUSAGE,
                          "folder \"%.200s\": the commands to type name it: use letters, digits and _ - . / + = , @ only",
                          folder);
    if (mkdir(folder, 0777) < 0)
        return errno == EEXIST ? pl_err_set(err, PL_EEXISTS,
                                            "%.300s exists already and is left as it is: name a new folder: pipelinectl create "
                                            "pipeline --example %s FOLDER",
                                            folder, e->name)
                               : pl_err_errno(err, errno, "folder %.300s", folder);
    r = write_files(e, folder, &readme, err);
    if (r < 0)
        return r;
    if (!pl_buf_str(&readme))
        return pl_err_nomem(err);
    if (!c->quiet) {
        printf("example %s is in %s: read %s/" README "\n", e->name, folder, folder);
        print_commands(pl_buf_str(&readme));
    }
    return 0;
}
