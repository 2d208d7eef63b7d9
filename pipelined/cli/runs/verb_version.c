/* Versions of a pipeline: list version and diff pipeline. */
#include "pipelined/cli/runs/stage_changes.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUE_SHOWN 60 /* bytes of a value in a line; --json has the whole */

static void show_commit(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.12s", pl_show_text_at(value, "commit"));
}

/* The first line of the message. */
static void show_message(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *text = json_string_value(value);

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
}

/* "1 new, 2 changed". */
static void show_changes(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    static const char *const kinds[] = {"new", "changed", "removed"};
    size_t n = 0;

    (void)value;
    *out = '\0';
    for (size_t i = 0; i < PL_ARRAY_SIZE(kinds); i++)
        if (pl_show_int_at(item, kinds[i]))
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%lld %s", n ? ", " : "",
                                  (long long)pl_show_int_at(item, kinds[i]), kinds[i]);
}

static int list_version(struct pl_cli *c, struct pl_err *err)
{
    static const struct pl_column columns[] = {
        {"VERSION", "version", NULL},        {"SET", "created_us", pl_show_ago}, {"BY", "by", NULL},
        {"COMMIT", "origin", show_commit},   {"STAGES", "stages", show_changes}, {"RUN", "run", pl_show_id},
        {"MESSAGE", "message", show_message}};
    _cleanup_free_ char *path = NULL;
    struct pl_cli_name at;
    int r = pl_cli_name(c, "pipeline", c->args[0], &at, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/pipelines/%s/%s/versions", at.project, at.name);
    return pl_show_list(c, path, "versions", columns, PL_ARRAY_SIZE(columns), 0, "no versions", err);
}

/* ---- diff ---- */

/* Writes a value of a field on one line; "–" if the version has none. */
static void value_text(const json_t *value, char out[VALUE_SHOWN + 4])
{
    _cleanup_free_ char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    snprintf(out, VALUE_SHOWN + 1, "%s", text ? text : "–");
    pl_utf8_trim(out);
    if (text && strlen(text) > VALUE_SHOWN)
        strcat(out, "…");
}

static const char *again_words(const char *again)
{
    return pl_streq(again, "all")    ? "all datums run anew"
           : pl_streq(again, "some") ? "datums whose key is new run anew"
                                     : "nothing runs anew";
}

static void tell_stage(const struct pl_cli *c, const json_t *stage)
{
    const char *again = pl_show_text_at(stage, "again"), *change = pl_show_text_at(stage, "change");
    const json_t *one;
    size_t i;

    pl_show_say(c, "%s %s%s%s", pl_show_text_at(stage, "stage"), pl_streq(change, "unchanged") ? "is unchanged" : change,
                *again ? ": " : "", *again ? again_words(again) : "");
    json_array_foreach(pl_show_at(stage, "because"), i, one)
    {
        pl_show_say(c, "%s%s", i ? ", " : ", with ", json_string_value(one));
    }
    pl_show_say(c, "\n");
    json_array_foreach(pl_show_at(stage, "fields"), i, one)
    {
        const json_t *before = pl_show_at(one, "before"), *after = pl_show_at(one, "after");
        char from[VALUE_SHOWN + 4], to[VALUE_SHOWN + 4], files[PL_SHOW_TEXT_MAX] = "";

        value_text(before, from);
        value_text(after, to);
        if (json_is_true(pl_show_at(one, "content")))
            pl_cli_changed_files(pl_show_at(stage, "files"), files);
        pl_show_say(c, "  %-20s %s%s%s%s  [%s]\n", pl_show_text_at(one, "field"), before || after ? from : "its content",
                    before || after ? " → " : "", before || after ? to : "", files, pl_show_text_at(one, "again"));
    }
}

/* Checks that an argument is the number of a version. */
static int check_number(const char *text, struct pl_err *err)
{
    char *end = NULL;

    errno = 0;
    if (*text >= '0' && *text <= '9' && strtoll(text, &end, 10) >= 0 && errno == 0 && !*end)
        return 0;
    return pl_err_set(err, PL_EUSAGE, "\"%.60s\" is not the number of a version: list version shows them", text);
}

static int diff_pipeline(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *diff = NULL;
    _cleanup_free_ char *path = NULL;
    struct pl_cli_name at;
    const json_t *one;
    size_t i;
    int r = pl_cli_name(c, "pipeline", c->args[0], &at, err);

    for (size_t k = 1; r == 0 && k < c->n_args; k++)
        r = check_number(c->args[k], err);
    if (r < 0)
        return r;
    path = c->n_args > 2
               ? pl_http_path_make("/api/v1/pipelines/%s/%s/diff?from=%s&to=%s", at.project, at.name, c->args[1], c->args[2])
           : c->n_args > 1 ? pl_http_path_make("/api/v1/pipelines/%s/%s/diff?from=%s", at.project, at.name, c->args[1])
                           : pl_http_path_make("/api/v1/pipelines/%s/%s/diff", at.project, at.name);
    r = pl_cli_call(c, "GET", path, NULL, &diff, err);
    if (r < 0 || c->json)
        return r < 0 ? r : pl_show_json(diff, err);
    pl_show_say(c, "pipeline %s: version %lld to %lld\n", at.name, (long long)pl_show_int_at(pl_show_at(diff, "from"), "version"),
                (long long)pl_show_int_at(pl_show_at(diff, "to"), "version"));
    json_array_foreach(pl_show_at(diff, "stages"), i, one)
    {
        tell_stage(c, one);
    }
    if (pl_show_int_at(diff, "same"))
        pl_show_say(c, "%lld stage%s the same\n", (long long)pl_show_int_at(diff, "same"),
                    pl_show_int_at(diff, "same") == 1 ? " is" : "s are");
    return 0;
}

static const struct pl_verb verbs[] = {
    {"list",
     "version",
     "PIPELINE",
     1,
     1,
     NULL,
     list_version,
     "Lists the versions of a pipeline, newest first: when, by whom, from which commit, and what they changed.",
     {"list version digits", "list version vision/photos", "list version digits --json"}},
    {"diff",
     "pipeline",
     "NAME [FROM [TO]]",
     1,
     3,
     NULL,
     diff_pipeline,
     "Shows what differs between two versions of a pipeline, by default the current one and the one before it.",
     {"diff pipeline digits", "diff pipeline digits 3", "diff pipeline digits 1 4 --json"}},
};
PL_CLI_TABLE(versions, verbs);
