/* Builds the document: each row becomes an operation under paths, each schema an entry of components. Types
 * are written in the short notation of struct pl_api_schema. */
#include "pipelined/api/server/openapi.h"

#include "pipelined/text/json_text.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define WORD_MAX 64

/* ---- schemas ---- */

/* One "name:type" of a field list. */
struct field {
    char name[WORD_MAX], type[WORD_MAX]; /* "" = no type given */
    bool optional, array, repeated;      /* suffixes ?, [] and * */
};

static bool strip(char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);

    if (len < n || !pl_streq(text + len - n, end))
        return false;
    text[len - n] = '\0';
    return true;
}

/* Reads the next "name:type" of a field list at `*at`, and advances `*at` past it. Returns false at the end
 * of the list. */
static bool next_field(const char **at, struct field *ret)
{
    size_t len, name_len;
    const char *word = *at + strspn(*at, " ");

    len = strcspn(word, " ");
    name_len = PL_MIN(strcspn(word, ":"), len);
    *at = word + len;
    if (len == 0)
        return false;
    *ret = (struct field){0};
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)name_len, word);
    if (name_len < len)
        snprintf(ret->type, sizeof ret->type, "%.*s", (int)(len - name_len - 1), word + name_len + 1);
    ret->optional = strip(ret->type, "?");
    ret->array = strip(ret->type, "[]");
    ret->repeated = strip(ret->name, "*");
    return true;
}

static const struct pl_api_schema *find_schema(const struct pl_api *a, const char *name)
{
    size_t n;
    const struct pl_api_table *const *tables = pl_api_tables(a, &n);

    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t]->n_schemas; i++)
            if (pl_streq(tables[t]->schemas[i].name, name))
                return &tables[t]->schemas[i];
    return NULL;
}

/* Makes {"type": …} or {"$ref": …}. */
static int type_json(const struct pl_api *a, const char *type, json_t **ret, struct pl_err *err)
{
    static const char *const plain[] = {"string", "integer", "boolean", "object", "number"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(plain); i++) {
        if (pl_streq(type, plain[i])) {
            *ret = json_pack("{s:s}", "type", type);
            return 0;
        }
    }
    if (pl_streq(type, "any")) {
        *ret = json_object();
        return 0;
    }
    if (!find_schema(a, type))
        return pl_err_set(err, PL_EINTERNAL, "there is no schema \"%s\"", type);
    *ret = json_pack("{s:o}", "$ref", json_sprintf("#/components/schemas/%s", type));
    return 0;
}

static int field_json(const struct pl_api *a, const struct field *f, json_t **ret, struct pl_err *err)
{
    json_t *type;
    int r = type_json(a, *f->type ? f->type : "string", &type, err);

    if (r < 0)
        return r;
    if (f->array || f->repeated)
        type = json_pack("{s:s, s:o}", "type", "array", "items", type);
    if (f->optional)
        type = json_pack("{s:[o, {s:s}]}", "anyOf", type, "type", "null");
    *ret = type;
    return 0;
}

static int schema_json(const struct pl_api *a, const struct pl_api_schema *schema, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *properties = json_object(), *required = json_array();
    const char *at = schema->fields;
    struct field f;

    while (next_field(&at, &f)) {
        json_t *type;
        int r = field_json(a, &f, &type, err);

        if (r < 0)
            return pl_err_wrap(err, r, "schema %s: %s", schema->name, f.name);
        json_object_set_new(properties, f.name, type);
        if (!f.optional)
            json_array_append_new(required, json_string(f.name));
    }
    *ret = json_pack("{s:s, s:O, s:O}", "type", "object", "properties", properties, "required", required);
    return 0;
}

/* ---- operations ---- */

/* Makes {media type: {"schema": …}} from a schema's name or a media type. */
static int content_json(const struct pl_api *a, const char *what, json_t **ret, struct pl_err *err)
{
    bool media = strchr(what, '/') != NULL;
    json_t *schema = NULL;
    int r = media ? 0 : type_json(a, what, &schema, err);

    if (r < 0)
        return r;
    if (media)
        schema = json_pack("{s:s, s:s}", "type", "string", "format", "binary");
    *ret = json_pack("{s:{s:o}}", media ? what : "application/json", "schema", schema);
    return 0;
}

/* Lists the parameters of a pattern, one for each "{repo}" or "{path...}". Writes the pattern as an OpenAPI
 * path, without the dots, into `path`. */
static json_t *path_parameters(const char *pattern, char *path, size_t size)
{
    json_t *list = json_array();
    size_t n = 0;

    for (const char *c = pattern; *c && n + 1 < size; c++) {
        if (*c == '{') {
            size_t len = strcspn(c + 1, ".}");

            json_array_append_new(list, json_pack("{s:s%, s:s, s:b, s:{s:s}}", "name", c + 1, len, "in", "path", "required", 1,
                                                  "schema", "type", "string"));
        }
        if (*c != '.' || strncmp(c, "...", 3) != 0)
            path[n++] = *c;
        else
            c += 2;
    }
    path[n] = '\0';
    return list;
}

