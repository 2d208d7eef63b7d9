/* ignore_rules: translates each rule into a glob over whole paths (glob.h), and tests the rules from the last to the
 * first. */
#include "pipelined/text/ignore_rules.h"

#include "pipelined/text/glob.h"
#include "storage/base/buf.h"

struct rule {
    struct pl_glob *glob;
    bool takes_back, folders_only;
};

struct pl_ignore_rules {
    struct rule *list;
    size_t n;
};

int pl_ignore_rules_create(struct pl_ignore_rules **ret, struct pl_err *err)
{
    struct pl_ignore_rules *rules = calloc(1, sizeof *rules);

    if (rules)
        rules->list = calloc(PL_IGNORE_RULES_MAX, sizeof *rules->list);
    if (!rules || !rules->list) {
        free(rules);
        return pl_err_nomem(err);
    }
    *ret = rules;
    return 0;
}

struct pl_ignore_rules *pl_ignore_rules_destroy(struct pl_ignore_rules *rules)
{
    if (!rules)
        return NULL;
    for (size_t i = 0; i < rules->n; i++)
        pl_glob_destroy(rules->list[i].glob);
    free(rules->list);
    free(rules);
    return NULL;
}

/* Appends text to a pattern, with a backslash before each character of `special`. */
static int add_escaped(struct pl_buf *pattern, const char *text, size_t len, const char *special, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i++) {
        if (strchr(special, text[i]))
            r = pl_buf_addf(pattern, err, "\\");
        r = r < 0 ? r : pl_buf_add(pattern, text + i, 1, err);
    }
    return r;
}

/* Appends a rule's text, in which * ? [ ] and \ are special; ** only as a whole segment. */
static int add_rule_text(struct pl_buf *pattern, const char *text, size_t len, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0, n; r == 0 && i < len; i += n) {
        n = 1;
        if (text[i] == '\\' && i + 1 < len) {
            n = 2;
            r = pl_buf_add(pattern, text + i, n, err);
        } else if (text[i] == '*') {
            const bool first = i == 0 || text[i - 1] == '/';

            while (i + n < len && text[i + n] == '*')
                n++;
            r = pl_buf_addf(pattern, err, "%s", n > 1 && first && (i + n == len || text[i + n] == '/') ? "**" : "*");
        } else {
            r = add_escaped(pattern, text + i, 1, "{}()|", err);
        }
    }
    return r;
}

/* Length of a line without its end: the blanks that no backslash protects, and "\r". */
static size_t trimmed(const char *line, size_t len)
{
    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r') &&
           !(len > 1 && line[len - 2] == '\\'))
        len--;
    return len;
}

static int add_rule(struct pl_ignore_rules *rules, const char *folder, const char *line, size_t len, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf pattern = {.max = 4 * PL_GLOB_MAX_BYTES};
    struct rule rule = {0};
    bool anchored;
    int r;

    len = trimmed(line, len);
    if (len > 0 && line[0] == '#')
        return 0;
    rule.takes_back = len > 0 && line[0] == '!';
    line += rule.takes_back;
    len -= rule.takes_back;
    rule.folders_only = len > 0 && line[len - 1] == '/';
    len -= rule.folders_only;
    if (len == 0)
        return 0;
    if (rules->n == PL_IGNORE_RULES_MAX)
        return pl_err_set(err, PL_ELIMIT, "more than %u rules", PL_IGNORE_RULES_MAX);
    anchored = memchr(line, '/', len) != NULL;
    if (line[0] == '/') {
        line++;
        len--;
    }
    r = add_escaped(&pattern, folder, strlen(folder), "*?[]{}()|\\", err);
    r = r < 0 ? r : pl_buf_addf(&pattern, err, anchored ? "/" : "/**/");
    r = r < 0 ? r : add_rule_text(&pattern, line, len, err);
    r = r < 0 ? r : pl_glob_compile(pl_buf_str(&pattern), &rule.glob, err);
    if (r == 0)
        rules->list[rules->n++] = rule;
    return r;
}

int pl_ignore_rules_add(struct pl_ignore_rules *rules, const char *folder, const char *text, size_t len, struct pl_err *err)
{
    unsigned number = 1;
    int r = 0;

    if (len > PL_IGNORE_FILE_BYTES)
        return pl_err_set(err, PL_ELIMIT, "%s%s%s has %zu bytes: at most %u are accepted", folder, *folder ? "/" : "",
                          PL_IGNORE_FILE, len, PL_IGNORE_FILE_BYTES);
    for (size_t at = 0, end; r == 0 && at < len; at = end + 1, number++) {
        const char *stop = memchr(text + at, '\n', len - at);

        end = stop ? (size_t)(stop - text) : len;
        r = add_rule(rules, folder, text + at, end - at, err);
        if (r < 0)
            pl_err_wrap(err, r, "%s%s%s:%u", folder, *folder ? "/" : "", PL_IGNORE_FILE, number);
    }
    return r;
}

bool pl_ignore_rules_match(const struct pl_ignore_rules *rules, const char *path, bool is_dir)
{
    const size_t len = strlen(path);

    for (size_t i = rules->n; i-- > 0;) {
        const struct rule *rule = &rules->list[i];

        if ((is_dir || !rule->folders_only) && pl_glob_match(rule->glob, path, len, NULL))
            return !rule->takes_back;
    }
    return false;
}
