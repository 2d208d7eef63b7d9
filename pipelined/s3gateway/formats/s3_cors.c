/* Keeps the documents of all buckets in memory, in a map by the bucket's names, and matches requests against their
 * elements. A document is checked when it is put, and again when it is read at the start. A bucket that is made again
 * has the names of the deleted one, but another file: the map has the rules of the deleted one until it gets its own. */
#include "pipelined/s3gateway/formats/s3_cors.h"

#include "pipelined/s3gateway/formats/s3_error.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"
#include "storage/s3/s3_xml.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#define SUFFIX         ".cors"
#define NAME_BYTES     (48u + 2 * PL_NAME_MAX_BYTES)
#define KEY_BYTES      (3 * (PL_NAME_MAX_BYTES + 1u))
#define FILE_MAX_BYTES ((size_t)256 << 10)

struct pl_s3_cors {
    char *dir;
    pthread_mutex_t lock;
    struct pl_map map; /* "PROJECT/REPO/BRANCH" → struct rules */
};

/* The rules of one bucket. */
struct rules {
    struct pl_s3_cors_bucket of; /* without names */
    char name[NAME_BYTES];       /* of the file, without suffix */
    struct pl_s3_xml *xml;       /* owned */
};

/* ---- names and files ---- */

static void name_of(const struct pl_s3_cors_bucket *b, char ret[NAME_BYTES])
{
    int n = snprintf(ret, NAME_BYTES, "%lld-", (long long)b->repo_id);

    if (b->created_us)
        n += snprintf(ret + n, NAME_BYTES - (size_t)n, "%lld-", (long long)b->created_us);
    pl_hex_encode(b->branch, PL_MIN(strlen(b->branch), (size_t)PL_NAME_MAX_BYTES), ret + n);
}

static void key_of(const struct pl_s3_cors_bucket *b, char ret[KEY_BYTES])
{
    snprintf(ret, KEY_BYTES, "%s/%s/%s", b->project, b->repo, b->branch);
}

/* Reads the bucket from a file's name; the branch goes to `ret_branch`. Returns false if it is no such name. */
static bool read_name(const char *name, struct pl_s3_cors_bucket *ret, char ret_branch[PL_NAME_MAX_BYTES + 1])
{
    const char *hex = strrchr(name, '-');
    char again[NAME_BYTES];
    size_t len = hex ? strlen(++hex) / 2 : 0;
    char *end;

    if (!hex || !len || len > PL_NAME_MAX_BYTES || strlen(hex) != 2 * len || !pl_hex_decode(hex, ret_branch, len))
        return false;
    ret_branch[len] = '\0';
    *ret = (struct pl_s3_cors_bucket){.repo_id = strtoll(name, &end, 10), .branch = ret_branch};
    if (*end == '-' && end + 1 < hex)
        ret->created_us = strtoll(end + 1, NULL, 10);
    name_of(ret, again);
    return pl_streq(name, again);
}

static int path_of(const struct pl_s3_cors *c, const char *name, char ret[PATH_MAX], struct pl_err *err)
{
    return snprintf(ret, PATH_MAX, "%s/%s" SUFFIX, c->dir, name) < PATH_MAX
               ? 0
               : pl_err_set(err, PL_EINVAL, "%s is too long", c->dir);
}

/* ---- checking ---- */

static bool is_method(const char *text)
{
    static const char *const methods[] = {"GET", "PUT", "POST", "DELETE", "HEAD"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(methods); i++)
        if (pl_streq(text, methods[i]))
            return true;
    return false;
}

static int check_element(const struct pl_s3_xml_node *e, struct pl_err *err)
{
    const char *star = strchr(e->text, '*');

    if (pl_streq(e->name, "AllowedMethod"))
        return is_method(e->text)
                   ? 0
                   : pl_err_set(err, PL_S3_INVALID_REQUEST,
                                "Found unsupported HTTP method in CORS config. Unsupported method is %.40s", e->text);
    if (pl_streq(e->name, "AllowedOrigin") || pl_streq(e->name, "AllowedHeader"))
        return !star || !strchr(star + 1, '*')
                   ? 0
                   : pl_err_set(err, PL_S3_INVALID_REQUEST, "%s \"%.100s\" can not have more than one wildcard.", e->name,
                                e->text);
    if (pl_streq(e->name, "MaxAgeSeconds"))
        return *e->text && strlen(e->text) < 10 && strspn(e->text, "0123456789") == strlen(e->text)
                   ? 0
                   : pl_s3_error(err, PL_S3_MALFORMED_XML);
    if (pl_streq(e->name, "ID"))
        return strlen(e->text) <= PL_S3_CORS_ID_MAX
                   ? 0
                   : pl_err_set(err, PL_S3_INVALID_REQUEST, "The ID of a CORSRule has %zu bytes; at most %u are accepted.",
                                strlen(e->text), PL_S3_CORS_ID_MAX);
    if (pl_streq(e->name, "ExposeHeader"))
        return 0;
    return pl_err_set(err, PL_S3_MALFORMED_XML, "CORSRule has an element %.60s, which is not known.", e->name);
}