static int add_query(const struct pl_api *a, json_t *parameters, const char *query, struct pl_err *err)
{
    struct field f;

    while (query && next_field(&query, &f)) {
        json_t *schema;
        int r = field_json(a, &f, &schema, err);

        if (r < 0)
            return r;
        json_array_append_new(parameters,
                              json_pack("{s:s, s:s, s:b, s:o}", "name", f.name, "in", "query", "required", 0, "schema", schema));
    }
    return 0;
}

static json_t *responses_json(json_t *content)
{
    json_t *good = json_pack("{s:s}", "description", "Done."),
           *bad = json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", "Refused or failed.", "content", "application/json",
                            "schema", "$ref", "#/components/schemas/Error");

    if (content)
        json_object_set_new(good, "content", content);
    return json_pack("{s:o, s:o}", "2XX", good, "default", bad);
}

/* Makes the operation of one row: summary, parameters, request body, responses, security. */
static int operation_json(const struct pl_api *a, const struct pl_api_route *row, json_t *parameters, json_t **ret,
                          struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *operation =
        json_pack("{s:s, s:O}", "summary", row->summary ? row->summary : "", "parameters", parameters);
    json_t *content = NULL;
    int r = row->summary ? add_query(a, parameters, row->query, err) : pl_err_set(err, PL_EINTERNAL, "it has no summary");

    if (r == 0 && row->request)
        r = content_json(a, row->request, &content, err);
    if (r < 0)
        return r;
    if (content)
        json_object_set_new(operation, "requestBody", json_pack("{s:b, s:o}", "required", 1, "content", content));
    content = NULL;
    r = row->reply ? content_json(a, row->reply, &content, err) : 0;
    if (r < 0)
        return r;
    json_object_set_new(operation, "responses", responses_json(content));
    if (row->verb == PL_VERB_OPEN)
        json_object_set_new(operation, "security", json_array());
    *ret = TAKE_PTR(operation);
    return 0;
}

static int add_operation(const struct pl_api *a, json_t *paths, const struct pl_api_route *row, struct pl_err *err)
{
    char path[256], method[16];
    _cleanup_(json_decrefp) json_t *parameters = path_parameters(row->pattern, path, sizeof path);
    json_t *operation, *item;
    int r = operation_json(a, row, parameters, &operation, err);

    if (r < 0)
        return pl_err_wrap(err, r, "%s %s", row->method, row->pattern);
    snprintf(method, sizeof method, "%s", row->method);
    for (char *c = method; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    item = json_object_get(paths, path);
    if (!item) {
        item = json_object();
        json_object_set_new(paths, path, item);
    }
    json_object_set_new(item, method, operation);
    return 0;
}

/* ---- the document ---- */

static int add_paths(const struct pl_api *a, json_t *paths, struct pl_err *err)
{
    const struct pl_http_route *more = a->config.more_routes;
    size_t n;
    const struct pl_api_table *const *tables = pl_api_tables(a, &n);
    int r = 0;

    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t]->n_routes && r == 0; i++)
            r = add_operation(a, paths, &tables[t]->routes[i], err);
    for (size_t i = 0; i < a->config.n_more_routes && r == 0; i++) {
        struct pl_api_route row = {.method = more[i].method,
                                   .pattern = more[i].pattern,
                                   .summary = "Part of the workers' protocol (docs/protocol.md).",
                                   .verb = PL_ACCESS_VERB(more[i].access)};

        r = add_operation(a, paths, &row, err);
    }
    return r;
}

static int add_schemas(const struct pl_api *a, json_t *schemas, struct pl_err *err)
{
    size_t n;
    const struct pl_api_table *const *tables = pl_api_tables(a, &n);

    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < tables[t]->n_schemas; i++) {
            json_t *schema = NULL;
            int r = schema_json(a, &tables[t]->schemas[i], &schema, err);

            if (r < 0)
                return r;
            assert(!json_object_get(schemas, tables[t]->schemas[i].name)); /* one name, one schema */
            json_object_set_new(schemas, tables[t]->schemas[i].name, schema);
        }
    }
    return 0;
}

int pl_openapi_document(const struct pl_api *a, struct pl_buf *ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *paths = json_object(), *schemas = json_object(), *document = NULL;
    _cleanup_free_ char *text = NULL;
    int r = add_paths(a, paths, err);

    r = r < 0 ? r : add_schemas(a, schemas, err);
    if (r < 0)
        return pl_err_wrap(err, r, "OpenAPI");
    document = json_pack("{s:s, s:{s:s, s:s}, s:[{s:[]}, {s:[]}], s:O, s:{s:O, s:{s:{s:s, s:s}, s:{s:s, s:s, s:s}}}}", "openapi",
                         "3.1.0", "info", "title", "pipelined", "version", a->config.version, "security", "token", "cookie",
                         "paths", paths, "components", "schemas", schemas, "securitySchemes", "token", "type", "http", "scheme",
                         "bearer", "cookie", "type", "apiKey", "in", "cookie", "name", PL_SESSION_COOKIE);
    text = document ? pl_json_text(document, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (!text)
        return pl_err_nomem(err);
    r = pl_buf_add_str(ret, text, err);
    return r < 0 ? r : pl_buf_add_str(ret, "\n", err);
}
