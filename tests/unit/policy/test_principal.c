// link: pipelined/policy storage/base storage/system
/* Who may do what: the table of verbs against a table of people, and what a token leaves of a user's roles. */
#include "pipelined/policy/principal.h"

#include "tests/support/fixtures/generated_docs.h"

#include <stdio.h>

#define MUST(call)                                                                                                               \
    do {                                                                                                                         \
        struct pl_err err = {0};                                                                                                 \
        if ((call) < 0)                                                                                                          \
            fail_msg("%s: %s", #call, err.msg);                                                                                  \
    } while (0)

/* "scope=role scope=role", "*" for everything; behind a bar the limit of the token. */
static struct pl_principal *person(const char *text)
{
    struct pl_grant grants[8] = {0}, limit = {.role = PL_ROLE_ADMIN};
    struct pl_principal_user from = {.name = "bob", .token = "", .grants = grants, .limit = limit};
    struct pl_principal *p = NULL;
    char copy[256], *rest = copy, *word;
    bool behind = false;

    snprintf(copy, sizeof copy, "%s", text);
    while ((word = strsep(&rest, " ")) != NULL) {
        struct pl_grant *g = behind ? &from.limit : &grants[from.n_grants];
        char *eq = strchr(word, '=');

        if (pl_streq(word, "|"))
            behind = true;
        if (!eq)
            continue;
        *eq = '\0';
        snprintf(g->scope, sizeof g->scope, "%s", pl_streq(word, "*") ? "" : word);
        MUST(pl_role_parse(eq + 1, &g->role, &err));
        from.n_grants += !behind;
    }
    MUST(pl_principal_user(&from, &p, &err));
    return p;
}

static struct pl_principal *make(const char *text)
{
    struct pl_principal *p = NULL;

    if (pl_streq(text, "nobody"))
        return NULL;
    if (pl_streq(text, "daemon"))
        MUST(pl_principal_daemon(&p, &err));
    else if (pl_streq(text, "worker"))
        MUST(pl_principal_worker(7, 1, "here", "stage", &p, &err));
    else if (pl_streq(text, "worker there") || pl_streq(text, "worker there that reads here")) {
        static const char reads[] = "her\0here\0here2"; /* each with its NUL */

        MUST(pl_principal_worker(9, 1, "there", "stage", &p, &err));
        if (!pl_streq(text, "worker there"))
            MUST(pl_principal_worker_reads(p, reads, sizeof reads, &err));
    } else if (pl_streq(text, "exchanged worker")) {
        MUST(pl_principal_worker(7, 1, "here", "stage", &p, &err));
        atomic_store(&p->exchanged, true);
    } else if (pl_streq(text, "gone worker"))
        MUST(pl_principal_worker(8, 0, "", "", &p, &err));
    else
        return person(text);
    return p;
}

/* Of the project "here" and its repo "data", in the order of the table: a letter a verb, '-' where it is refused. */
#define EVERY "OLSmvRWDfsdgoap"

static char letter_of(enum pl_verb verb)
{
    static const char letters[] = {
        [PL_VERB_OPEN] = 'O',           [PL_VERB_LIST] = 'L',   [PL_VERB_STATUS] = 'S', [PL_VERB_METRICS] = 'm',
        [PL_VERB_READ_PIPELINES] = 'v', [PL_VERB_READ] = 'R',   [PL_VERB_WRITE] = 'W',  [PL_VERB_REMOVE] = 'D',
        [PL_VERB_FETCH] = 'f',          [PL_VERB_STORE] = 's',  [PL_VERB_DEFINE] = 'd', [PL_VERB_DELETE_PROJECT] = 'g',
        [PL_VERB_OPERATE] = 'o',        [PL_VERB_ATTACH] = 'a', [PL_VERB_WORK] = 'p'};

    return letters[verb];
}

static void a_role_allows_what_the_table_says(void **state)
{
    static const struct {
        const char *who, *may;
    } rows[] = {
        {"nobody", "O--------------"},
        {"", "OLS------------"},
        {"daemon", EVERY},
        {"*=admin", EVERY},
        {"*=writer", "OLSmvRW-fsd----"},
        {"*=reader", "OLSmvR--f------"},
        {"here=admin", "OLS-vRWDfsdg---"},
        {"here=writer", "OLS-vRW-fsd----"},
        {"here=reader", "OLS-vR--f------"},
        {"here/data=admin", "OLS-vRWDfs-----"},
        {"here/data=writer", "OLS-vRW-fs-----"},
        {"here/data=reader", "OLS-vR--f------"},
        {"here/other=writer", "OLS-v---fs-----"},
        {"there=admin", "OLS------------"},
        {"her=admin", "OLS------------"},
        {"here2=admin", "OLS------------"},
        {"here/dat=admin", "OLS-v---fs-----"},
        {"*=reader here/data=writer", "OLSmvRW-fs-----"},
        {"*=metrics", "O--m-----------"},
        {"here=metrics", "O--------------"}, /* as a token's limit leaves it */
        {"*=metrics here=reader", "OLSmvR--f------"},
        {"*=metrics | *=reader", "O--m-----------"},
        {"worker", "O-S-----fs---ap"},
        {"worker there", "O-S----------ap"},
        {"worker there that reads here", "O-S-----f----ap"},
        {"gone worker", "O------------ap"},
        {"exchanged worker", "O------------a-"},
        /* a token takes away, never adds */
        {"*=admin | *=reader", "OLSmvR--f------"},
        {"*=admin | here=writer", "OLS-vRW-fsd----"},
        {"*=admin | here/data=admin", "OLS-vRWDfs-----"},
        {"*=admin | there=admin", "OLS------------"},
        {"*=reader | here=admin", "OLS-vR--f------"},
        {"here/data=writer | here=reader", "OLS-vR--f------"},
        {"here/data=writer | there=admin", "OLS------------"},
        {"here/data=writer here/other=admin | here/data=admin", "OLS-vRW-fs-----"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_principal *p = make(rows[i].who);
        char got[PL_VERBS] = "";

        for (unsigned verb = 1; verb < PL_VERBS; verb++)
            got[verb - 1] = pl_principal_may(p, verb, "here", "data") ? letter_of(verb) : '-';
        got[PL_VERBS - 1] = '\0';
        if (!pl_streq(got, rows[i].may))
            fail_msg("%s: %s, not %s", rows[i].who, got, rows[i].may);
        pl_principal_unref(p);
    }
}

static void a_question_that_names_nothing_is_refused(void **state)
{
    struct pl_principal *p = person("*=admin");

    (void)state;
    assert_false(pl_principal_may(p, PL_VERB_READ, "here", NULL));
    assert_false(pl_principal_may(p, PL_VERB_READ, NULL, "data"));
    assert_false(pl_principal_may(p, PL_VERB_READ, "here", ""));
    assert_false(pl_principal_may(p, PL_VERB_FETCH, NULL, NULL));
    assert_false(pl_principal_may(p, PL_VERB_DEFINE, "", NULL));
    assert_false(pl_principal_may(p, PL_VERB_MISSING, "here", "data"));
    assert_false(pl_principal_may(p, PL_VERBS, "here", "data"));
    pl_principal_unref(p);
}

static void a_refusal_says_what_it_takes(void **state)
{
    struct pl_principal *p = person("here=reader");
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_principal_check(p, PL_VERB_WRITE, "here", "data", &err), PL_EFORBIDDEN);
    assert_string_equal(err.msg, "\"write\" needs the role writer over here/data, but bob has the role reader there");
    assert_string_equal(err.hint, "An admin can grant it: pipelinectl update user bob --role writer --over here/data");
    assert_int_equal(pl_principal_check(p, PL_VERB_DEFINE, "here", NULL, &err), PL_EFORBIDDEN);
    assert_string_equal(err.hint, "An admin can grant it: pipelinectl update user bob --role writer --over here");
    assert_int_equal(pl_principal_check(p, PL_VERB_OPERATE, NULL, NULL, &err), PL_EFORBIDDEN);
    assert_string_equal(err.hint, "An admin can grant it: pipelinectl update user bob --role admin");
    pl_principal_unref(p);
    p = person("*=metrics");
    assert_int_equal(pl_principal_check(p, PL_VERB_STATUS, NULL, NULL, &err), PL_EFORBIDDEN);
    assert_string_equal(err.msg, "bob has only the role metrics, which reads /metrics and nothing else");
    assert_int_equal(pl_principal_check(p, PL_VERB_READ, "here", "data", &err), PL_EFORBIDDEN);
    assert_int_equal(pl_principal_check(NULL, PL_VERB_READ, "here", "data", &err), PL_EAUTH);
    pl_principal_unref(p);
}

static void scopes_are_names(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {{"", true},       {"a", true},    {"a/b", true}, {"a/", false},     {"/b", false},
                {"a/b/c", false}, {"a b", false}, {"..", false}, {"a/../b", false}, {"*", false}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        if ((pl_scope_check(rows[i].text, NULL) == 0) != rows[i].good)
            fail_msg("\"%s\"", rows[i].text);
}

static void the_page_on_security_has_the_table(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf want = {0};

    (void)state;
    MUST(pl_verb_markdown(&want, &err));
    MUST(pl_buf_add_str(&want, "\n", &err));
    assert_docs_part(DOCS("security.md"), "<!-- made from pipelined/policy/principal.h: PL_UPDATE=1 test_principal -->\n",
                     "<!-- end -->", &want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_role_allows_what_the_table_says),  cmocka_unit_test(a_question_that_names_nothing_is_refused),
        cmocka_unit_test(a_refusal_says_what_it_takes),       cmocka_unit_test(scopes_are_names),
        cmocka_unit_test(the_page_on_security_has_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
