// link: pipelined/text storage/base
/* A template, a path and two parameters, a line each: refused, or rendered as a plain reading of template.h's list would; the same for
 * parameters in any text. */
#include "pipelined/text/param_text.h"
#include "pipelined/text/template.h"

#include "storage/base/path.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define LINES 4

static const char *const names[] = {"lr", "size"};

/* What a variable stands for; false: there is none of that name. */
struct variable {
    const char *name, *text;
    size_t len;
};

static void add(struct pl_buf *out, const char *text, size_t n)
{
    if (pl_buf_add(out, text, n, NULL) < 0)
        abort();
}

static void render_plainly(const char *text, const struct variable *v, size_t n, struct pl_buf *out)
{
    text += strspn(text, "/");
    while (*text) {
        const char *end = strncmp(text, "${", 2) == 0 ? strchr(text, '}') : NULL;
        bool known = false;

        for (size_t i = 0; end && i < n; i++) {
            if ((size_t)(end - text - 2) != strlen(v[i].name) || strncmp(text + 2, v[i].name, strlen(v[i].name)) != 0)
                continue;
            add(out, v[i].text, v[i].len);
            known = true;
        }
        if (strncmp(text, "${", 2) == 0 && !known)
            abort(); /* compile has taken what is no variable */
        if (!known)
            add(out, text, 1);
        text = known ? end + 1 : text + 1;
    }
}

static void same(const struct pl_buf *a, const struct pl_buf *b)
{
    if (a->len != b->len || (a->len && memcmp(a->data, b->data, a->len) != 0))
        abort();
}

static void check_template(char *const line[LINES])
{
    const struct pl_template_input inputs[] = {{.name = "in", .captures = 2}, {.name = "params", .params = names, .n_params = 2}};
    const char *texts[2] = {line[2], line[3]}, *path = line[1], *slash = strrchr(path, '/');
    size_t len = strlen(path), stem_len;
    const struct pl_span spans[2] = {{0, (uint32_t)(len / 2)}, {(uint32_t)(len / 2), (uint32_t)len}};
    const struct pl_template_value values[] = {{.path = path, .path_len = len, .captures = spans},
                                               {.params = names, .texts = texts, .n_params = 2}};
    struct pl_hash datum = {{0xab, 0xcd}};
    char hex[PL_HASH_HEX + 1];
    const char *stem = pl_path_stem(path, len, &stem_len);
    const struct variable v[] = {{"in.1", path, len / 2},
                                 {"in.2", path + len / 2, len - len / 2},
                                 {"in.path", path, len},
                                 {"in.dir", path, slash ? (size_t)(slash - path) : 0},
                                 {"in.stem", stem, stem_len},
                                 {"params.lr", texts[0], strlen(texts[0])},
                                 {"params.size", texts[1], strlen(texts[1])},
                                 {"datum", pl_hash_hex(&datum, hex), PL_TEMPLATE_DATUM_HEX}};
    struct pl_template *t = NULL;
    struct pl_buf got = {0}, want = {0};
    struct pl_err err = {0};

    if (pl_template_compile(line[0], inputs, 2, &t, &err) < 0) {
        if (!*err.msg)
            abort();
        return;
    }
    if (pl_template_render(t, values, &datum, &got, &err) < 0)
        abort();
    render_plainly(line[0], v, sizeof v / sizeof *v, &want);
    same(&got, &want);
    pl_buf_finish(&got);
    pl_buf_finish(&want);
    pl_template_destroy(t);
}

static void expand_plainly(const char *text, const struct pl_param *params, struct pl_buf *out)
{
    while (*text) {
        bool done = strncmp(text, "$${", 3) == 0;

        if (done) {
            add(out, text + 1, 2);
            text += 3;
        }
        for (size_t i = 0; i < 2 && !done; i++) {
            char variable[64];
            size_t n = (size_t)snprintf(variable, sizeof variable, "${params.%s}", params[i].name);

            if (strncmp(text, variable, n) != 0)
                continue;
            add(out, params[i].value, strlen(params[i].value));
            text += n;
            done = true;
        }
        if (!done)
            add(out, text++, 1);
    }
}

static void check_params(char *const line[LINES])
{
    const struct pl_param params[] = {{names[0], line[2]}, {names[1], line[3]}};
    struct pl_buf got = {0}, want = {0};

    if (pl_param_text_expand(line[0], params, 2, &got, NULL) < 0)
        abort();
    expand_plainly(line[0], params, &want);
    same(&got, &want);
    pl_buf_finish(&got);
    pl_buf_finish(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1), *line[LINES], *rest = text;

    if (!text)
        abort();
    memcpy(text, data, n);
    text[n] = '\0';
    for (size_t i = 0; i < LINES; i++)
        line[i] = rest ? strsep(&rest, "\n") : text + strlen(text);
    if (pl_path_check(line[1], strlen(line[1]), NULL) == 0)
        check_template(line);
    check_params(line);
    free(text);
    return 0;
}