/* Checks the elements of a rule, and that those that S3 has once are there once at most. */
static int check_rule(const struct pl_s3_xml_node *rule, struct pl_err *err)
{
    static const char *const once[] = {"ID", "MaxAgeSeconds"};
    size_t elements = 0;
    int r = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(once); i++) {
        const struct pl_s3_xml_node *first = pl_s3_xml_child(rule, once[i]);

        if (first && pl_s3_xml_again(first))
            return pl_err_set(err, PL_S3_MALFORMED_XML, "CORSRule has more than one element %s.", once[i]);
    }
    for (const struct pl_s3_xml_node *e = rule->first; e && r == 0; e = e->next) {
        if (++elements > PL_S3_CORS_ELEMENTS_MAX)
            return pl_err_set(err, PL_S3_INVALID_REQUEST, "A CORSRule has more than %u elements, which is the limit here.",
                              PL_S3_CORS_ELEMENTS_MAX);
        r = check_element(e, err);
    }
    return r;
}

static int check(const struct pl_s3_xml_node *root, struct pl_err *err)
{
    const struct pl_s3_xml_node *rule;
    size_t rules = 0;

    for (rule = root->first; rule; rule = rule->next) {
        int r;

        if (!pl_streq(rule->name, "CORSRule") || ++rules > PL_S3_CORS_RULES_MAX || !pl_s3_xml_child(rule, "AllowedMethod") ||
            !pl_s3_xml_child(rule, "AllowedOrigin"))
            return pl_s3_error(err, PL_S3_MALFORMED_XML);
        r = check_rule(rule, err);
        if (r < 0)
            return r;
    }
    return rules ? 0 : pl_s3_error(err, PL_S3_MALFORMED_XML);
}

static int write_document(const struct pl_s3_xml_node *root, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_begin(out, "CORSConfiguration", true, err);

    for (const struct pl_s3_xml_node *rule = root->first; rule && r == 0; rule = rule->next) {
        r = pl_s3_xml_open(out, rule->name, err);
        for (const struct pl_s3_xml_node *e = rule->first; e && r == 0; e = e->next)
            r = pl_s3_xml_add(out, e->name, e->text, err);
        r = r < 0 ? r : pl_s3_xml_close(out, rule->name, err);
    }
    return r < 0 ? r : pl_s3_xml_close(out, "CORSConfiguration", err);
}

/* ---- start and end ---- */

static struct rules *rules_free(struct rules *rules)
{
    if (rules)
        pl_s3_xml_destroy(rules->xml);
    free(rules);
    return NULL;
}

static void free_value(void *rules)
{
    rules_free(rules);
}

static struct rules *get_rules(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b)
{
    char key[KEY_BYTES];

    key_of(b, key);
    return pl_map_get(&c->map, key, strlen(key));
}

/* Adds the rules under the bucket's names; `name` is that of their file. Takes the document, also after an error.
 * Returns the rules that had the names in `ret_old`. */
static int add_rules(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, const char *name, struct pl_s3_xml *xml,
                     struct rules **ret_old, struct pl_err *err)
{
    struct rules *rules = calloc(1, sizeof *rules);
    char key[KEY_BYTES];
    void *old = NULL;
    int r;

    if (!rules) {
        pl_s3_xml_destroy(xml);
        return pl_err_nomem(err);
    }
    rules->of = (struct pl_s3_cors_bucket){.repo_id = b->repo_id, .created_us = b->created_us};
    rules->xml = xml;
    snprintf(rules->name, sizeof rules->name, "%s", name);
    key_of(b, key);
    r = pl_map_put(&c->map, key, strlen(key), rules, &old, err);
    if (r < 0)
        rules_free(rules);
    else
        *ret_old = old;
    return r;
}

static void remove_file(const struct pl_s3_cors *c, const char *name)
{
    char path[PATH_MAX];

    if (path_of(c, name, path, NULL) == 0)
        (void)unlink(path);
}

