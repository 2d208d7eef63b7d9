/* kube_yaml.c: loads a document with libyaml and converts its nodes to JSON. */
#include "pipelined/kube/client/kube_yaml.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <yaml.h>

struct reading {
    yaml_document_t doc;
    size_t nodes;
    struct pl_err *err;
};

static int bad(struct pl_err *err, const yaml_mark_t *at, const char *why)
{
    return pl_err_set(err, PL_EINVAL, "line %zu, column %zu: %s", at->line + 1, at->column + 1, why);
}

/* Parses an integer of the form [-+]?[0-9]+; false if it has another form or does not fit. */
static bool integer_of(const char *text, json_int_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && (isdigit((unsigned char)*text) || ((*text == '-' || *text == '+') && text[1] != '\0'));
}

static bool among(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pl_streq(text, words[i]))
            return true;
    return false;
}

/* Converts a YAML scalar to JSON. Only plain (unquoted) scalars can be null, booleans or integers. */
static json_t *scalar(const yaml_node_t *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const trues[] = {"true", "True", "TRUE"};
    static const char *const falses[] = {"false", "False", "FALSE"};
    const char *text = (const char *)node->data.scalar.value;
    const bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    json_int_t number;

    if (plain && among(text, nulls, PL_ARRAY_SIZE(nulls)))
        return json_null();
    if (plain && among(text, trues, PL_ARRAY_SIZE(trues)))
        return json_true();
    if (plain && among(text, falses, PL_ARRAY_SIZE(falses)))
        return json_false();
    if (plain && integer_of(text, &number))
        return json_integer(number);
    return json_stringn(text, node->data.scalar.length);
}

static int value_of(struct reading *y, int index, unsigned depth, json_t **ret);

static int sequence_of(struct reading *y, const yaml_node_t *node, unsigned depth, json_t **ret)
{
    json_t *array = json_array();
    int r = array != NULL ? 0 : pl_err_nomem(y->err);

    for (const yaml_node_item_t *i = node->data.sequence.items.start; r == 0 && i < node->data.sequence.items.top; i++) {
        json_t *value = NULL;

        r = value_of(y, *i, depth, &value);
        if (r == 0 && json_array_append_new(array, value) < 0)
            r = pl_err_nomem(y->err);
    }
    if (r < 0)
        json_decref(array);
    else
        *ret = array;
    return r;
}

static int member_of(struct reading *y, const yaml_node_pair_t *pair, unsigned depth, json_t *object)
{
    const yaml_node_t *key = yaml_document_get_node(&y->doc, pair->key);
    const char *name = (const char *)key->data.scalar.value;
    json_t *value = NULL;
    int r;

    if (key->type != YAML_SCALAR_NODE)
        return bad(y->err, &key->start_mark, "a key is not a string");
    if (strlen(name) != key->data.scalar.length)
        return bad(y->err, &key->start_mark, "a key contains a NUL byte");
    if (json_object_get(object, name) != NULL)
        return pl_err_set(y->err, PL_EINVAL, "line %zu, column %zu: duplicate key \"%.100s\"", key->start_mark.line + 1,
                          key->start_mark.column + 1, name);
    r = value_of(y, pair->value, depth, &value);
    if (r == 0 && json_object_set_new(object, name, value) < 0)
        r = pl_err_nomem(y->err);
    return r;
}

static int mapping_of(struct reading *y, const yaml_node_t *node, unsigned depth, json_t **ret)
{
    json_t *object = json_object();
    int r = object != NULL ? 0 : pl_err_nomem(y->err);

    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; r == 0 && p < node->data.mapping.pairs.top; p++)
        r = member_of(y, p, depth, object);
    if (r < 0)
        json_decref(object);
    else
        *ret = object;
    return r;
}

/* Converts a YAML node to JSON. An alias is converted again at each use, and every value so made counts
 * toward the limit, so that a few lines cannot expand to a billion values. A node that contains itself ends
 * at the maximum depth. */
static int value_of(struct reading *y, int index, unsigned depth, json_t **ret)
{
    const yaml_node_t *node = yaml_document_get_node(&y->doc, index);

    if (++y->nodes > PL_KUBE_YAML_NODES_MAX)
        return pl_err_set(y->err, PL_ETOOBIG, "it expands to more than %u values", PL_KUBE_YAML_NODES_MAX);
    if (depth == PL_KUBE_YAML_DEPTH_MAX)
        return bad(y->err, &node->start_mark, "it is nested too deeply");
    if (node->tag != NULL && strncmp((const char *)node->tag, "tag:yaml.org,2002:", 18) != 0)
        return bad(y->err, &node->start_mark, "tags are not supported");
    switch (node->type) {
    case YAML_SEQUENCE_NODE:
        return sequence_of(y, node, depth + 1, ret);
    case YAML_MAPPING_NODE:
        return mapping_of(y, node, depth + 1, ret);
    default:
        *ret = scalar(node);
        return *ret != NULL ? 0 : bad(y->err, &node->start_mark, "it is not UTF-8, or memory is exhausted");
    }
}

static int failed(const yaml_parser_t *p, struct pl_err *err)
{
    if (p->error == YAML_MEMORY_ERROR)
        return pl_err_nomem(err);
    if (p->error == YAML_READER_ERROR)
        return pl_err_set(err, PL_EINVAL, "byte %zu: %s", p->problem_offset, p->problem != NULL ? p->problem : "it is not text");
    return bad(err, &p->problem_mark, p->problem != NULL ? p->problem : "it is not YAML");
}

/* Loads the first document and checks that there is no second. */
static int load(yaml_parser_t *p, struct reading *y, json_t **ret)
{
    yaml_document_t second;
    json_t *value = NULL;
    int r;

    if (!yaml_parser_load(p, &y->doc))
        return failed(p, y->err);
    if (yaml_document_get_root_node(&y->doc) == NULL)
        value = json_null();
    r = value == NULL ? value_of(y, 1, 0, &value) : 0;
    yaml_document_delete(&y->doc);
    if (r == 0 && !yaml_parser_load(p, &second))
        r = failed(p, y->err);
    else if (r == 0) {
        if (yaml_document_get_root_node(&second) != NULL)
            r = pl_err_set(y->err, PL_EINVAL, "it contains several documents");
        yaml_document_delete(&second);
    }
    if (r < 0)
        json_decref(value);
    else
        *ret = value;
    return r;
}

int pl_kube_yaml_parse(const void *text, size_t n, json_t **ret, struct pl_err *err)
{
    struct reading y = {.err = err};
    yaml_parser_t p;
    int r;

    if (!yaml_parser_initialize(&p))
        return pl_err_nomem(err);
    yaml_parser_set_input_string(&p, text, n);
    r = load(&p, &y, ret);
    yaml_parser_delete(&p);
    return r;
}
