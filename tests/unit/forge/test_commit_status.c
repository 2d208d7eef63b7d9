// link: pipelined/forge
/* Requests that set the status of a commit: a row for each kind of server and form of address, and what is refused. */
#include "pipelined/forge/commit_status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include <stdio.h>
#include <string.h>

#define SHA "0123456789abcdef0123456789abcdef01234567"

static const struct pl_commit_status plain = {.kind = PL_STATUS_GITHUB,
                                              .git = "https://github.com/team/pipelines.git",
                                              .commit = SHA,
                                              .good = true,
                                              .context = "pipelined/team",
                                              .text = "3 pipelines set",
                                              .target = "",
                                              .token = "t0k"};

static void each_address_has_its_url(void **state)
{
    static const struct {
        enum pl_status_kind kind;
        const char *git, *url;
    } rows[] = {
        {PL_STATUS_GITHUB, "https://github.com/team/pipelines.git", "https://api.github.com/repos/team/pipelines/statuses/" SHA},
        {PL_STATUS_GITHUB, "https://github.com/team/.github/", "https://api.github.com/repos/team/.github/statuses/" SHA},
        {PL_STATUS_GITHUB, "https://git.example.org:8443/team/x",
         "https://git.example.org:8443/api/v3/repos/team/x/statuses/" SHA},
        {PL_STATUS_GITLAB, "https://gitlab.com/team/x.git", "https://gitlab.com/api/v4/projects/team%2Fx/statuses/" SHA},
        {PL_STATUS_GITLAB, "https://gitlab.com/a/b/c/x.git", "https://gitlab.com/api/v4/projects/a%2Fb%2Fc%2Fx/statuses/" SHA},
        {PL_STATUS_GITLAB, "http://[::1]:80/a/x", "http://[::1]:80/api/v4/projects/a%2Fx/statuses/" SHA},
        {PL_STATUS_GITEA, "https://codeberg.org/team/x.git", "https://codeberg.org/api/v1/repos/team/x/statuses/" SHA},
        {PL_STATUS_GITEA, "https://example.org/git/team/x", "https://example.org/git/api/v1/repos/team/x/statuses/" SHA},
    };
    char url[PL_STATUS_URL_MAX];
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        assert_int_equal(pl_commit_status_url(rows[i].kind, rows[i].git, SHA, url, &err), 0);
        assert_string_equal(url, rows[i].url);
    }
}

static void addresses_without_such_a_server_are_refused(void **state)
{
    static const struct {
        enum pl_status_kind kind;
        const char *git, *part;
    } rows[] = {
        {PL_STATUS_GITHUB, "git@github.com:team/x.git", "https://"},
        {PL_STATUS_GITLAB, "/srv/git/x.git", "https://"},
        {PL_STATUS_GITEA, "ssh://git@example.org/team/x.git", "https://"},
        {PL_STATUS_GITHUB, "https://github.com/x.git", "OWNER/REPOSITORY"},
        {PL_STATUS_GITHUB, "https://example.org/git/team/x.git", "OWNER/REPOSITORY"},
        {PL_STATUS_GITLAB, "https://gitlab.com/x", "OWNER/REPOSITORY"},
        {PL_STATUS_GITEA, "https://example.org/team//x", "OWNER/REPOSITORY"},
        {PL_STATUS_GITEA, "https://example.org/te%20am/x", "OWNER/REPOSITORY"},
    };
    char url[PL_STATUS_URL_MAX];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_err err = {0};

        assert_true(pl_commit_status_url(rows[i].kind, rows[i].git, SHA, url, &err) < 0);
        assert_string_equal(err.field, "status");
        assert_non_null(strstr(err.msg, rows[i].part));
    }
}

