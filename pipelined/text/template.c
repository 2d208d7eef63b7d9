/* A compiled template is a list of pieces: literal text and variables. */
#include "pipelined/text/template.h"

#include "storage/base/path.h"

#define TEMPLATE_PARTS_MAX 64u

enum template_part {
    TEMPLATE_TEXT,
    TEMPLATE_CAPTURE,
    TEMPLATE_PATH,
    TEMPLATE_DIR,
    TEMPLATE_STEM,
    TEMPLATE_PARAM,
    TEMPLATE_DATUM
};

struct template_piece {
    enum template_part part;
    /* TEXT: position of the literal bytes in `text`; PARAM: position of the parameter's name */
    size_t from, len;
    size_t input;
    unsigned capture; /* index of the capture, counted from 0 */
};

struct pl_template {
    char *text;
    size_t n;
    struct template_piece pieces[TEMPLATE_PARTS_MAX];
};

/* Makes the error for an unknown input; suggests the most similar name. */
static int template_unknown_input(const char *name, const struct pl_template_input *inputs, size_t n, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf list = {0};
    _cleanup_free_ const char **names = calloc(n + 1, sizeof(*names));
    const char *nearest;
    int r = 0;

    if (names == NULL)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n && r == 0; i++) {
        names[i] = inputs[i].name;
        r = pl_buf_addf(&list, err, "%s%s", i > 0 ? ", " : "", inputs[i].name);
    }
    if (r < 0 || pl_buf_str(&list) == NULL)
        return pl_err_nomem(err);
    nearest = pl_word_nearest(name, names, n);
    if (nearest != NULL)
        return pl_err_set(err, PL_ESPEC, "there is no input \"%s\"; did you mean \"%s\"?", name, nearest);
    return pl_err_set(err, PL_ESPEC, "there is no input \"%s\"; the inputs are: %s", name, (const char *)list.data);
}

static bool template_lists(const struct pl_template_input *input, const char *name)
{
    for (size_t i = 0; i < input->n_params; i++)
        if (pl_streq(input->params[i], name))
            return true;
    return false;
}

/* Compiles ${params.NAME}. Each input with that name must have the parameter. */
static int template_param(const char *name, const struct pl_template_input *inputs, size_t n, struct template_piece *piece,
                          struct pl_err *err)
{
    piece->part = TEMPLATE_PARAM;
    for (size_t i = 0; i < n; i++)
        if (inputs[i].params != NULL && !template_lists(&inputs[i], name))
            return pl_err_set(err, PL_ESPEC, "not every datum has a parameter \"%s\"", name);
    return 0;
}

/* Compiles the part after the dot of ${INPUT.…}: "path", "2" and so on. */
static int template_attribute(const char *attribute, const struct pl_template_input *input, struct template_piece *piece,
                              struct pl_err *err)
{
    static const struct {
        const char *word;
        enum template_part part;
    } words[] = {{"path", TEMPLATE_PATH}, {"dir", TEMPLATE_DIR}, {"stem", TEMPLATE_STEM}};
    unsigned long number;

    for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++) {
        if (pl_streq(attribute, words[i].word)) {
            piece->part = words[i].part;
            return 0;
        }
    }
    if (*attribute == '\0' || strspn(attribute, "0123456789") != strlen(attribute) || strlen(attribute) > 3 ||
        (attribute[0] == '0' && attribute[1] != '\0'))
        return pl_err_set(err, PL_ESPEC,
                          "\"%s\" is not accepted after the input's name: path, dir, stem or the number of a capture", attribute);
    number = strtoul(attribute, NULL, 10);
    if (number < 1 || number > input->captures)
        return pl_err_set(err, PL_ESPEC, "the glob of input \"%s\" has %u captures, so capture %lu does not exist%s", input->name,
                          input->captures, number, input->captures == 0 ? ": put ( ) around a part of the glob" : "");
    piece->part = TEMPLATE_CAPTURE;
    piece->capture = (unsigned)number - 1;
    return 0;
}