/* Returns true if the rules are those of a bucket that was made after `b` and has its names. */
static bool is_newer(const struct rules *rules, const struct pl_s3_cors_bucket *b)
{
    return rules && (rules->of.repo_id > b->repo_id || (rules->of.repo_id == b->repo_id && rules->of.created_us > b->created_us));
}

/* Adds the rules of a file, unless newer ones have their names. The file of the older ones is removed. */
static int add_newest(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, const char *name, struct pl_s3_xml *xml,
                      struct pl_err *err)
{
    struct rules *old = NULL;
    int r;

    if (is_newer(get_rules(c, b), b)) {
        remove_file(c, name);
        pl_s3_xml_destroy(xml);
        return 0;
    }
    r = add_rules(c, b, name, xml, &old, err);
    if (r == 0 && old)
        remove_file(c, old->name);
    rules_free(old);
    return r;
}

static int read_one(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, const char *name, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = FILE_MAX_BYTES};
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *xml = NULL;
    char path[PATH_MAX];
    int r = path_of(c, name, path, err);

    r = r < 0 ? r : pl_io_read_file(path, &text, err);
    r = r < 0 ? r : pl_s3_xml_parse(text.data, text.len, &xml, err);
    r = r < 0 ? r : check(pl_s3_xml_root(xml), err);
    return r < 0 ? r : add_newest(c, b, name, TAKE_PTR(xml), err);
}

/* Reads the file, or removes it if its repo is no more. A file that cannot be read is set aside. */
static int read_file(struct pl_s3_cors *c, const char *name, pl_s3_cors_repo_fn name_repo, void *arg, struct pl_err *err)
{
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    char path[PATH_MAX], aside[PATH_MAX + 16];
    struct pl_s3_cors_bucket b;
    struct pl_err why = {0};
    int r;

    if (read_name(name, &b, branch)) {
        r = name_repo(arg, b.repo_id, project, repo, err);
        if (r == PL_ENOTFOUND)
            remove_file(c, name);
        if (r < 0)
            return r == PL_ENOTFOUND ? 0 : r;
        b.project = project;
        b.repo = repo;
        r = read_one(c, &b, name, &why);
    } else {
        r = pl_err_set(&why, PL_EINVAL, "its name is that of no bucket");
    }
    if (r == PL_ENOMEM)
        return pl_err_nomem(err);
    if (r < 0 && path_of(c, name, path, NULL) == 0) {
        snprintf(aside, sizeof aside, "%s.damaged", path);
        pl_log_warn("s3", "cannot read the CORS rules %s, so the file is set aside: %s", path, why.msg);
        (void)rename(path, aside);
    }
    return 0;
}

static int read_all(struct pl_s3_cors *c, pl_s3_cors_repo_fn name_repo, void *arg, struct pl_err *err)
{
    DIR *d = opendir(c->dir);
    const struct dirent *entry;
    int r = d ? 0 : pl_err_errno(err, errno, "list %s", c->dir);

    while (r == 0 && (entry = readdir(d))) {
        size_t len = strlen(entry->d_name), tail = strlen(SUFFIX);
        char name[NAME_BYTES];

        if (len <= tail || len - tail >= sizeof name || !pl_streq(entry->d_name + len - tail, SUFFIX))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(len - tail), entry->d_name);
        r = read_file(c, name, name_repo, arg, err);
    }
    if (d)
        closedir(d);
    return r;
}

int pl_s3_cors_open(const char *dir, pl_s3_cors_repo_fn name_repo, void *arg, struct pl_s3_cors **ret, struct pl_err *err)
{
    struct pl_s3_cors *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return pl_err_nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    c->dir = strdup(dir);
    r = c->dir ? read_all(c, name_repo, arg, err) : pl_err_nomem(err);
    if (r < 0)
        c = pl_s3_cors_close(c);
    *ret = c;
    return r;
}

struct pl_s3_cors *pl_s3_cors_close(struct pl_s3_cors *c)
{
    if (!c)
        return NULL;
    pl_map_finish(&c->map, free_value);
    pthread_mutex_destroy(&c->lock);
    free(c->dir);
    free(c);
    return NULL;
}

/* ---- put, get, delete ---- */