static void each_kind_has_its_words(void **state)
{
    static const struct {
        enum pl_status_kind kind;
        bool good;
        const char *target, *body, *token;
    } rows[] = {
        {PL_STATUS_GITHUB, true, "", "{\"context\":\"pipelined/team\",\"description\":\"3 pipelines set\",\"state\":\"success\"}",
         "Authorization: Bearer t0k"},
        {PL_STATUS_GITHUB, false, "https://p/",
         "{\"context\":\"pipelined/team\",\"description\":\"3 pipelines "
         "set\",\"state\":\"failure\",\"target_url\":\"https://p/\"}",
         "Authorization: Bearer t0k"},
        {PL_STATUS_GITLAB, true, "", "{\"description\":\"3 pipelines set\",\"name\":\"pipelined/team\",\"state\":\"success\"}",
         "PRIVATE-TOKEN: t0k"},
        {PL_STATUS_GITLAB, false, "", "{\"description\":\"3 pipelines set\",\"name\":\"pipelined/team\",\"state\":\"failed\"}",
         "PRIVATE-TOKEN: t0k"},
        {PL_STATUS_GITEA, false, "", "{\"context\":\"pipelined/team\",\"description\":\"3 pipelines set\",\"state\":\"failure\"}",
         "Authorization: token t0k"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_commit_status s = plain;
        struct pl_status_request request;
        struct pl_err err = {0};
        json_t *body;
        char *text;

        s.kind = rows[i].kind;
        s.good = rows[i].good;
        s.target = rows[i].target;
        assert_int_equal(pl_commit_status_make(&s, &request, &err), 0);
        body = json_loads(request.body, 0, NULL);
        text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
        assert_string_equal(text, rows[i].body);
        assert_string_equal(request.headers[0], rows[i].token);
        assert_null(request.headers[4]);
        free(text);
        json_decref(body);
        pl_status_request_finish(&request);
    }
}

/* Returns the number of characters of the description that is sent for `n` times "ä". */
static size_t sent(enum pl_status_kind kind, size_t n, bool *ret_cut)
{
    struct pl_commit_status s = plain;
    struct pl_status_request request;
    struct pl_err err = {0};
    const char *text;
    size_t chars = 0;
    json_t *body;
    char *long_text = calloc(2 * n + 1, 1);

    assert_non_null(long_text);
    for (size_t i = 0; i < n; i++)
        memcpy(long_text + 2 * i, "ä", 2);
    s.kind = kind;
    s.text = long_text;
    assert_int_equal(pl_commit_status_make(&s, &request, &err), 0);
    body = json_loads(request.body, 0, NULL);
    text = json_string_value(json_object_get(body, "description"));
    assert_non_null(text);
    for (const char *c = text; *c; c++)
        chars += ((unsigned char)*c & 0xc0) != 0x80;
    *ret_cut = strlen(text) > 3 && strcmp(text + strlen(text) - 3, "…") == 0;
    json_decref(body);
    pl_status_request_finish(&request);
    free(long_text);
    return chars;
}

static void long_texts_are_cut(void **state)
{
    bool was_cut;

    (void)state;
    assert_int_equal(sent(PL_STATUS_GITHUB, 140, &was_cut), 140);
    assert_false(was_cut);
    assert_int_equal(sent(PL_STATUS_GITHUB, 141, &was_cut), 140);
    assert_true(was_cut);
    assert_int_equal(sent(PL_STATUS_GITLAB, 1000, &was_cut), 255);
    assert_true(was_cut);
}

static void a_token_is_one_word(void **state)
{
    static const char *const rows[] = {"", "two words", "a\r\nX-Other: b", "t\xc3\xb6ken"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_commit_status s = plain;
        struct pl_status_request request;
        struct pl_err err = {0};

        s.token = rows[i];
        assert_int_equal(pl_commit_status_make(&s, &request, &err), PL_EINVAL);
        assert_true(!*rows[i] || !strstr(err.msg, rows[i]));
    }
}

static void an_answer_says_whether_the_status_is_there(void **state)
{
    static const char same[] = "{\"message\":\"Cannot transition status via :succeed from :success\"}";
    static const struct {
        enum pl_status_kind kind;
        unsigned status;
        const char *answer;
        bool taken;
    } rows[] = {
        {PL_STATUS_GITHUB, 201, "", true},    {PL_STATUS_GITLAB, 400, same, true}, {PL_STATUS_GITLAB, 400, "{}", false},
        {PL_STATUS_GITHUB, 400, same, false}, {PL_STATUS_GITEA, 301, "", false},   {PL_STATUS_GITLAB, 500, same, false},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        assert_int_equal(pl_commit_status_taken(rows[i].kind, rows[i].status, rows[i].answer, strlen(rows[i].answer)),
                         rows[i].taken);
}

static void settings_are_names(void **state)
{
    enum pl_status_kind kind = PL_STATUS_GITEA;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_status_kind_parse("", &kind, &err), 0);
    assert_int_equal(kind, PL_STATUS_OFF);
    assert_int_equal(pl_status_kind_parse("gitlab", &kind, &err), 0);
    assert_int_equal(kind, PL_STATUS_GITLAB);
    assert_int_equal(pl_status_kind_parse("GitHub", &kind, &err), PL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_address_has_its_url), cmocka_unit_test(addresses_without_such_a_server_are_refused),
        cmocka_unit_test(each_kind_has_its_words),  cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(a_token_is_one_word),      cmocka_unit_test(an_answer_says_whether_the_status_is_there),
        cmocka_unit_test(settings_are_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