/* Compiles the text of a variable, between "${" and "}". */
static int template_variable(const char *from, size_t len, const struct pl_template_input *inputs, size_t n,
                             struct template_piece *piece, struct pl_err *err)
{
    char name[PL_NAME_MAX_BYTES + 16];
    char *dot;

    if (len >= sizeof(name))
        return pl_err_set(err, PL_ESPEC, "the variable's name is too long");
    memcpy(name, from, len);
    name[len] = '\0';
    if (pl_streq(name, "datum")) {
        piece->part = TEMPLATE_DATUM;
        return 0;
    }
    dot = strchr(name, '.');
    if (dot == NULL)
        return pl_err_set(err, PL_ESPEC,
                          "a variable must be ${INPUT.path}, ${INPUT.dir}, ${INPUT.stem}, ${INPUT.1} … or ${datum}");
    *dot++ = '\0';
    for (size_t i = 0; i < n; i++) {
        if (pl_streq(inputs[i].name, name)) {
            piece->input = i;
            piece->from += 2 + (size_t)(dot - name);
            piece->len = strlen(dot);
            if (inputs[i].absent)
                return pl_err_set(err, PL_ESPEC,
                                  "not every datum has an input \"%s\": name an input that every branch of the union has, "
                                  "or use ${datum}",
                                  name);
            return inputs[i].params != NULL ? template_param(dot, inputs, n, piece, err)
                                            : template_attribute(dot, &inputs[i], piece, err);
        }
    }
    if (pl_streq(name, "params"))
        return pl_err_set(err, PL_ESPEC, "there are no params: add {\"params\": {\"%s\": […]}} to the input", dot);
    return template_unknown_input(name, inputs, n, err);
}

/* Splits the text into pieces. */
static int template_parse(struct pl_template *t, const struct pl_template_input *inputs, size_t n, struct pl_err *err)
{
    const char *p = t->text;

    while (*p != '\0') {
        struct template_piece *piece = &t->pieces[t->n];
        const char *open = strstr(p, "${"), *close;
        int r;

        if (t->n == TEMPLATE_PARTS_MAX)
            return pl_err_set(err, PL_ESPEC, "prefix \"%s\" has more than %u parts", t->text, TEMPLATE_PARTS_MAX);
        t->n++;
        if (open != p) {
            piece->part = TEMPLATE_TEXT;
            piece->from = (size_t)(p - t->text);
            piece->len = open != NULL ? (size_t)(open - p) : strlen(p);
            p += piece->len;
            continue;
        }
        close = strchr(p, '}');
        if (close == NULL)
            return pl_err_set(err, PL_ESPEC, "prefix \"%s\": ${ is never closed by }", t->text);
        piece->from = (size_t)(p - t->text);
        r = template_variable(p + 2, (size_t)(close - p - 2), inputs, n, piece, err);
        if (r < 0)
            return pl_err_wrap(err, r, "prefix \"%s\": %.*s", t->text, (int)(close - p + 1), p);
        p = close + 1;
    }
    return 0;
}

/* Checks that paths with this prefix are allowed, with "x" in place of each variable. It finds ".." and empty
 * segments at compile time. */
static int template_check_text(const struct pl_template *t, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf sample = {0};
    int r = 0;

    for (size_t i = 0; i < t->n && r == 0; i++) {
        const struct template_piece *piece = &t->pieces[i];

        r = piece->part == TEMPLATE_TEXT ? pl_buf_add(&sample, t->text + piece->from, piece->len, err)
                                         : pl_buf_add_str(&sample, "x", err);
    }
    if (r == 0)
        r = pl_buf_add_str(&sample, "x", err);
    if (r == 0)
        r = pl_path_check((const char *)sample.data, sample.len, err);
    return r < 0 ? pl_err_wrap(err, r, "prefix \"%s\"", t->text) : 0;
}