int pl_s3_cors_put(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, struct pl_s3_xml *xml, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = FILE_MAX_BYTES};
    char name[NAME_BYTES], path[PATH_MAX];
    struct rules *old = NULL;
    int r = check(pl_s3_xml_root(xml), err);

    name_of(b, name);
    r = r < 0 ? r : write_document(pl_s3_xml_root(xml), &text, err);
    r = r < 0 ? r : path_of(c, name, path, err);
    pthread_mutex_lock(&c->lock);
    if (r == 0 && is_newer(get_rules(c, b), b))
        r = pl_s3_error(err, PL_S3_NO_SUCH_BUCKET);
    if (r == 0 && !get_rules(c, b) && c->map.len >= PL_S3_CORS_MAX)
        r = pl_err_set(err, PL_S3_SLOW_DOWN, "%u buckets have CORS rules, which is the limit: delete some.", PL_S3_CORS_MAX);
    r = r < 0 ? r : pl_io_write_file(path, text.data, text.len, 0600, err);
    if (r < 0)
        pl_s3_xml_destroy(xml);
    else
        r = add_rules(c, b, name, xml, &old, err);
    if (old && !pl_streq(old->name, name))
        remove_file(c, old->name);
    pthread_mutex_unlock(&c->lock);
    rules_free(old);
    return r;
}

int pl_s3_cors_get(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, struct pl_buf *out, struct pl_err *err)
{
    const struct rules *rules;
    char name[NAME_BYTES];
    int r;

    name_of(b, name);
    pthread_mutex_lock(&c->lock);
    rules = get_rules(c, b);
    r = rules && pl_streq(rules->name, name) ? write_document(pl_s3_xml_root(rules->xml), out, err)
                                             : pl_s3_error(err, PL_S3_NO_SUCH_CORS);
    pthread_mutex_unlock(&c->lock);
    return r;
}

/* Removes the rules of that file, if the names in `key` have them. The caller makes that durable with
 * pl_io_fsync_dir(). */
static int remove_one(struct pl_s3_cors *c, const char *key, const char *name, struct pl_err *err)
{
    const struct rules *rules;
    char path[PATH_MAX];
    int r = path_of(c, name, path, err);

    if (r < 0)
        return r;
    pthread_mutex_lock(&c->lock);
    rules = pl_map_get(&c->map, key, strlen(key));
    if (rules && pl_streq(rules->name, name)) {
        if (unlink(path) < 0 && errno != ENOENT)
            r = pl_err_errno(err, errno, "remove %s", path);
        else
            rules_free(pl_map_remove(&c->map, key, strlen(key)));
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}

int pl_s3_cors_delete(struct pl_s3_cors *c, const struct pl_s3_cors_bucket *b, struct pl_err *err)
{
    char key[KEY_BYTES], name[NAME_BYTES];
    int r;

    key_of(b, key);
    name_of(b, name);
    r = remove_one(c, key, name, err);
    return r < 0 ? r : pl_io_fsync_dir(c->dir, err);
}

/* Removes the rules that `fits` selects. It is called without the lock, because it may read the database. */
static void remove_some(struct pl_s3_cors *c, bool (*fits)(void *arg, const struct pl_s3_cors_bucket *b), void *arg)
{
    struct found {
        struct pl_s3_cors_bucket of;
        char key[KEY_BYTES], name[NAME_BYTES];
    } * all;
    const struct pl_map_slot *slot;
    struct pl_err err = {0};
    size_t i = 0, n = 0, removed = 0;
    int r;

    pthread_mutex_lock(&c->lock);
    all = calloc(c->map.len + 1, sizeof *all);
    while (all && (slot = pl_map_next(&c->map, &i))) {
        const struct rules *rules = slot->value;

        all[n].of = rules->of;
        snprintf(all[n].key, sizeof all[n].key, "%s", (const char *)slot->key);
        memcpy(all[n++].name, rules->name, sizeof rules->name);
    }
    pthread_mutex_unlock(&c->lock);
    r = all ? 0 : pl_err_nomem(&err);
    for (i = 0; i < n && r == 0; i++) {
        if (!fits(arg, &all[i].of))
            continue;
        r = remove_one(c, all[i].key, all[i].name, &err);
        removed++;
    }
    if (r == 0 && removed)
        r = pl_io_fsync_dir(c->dir, &err);
    if (r < 0)
        pl_log_warn("s3", "cannot remove the CORS rules of a deleted bucket: %s", err.msg);
    free(all);
}

static bool is_of_repo(void *arg, const struct pl_s3_cors_bucket *b)
{
    const int64_t *repo_id = arg;

    return b->repo_id == *repo_id;
}

void pl_s3_cors_drop_repo(struct pl_s3_cors *c, int64_t repo_id)
{
    remove_some(c, is_of_repo, &repo_id);
}

bool pl_s3_cors_is_full(struct pl_s3_cors *c)
{
    bool full;

    pthread_mutex_lock(&c->lock);
    full = c->map.len >= PL_S3_CORS_MAX;
    pthread_mutex_unlock(&c->lock);
    return full;
}

struct sweep {
    bool (*is_there)(void *arg, int64_t repo_id, int64_t created_us);
    void *arg;
};

static bool is_gone(void *arg, const struct pl_s3_cors_bucket *b)
{
    const struct sweep *s = arg;

    return !s->is_there(s->arg, b->repo_id, b->created_us);
}

void pl_s3_cors_sweep(struct pl_s3_cors *c, bool (*is_there)(void *arg, int64_t repo_id, int64_t created_us), void *arg)
{
    remove_some(c, is_gone, &(struct sweep){is_there, arg});
}

/* ---- matching ---- */

/* Returns true if the text has the pattern's form; "*" in it stands for any text. */
static bool fits(const char *pattern, const char *text, size_t len)
{
    const char *star = strchr(pattern, '*');
    size_t head = star ? (size_t)(star - pattern) : strlen(pattern), tail = star ? strlen(star + 1) : 0;

    if (!star)
        return len == head && strncasecmp(pattern, text, len) == 0;
    return len >= head + tail && strncasecmp(pattern, text, head) == 0 && strncasecmp(star + 1, text + len - tail, tail) == 0;
}

static const struct pl_s3_xml_node *find(const struct pl_s3_xml_node *rule, const char *element, const char *text, size_t len)
{
    const struct pl_s3_xml_node *e = pl_s3_xml_child(rule, element);

    while (e && !fits(e->text, text, len))
        e = pl_s3_xml_again(e);
    return e;
}

/* Returns true if the rule allows every header of the list, and the list is not too long. */
static bool allows_headers(const struct pl_s3_xml_node *rule, const char *list)
{
    size_t n = 0;

    for (const char *p = list; p && *p;) {
        size_t len;

        p += strspn(p, ", \t");
        len = strcspn(p, ", \t");
        if (len && (++n > PL_S3_CORS_HEADERS_MAX || !find(rule, "AllowedHeader", p, len)))
            return false;
        p += len;
    }
    return true;
}

/* Appends the texts of all elements of that name, separated by ", ". */
static int join(const struct pl_s3_xml_node *rule, const char *element, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (const struct pl_s3_xml_node *e = pl_s3_xml_child(rule, element); e && r == 0; e = pl_s3_xml_again(e))
        r = pl_buf_addf(out, err, "%s%s", out->len ? ", " : "", e->text);
    return r < 0 || pl_buf_str(out) ? r : pl_err_nomem(err);
}

void pl_s3_cors_answer_finish(struct pl_s3_cors_answer *a)
{
    pl_buf_finish(&a->methods);
    pl_buf_finish(&a->expose);
    pl_buf_finish(&a->max_age);
}

static int match(const struct pl_s3_xml_node *root, const struct pl_s3_cors_question *q, struct pl_s3_cors_answer *ret,
                 struct pl_err *err)
{
    for (const struct pl_s3_xml_node *rule = root->first; rule; rule = rule->next) {
        const struct pl_s3_xml_node *origin = find(rule, "AllowedOrigin", q->origin, strlen(q->origin));
        int r;

        if (!origin || !find(rule, "AllowedMethod", q->method, strlen(q->method)) || !allows_headers(rule, q->headers))
            continue;
        ret->any_origin = pl_streq(origin->text, "*");
        r = join(rule, "AllowedMethod", &ret->methods, err);
        r = r < 0 ? r : join(rule, "ExposeHeader", &ret->expose, err);
        r = r < 0 ? r : join(rule, "MaxAgeSeconds", &ret->max_age, err);
        return r < 0 ? r : 1;
    }
    return 0;
}

int pl_s3_cors_match(struct pl_s3_cors *c, struct pl_s3_cors_bucket *b, const struct pl_s3_cors_question *question,
                     struct pl_s3_cors_answer *ret, struct pl_err *err)
{
    const struct rules *rules;
    int r;

    pthread_mutex_lock(&c->lock);
    rules = get_rules(c, b);
    r = rules ? match(pl_s3_xml_root(rules->xml), question, ret, err) : 0;
    if (r > 0) {
        b->repo_id = rules->of.repo_id;
        b->created_us = rules->of.created_us;
    }
    pthread_mutex_unlock(&c->lock);
    return r;
}