int pl_template_compile(const char *text, const struct pl_template_input *inputs, size_t n, struct pl_template **ret,
                        struct pl_err *err)
{
    _cleanup_(pl_template_destroyp) struct pl_template *t = NULL;
    int r;

    if (strlen(text) > PL_TEMPLATE_MAX_BYTES)
        return pl_err_set(err, PL_ESPEC, "the prefix is %zu bytes long; at most %u are allowed", strlen(text),
                          PL_TEMPLATE_MAX_BYTES);
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return pl_err_nomem(err);
    t->text = strdup(text + (text[0] == '/'));
    if (t->text == NULL)
        return pl_err_nomem(err);
    r = template_parse(t, inputs, n, err);
    if (r == 0)
        r = template_check_text(t, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(t);
    return 0;
}

struct pl_template *pl_template_destroy(struct pl_template *t)
{
    if (t != NULL)
        free(t->text);
    free(t);
    return NULL;
}

bool pl_template_wants_datum(const struct pl_template *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pieces[i].part == TEMPLATE_DATUM)
            return true;
    return false;
}

bool pl_template_names(const struct pl_template *t, size_t input)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pieces[i].part != TEMPLATE_TEXT && t->pieces[i].part != TEMPLATE_DATUM && t->pieces[i].input == input)
            return true;
    return false;
}

const char *pl_path_stem(const char *path, size_t len, size_t *ret_len)
{
    const char *slash = memrchr(path, '/', len), *name = slash != NULL ? slash + 1 : path, *end = path + len;
    const char *dot = memrchr(name, '.', (size_t)(end - name));

    *ret_len = (size_t)((dot != NULL && dot > name ? dot : end) - name);
    return name;
}

/* Returns the value of the parameter that the piece names; compile has checked that it exists. */
static const char *template_text(const struct pl_template *t, const struct template_piece *piece,
                                 const struct pl_template_value *value, size_t *ret_len)
{
    *ret_len = 0;
    for (size_t i = 0; i < value->n_params; i++) {
        if (strlen(value->params[i]) == piece->len && memcmp(value->params[i], t->text + piece->from, piece->len) == 0) {
            *ret_len = strlen(value->texts[i]);
            return value->texts[i];
        }
    }
    return "";
}

int pl_template_render(const struct pl_template *t, const struct pl_template_value *values, const struct pl_hash *datum_id,
                       struct pl_buf *out, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    int r = 0;

    for (size_t i = 0; i < t->n && r == 0; i++) {
        const struct template_piece *piece = &t->pieces[i];
        const struct pl_template_value *value =
            piece->part != TEMPLATE_TEXT && piece->part != TEMPLATE_DATUM ? &values[piece->input] : NULL;
        const char *from = t->text + piece->from;
        size_t len = piece->len;

        switch (piece->part) {
        case TEMPLATE_TEXT:
            break;
        case TEMPLATE_DATUM:
            from = pl_hash_hex(datum_id, hex);
            len = PL_TEMPLATE_DATUM_HEX;
            break;
        case TEMPLATE_PATH:
            from = value->path;
            len = value->path_len;
            break;
        case TEMPLATE_DIR:
            from = value->path;
            len = value->path_len;
            while (len > 0 && from[--len] != '/')
                ;
            break;
        case TEMPLATE_STEM:
            from = pl_path_stem(value->path, value->path_len, &len);
            break;
        case TEMPLATE_PARAM:
            from = template_text(t, piece, value, &len);
            break;
        case TEMPLATE_CAPTURE:
            from = value->path;
            len = 0;
            if (value->captures[piece->capture].start != PL_SPAN_NONE) {
                from += value->captures[piece->capture].start;
                len = (size_t)value->captures[piece->capture].end - value->captures[piece->capture].start;
            }
            break;
        }
        r = pl_buf_add(out, from, len, err);
    }
    return r;
}
