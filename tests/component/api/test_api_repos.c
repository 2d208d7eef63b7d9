// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit
/* Projects, repos, branches and commits over HTTP: what is made is told, and what cannot be is refused with a name. */
#include "tests/support/fixtures/api_fixture.h"
#include "tests/support/fixtures/output_repo.h"

#include <sqlite3.h>
#include <stdatomic.h>

#define REPOS "/api/v1/repos"
#define REPO  "/api/v1/repos/default/data"

/* ---- projects and repos ---- */

static void projects_are_made_listed_and_deleted(void **state)
{
    json_t *list;

    (void)state;
    does(201, "POST", "/api/v1/projects", "{\"name\":\"vision\"}");
    does(200, "POST", "/api/v1/projects", "{\"name\":\"vision\",\"exist_ok\":true}");
    does(201, "POST", "/api/v1/projects", "{\"name\":\"audio\"}");
    list = ask_json(200, "GET", "/api/v1/projects", NULL);
    names_are(list, "projects", "name", "audio vision");
    json_decref(list);
    does(201, "POST", REPOS, "{\"project\":\"vision\",\"name\":\"data\"}");
    refused("in_use", "1 repos", "DELETE", "/api/v1/projects/vision", NULL);
    does(200, "DELETE", "/api/v1/projects/audio", NULL);
    refused("not_found", "audio", "DELETE", "/api/v1/projects/audio", NULL);
}

/* An engine that keeps secrets: whether the project was there when it was asked, and what it answers. */
static struct {
    char heard[512];
    int removes; /* the answer */
    bool has_some;
} keeper;

static int keep_secrets(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    const size_t n = strlen(keeper.heard);
    int64_t there = 0;

    (void)self;
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(t.db);

        if (pl_sql_int(rd.conn, err, &there, "SELECT count(*) FROM project WHERE name = ?", "s", op->project) < 0)
            return PL_EINTERNAL;
    }
    snprintf(keeper.heard + n, sizeof keeper.heard - n, "%s %s, %s; ", op->what == PL_SECRET_NONE ? "none" : "delete",
             op->project, there ? "there" : "away");
    if (op->what == PL_SECRET_NONE)
        return keeper.has_some ? pl_err_set(err, PL_EINUSE, "pg is there") : 0;
    if (keeper.removes < 0)
        return pl_err_set(err, keeper.removes, "the cluster is away");
    *ret = json_pack("[s]", "pg stays");
    return 0;
}

static void hears(const char *words)
{
    assert_string_equal(keeper.heard, words);
    keeper.heard[0] = '\0';
}

static void a_project_goes_after_its_secrets_and_is_not_made_over_others(void **state)
{
    json_t *gone;

    (void)state;
    api_engine.secrets = keep_secrets;
    does(201, "POST", "/api/v1/projects", "{\"name\":\"vision\"}");
    does(200, "POST", "/api/v1/projects", "{\"name\":\"vision\",\"exist_ok\":true}");
    does(201, "POST", REPOS, "{\"project\":\"vision\",\"name\":\"data\"}");
    refused("in_use", "1 repos", "DELETE", "/api/v1/projects/vision", NULL); /* it keeps them */
    hears("none vision, away; ");
    does(200, "DELETE", "/api/v1/repos/vision/data", NULL);
    keeper.removes = PL_EUNAVAILABLE;
    refused("not_available", "the cluster is away", "DELETE", "/api/v1/projects/vision", NULL);
    keeper.removes = 0;
    gone = ask_json(200, "DELETE", "/api/v1/projects/vision", NULL); /* it was still there */
    assert_string_equal(json_string_value(json_array_get(json_object_get(gone, "warnings"), 0)), "pg stays");
    json_decref(gone);
    refused("not_found", "vision", "DELETE", "/api/v1/projects/vision", NULL);
    hears("delete vision, there; delete vision, there; ");
    keeper.has_some = true;
    refused("in_use", "pg is there", "POST", "/api/v1/projects", "{\"name\":\"vision\"}");
    does(201, "POST", "/api/v1/projects", "{\"name\":\"vision\",\"with_secrets\":true}");
    does(201, "POST", "/api/v1/projects", "{\"name\":\"default\"}"); /* that one always is */
    hears("none vision, away; ");
    api_engine.secrets = engine_secrets;
}

static void a_repo_is_told_with_its_newest_head(void **state)
{
    json_t *repo = NULL;
    char commit[PL_ID_HEX + 1];

    (void)state;
    repo = ask_json(201, "POST", REPOS, "{\"name\":\"data\",\"description\":\"pictures\"}");
    assert_string_equal(text_at(repo, "project"), "default");
    assert_string_equal(text_at(repo, "kind"), "input");
    assert_string_equal(text_at(repo, "commit"), "");
    json_decref(repo);
    put_text("data@master", "a", "12345", commit);
    repo = ask_json(200, "GET", REPO, NULL);
    assert_string_equal(text_at(repo, "description"), "pictures");
    assert_string_equal(text_at(repo, "commit"), commit);
    assert_string_equal(text_at(repo, "branch"), "master");
    assert_int_equal(number_at(repo, "files"), 1);
    assert_int_equal(number_at(repo, "bytes"), 5);
    json_decref(repo);
    does(200, "POST", REPOS, "{\"name\":\"data\",\"exist_ok\":true}");
    does(200, "DELETE", REPO, NULL);
    refused("gone", "data", "GET", REPO, NULL);
}

static void repos_are_listed_in_pages(void **state)
{
    json_t *list;

    (void)state;
    does(201, "POST", "/api/v1/projects", "{\"name\":\"b\"}");
    does(201, "POST", REPOS, "{\"project\":\"b\",\"name\":\"x\"}");
    make_repo("one");
    make_repo("two");
    list = ask_json(200, "GET", REPOS "?limit=2", NULL);
    names_are(list, "repos", "name", "x one");
    assert_string_equal(text_at(list, "next"), "default/one");
    json_decref(list);
    list = ask_json(200, "GET", REPOS "?limit=2&after=default/one", NULL);
    names_are(list, "repos", "name", "two");
    assert_null(json_object_get(list, "next"));
    json_decref(list);
    list = ask_json(200, "GET", REPOS "?project=b", NULL);
    names_are(list, "repos", "name", "x");
    json_decref(list);
}

#define STALE 12 /* stages */

/* Makes pipelines p10, p11 … of one stage each, s10, s11 …, whose code has changed since it made the head of its repo. It is not in
 * the log. */
static int make_stale_stages(struct pl_tx *tx, void *arg, struct pl_err *e)
{
    static const char *const statements[] = {
        "WITH RECURSIVE n(i) AS (VALUES (10) UNION ALL SELECT i + 1 FROM n LIMIT 12)"
        " INSERT INTO pipeline(project, name, version, created_us, updated_us) SELECT 'b', 'p' || i, 2, 1, 1 FROM n",
        "INSERT INTO pipeline_version(pipeline, version, user_spec, effective_spec, seq, run, created_us)"
        " SELECT id, column1, x'00', x'00', 1, '', 1 FROM pipeline, (VALUES (1), (2))",
        "INSERT INTO stage(pipeline, version, position, project, name, spec, code_identity, current)"
        " SELECT p.id, v.version, 0, 'b', 's' || substr(p.name, 2), '{\"run\":[\"x\"]}', CAST(v.version AS BLOB),"
        " v.version = 2 FROM pipeline p JOIN pipeline_version v ON v.pipeline = p.id",
        "INSERT INTO repo(project, name, kind, created_us) SELECT project, name, 'output', 1 FROM stage WHERE current = 1",
        "INSERT INTO commit_(repo, run, branch, object, root, code, generation, files, bytes, seq, created_us)"
        " SELECT id, printf('%032x', id), 'master', x'00', zeroblob(32), CAST(1 AS BLOB), 1, 0, 0, 1, 1 FROM repo",
        "INSERT INTO branch(repo, name, head, created_us) SELECT repo, branch, id, 1 FROM commit_",
        "INSERT INTO job(run, project, stage, version, pipeline, state, final, created_us)"
        " SELECT c.run, 'b', s.name, s.id, 'p', 'success', 1, 1 FROM stage s JOIN repo r ON r.name = s.name"
        " JOIN commit_ c ON c.repo = r.id WHERE s.current = 0",
    };
    int r = 0;

    (void)arg;
    for (size_t i = 0; r >= 0 && i < PL_ARRAY_SIZE(statements); i++)
        r = pl_sql_exec(pl_tx_conn(tx), e, statements[i], "");
    return PL_MIN(r, 0);
}

static atomic_uint looked_for_change; /* queries for the version that changed a stage's code */

static int on_statement(unsigned what, void *arg, void *statement, void *text)
{
    (void)what, (void)arg, (void)text;
    if (strstr(sqlite3_sql(statement), "now.code_identity"))
        atomic_fetch_add(&looked_for_change, 1);
    return 0;
}

static int trace_connection(sqlite3 *db, const char **message, const void *routines)
{
    (void)message, (void)routines;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

static int traced_setup(void **state)
{
    assert_int_equal(sqlite3_auto_extension((void (*)(void))trace_connection), SQLITE_OK);
    return api_setup(state);
}

static int traced_teardown(void **state)
{
    sqlite3_reset_auto_extension();
    return api_teardown(state);
}

/* The sentence why an output is out of date takes a query: it is made for the repos of the page. */
static void a_page_of_repos_makes_the_words_of_its_own_stages(void **state)
{
    static const struct {
        const char *target;
        unsigned repos;
    } pages[] = {{REPOS "?limit=3", 3}, {REPOS "?limit=100", STALE}, {REPOS "?limit=5&after=b/s19", 2}, {REPOS "?pushed=1", 0}};
    const json_t *one;
    json_t *list;
    size_t i;

    (void)state;
    does(201, "POST", "/api/v1/projects", "{\"name\":\"b\"}");
    MUST(pl_db_run(t.db, PL_TX_UNLOGGED, make_stale_stages, NULL, &err));
    for (size_t k = 0; k < PL_ARRAY_SIZE(pages); k++) {
        atomic_store(&looked_for_change, 0);
        list = ask_json(200, "GET", pages[k].target, NULL);
        assert_int_equal(json_array_size(json_object_get(list, "repos")), pages[k].repos);
        json_array_foreach(json_object_get(list, "repos"), i, one)
        {
            const char *text = text_at(json_object_get(one, "freshness"), "text");

            if (!strstr(text, "code"))
                fail_msg("%s: %s", text_at(one, "name"), text);
            assert_string_equal(text_at(json_object_get(one, "made_by"), "stage"), text_at(one, "name"));
        }
        json_decref(list);
        if (atomic_load(&looked_for_change) != pages[k].repos)
            fail_msg("%s: looked for the change of %u stages", pages[k].target, atomic_load(&looked_for_change));
    }
    atomic_store(&looked_for_change, 0);
    json_decref(ask_json(200, "GET", REPOS "/b/s12", NULL));
    assert_int_equal(atomic_load(&looked_for_change), 1);
}

/* ---- branches ---- */

static void branches_are_made_where_a_ref_says(void **state)
{
    char first[PL_ID_HEX + 1], second[PL_ID_HEX + 1], want[80];
    json_t *o;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", first);
    put_text("data@master", "a", "2", second);
    o = ask_json(201, "POST", REPO "/branches", "{\"name\":\"old\",\"from\":\"master^\"}");
    assert_string_equal(text_at(o, "commit"), first);
    json_decref(o);
    does(201, "POST", REPO "/branches", "{\"name\":\"empty\"}");
    o = ask_json(200, "GET", REPO "/branches", NULL);
    names_are(o, "branches", "name", "empty master old");
    snprintf(want, sizeof want, " %s %s", second, first);
    names_are(o, "branches", "commit", want);
    json_decref(o);
    does(200, "DELETE", REPO "/branches/empty", NULL);
    refused("not_found", "empty", "GET", REPO "/branches/empty", NULL);
}

/* ---- commits ---- */

static void a_commit_is_found_by_every_way_of_naming_it(void **state)
{
    char first[PL_ID_HEX + 1], second[PL_ID_HEX + 1], target[256];
    json_t *o;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", first);
    put_text("data@master", "b", "22", second);
    const char *const names[][2] = {
        {"master", second}, {"master%5E1", first}, {"master%5E", first}, {first, first}, {second, second}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
        snprintf(target, sizeof target, REPO "/commits/%s", names[i][0]);
        o = ask_json(200, "GET", target, NULL);
        assert_string_equal(text_at(o, "id"), names[i][1]);
        json_decref(o);
    }
    snprintf(target, sizeof target, REPO "/commits/%.24s", second);
    o = ask_json(200, "GET", target, NULL);
    assert_string_equal(text_at(o, "id"), second);
    assert_string_equal(text_at(o, "parent"), first);
    assert_string_equal(text_at(o, "repo"), "data");
    assert_string_equal(text_at(o, "branch"), "master");
    assert_int_equal(number_at(o, "files"), 2);
    assert_int_equal(number_at(o, "bytes"), 3);
    assert_int_equal(number_at(o, "generation"), 2);
    assert_int_equal(strlen(text_at(o, "root")), PL_HASH_HEX);
    assert_int_equal(json_array_size(json_object_get(o, "provenance")), 0);
    assert_true(number_at(o, "created_us") > 0);
    json_decref(o);
    refused("not_found", "only 1 commit before", "GET", REPO "/commits/master%5E2", NULL);
}

static void commits_are_listed_newest_first(void **state)
{
    char ids[3][PL_ID_HEX + 1], side[PL_ID_HEX + 1], target[256], want[160];
    json_t *o;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", ids[0]);
    put_text("data@master", "a", "2", ids[1]);
    does(201, "POST", REPO "/branches", "{\"name\":\"side\",\"from\":\"master\"}");
    put_text("data@side", "a", "3", side);
    put_text("data@master", "a", "4", ids[2]);

    o = ask_json(200, "GET", REPO "/commits?branch=master", NULL);
    snprintf(want, sizeof want, "%s %s %s", ids[2], ids[1], ids[0]);
    names_are(o, "commits", "id", want);
    json_decref(o);
    o = ask_json(200, "GET", REPO "/commits?branch=side&limit=1", NULL);
    names_are(o, "commits", "id", side);
    snprintf(target, sizeof target, REPO "/commits?branch=side&after=%s", text_at(o, "next"));
    json_decref(o);
    o = ask_json(200, "GET", target, NULL);
    snprintf(want, sizeof want, "%s %s", ids[1], ids[0]);
    names_are(o, "commits", "id", want);
    json_decref(o);
    o = ask_json(200, "GET", REPO "/commits?limit=2", NULL);
    snprintf(want, sizeof want, "%s %s", ids[2], side);
    names_are(o, "commits", "id", want);
    snprintf(target, sizeof target, REPO "/commits?limit=2&after=%s", text_at(o, "next"));
    json_decref(o);
    o = ask_json(200, "GET", target, NULL);
    snprintf(want, sizeof want, "%s %s", ids[1], ids[0]);
    names_are(o, "commits", "id", want);
    assert_null(json_object_get(o, "next"));
    json_decref(o);
}

static int end_run(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_run_args run = {.id = arg, .state = "success", .reason = ""};

    return pl_tx_run_end(tx, &run, err);
}

static void only_the_newest_commit_of_a_branch_can_be_deleted(void **state)
{
    char ids[2][PL_ID_HEX + 1];
    json_t *o;

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", ids[0]);
    put_text("data@master", "a", "2", ids[1]);
    refused("in_use", "still running", "DELETE", REPO "/commits/master", NULL);
    for (unsigned i = 0; i < 2; i++)
        MUST(pl_db_run(t.db, PL_TX_LOGGED, end_run, ids[i], &err));
    refused("in_use", "later commits", "DELETE", REPO "/commits/master%5E", NULL);
    does(200, "DELETE", REPO "/commits/master", NULL);
    o = ask_json(200, "GET", REPO "/commits/master", NULL);
    assert_string_equal(text_at(o, "id"), ids[0]);
    json_decref(o);
}

/* ---- what is refused ---- */

static void repos_that_take_pushes_are_listed_by_their_newest_commit(void **state)
{
    struct pl_repo_args out = {.project = "default", .name = "out", .output = true};
    json_t *list;

    (void)state;
    make_repo("a");
    make_repo("b");
    make_repo("c");
    put_text("c@master", "f", "1", NULL);
    put_text("b@master", "f", "1", NULL);
    put_text("c@other", "f", "2", NULL);
    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_output_tx, &out, &err));
    list = ask_json(200, "GET", REPOS "?pushed=true", NULL);
    names_are(list, "repos", "name", "c b a");
    json_decref(list);
    list = ask_json(200, "GET", REPOS "?pushed=true&limit=1", NULL);
    names_are(list, "repos", "name", "c");
    assert_null(json_object_get(list, "next"));
    json_decref(list);
}

static void what_cannot_be_is_refused_by_name(void **state)
{
    static const struct {
        const char *code, *part, *method, *target, *body;
    } bad[] = {
        {"invalid", "line 1", "POST", REPOS, "{"},
        {"invalid", "colour", "POST", REPOS, "{\"name\":\"x\",\"colour\":1}"},
        {"invalid", "name", "POST", REPOS, "{}"},
        {"invalid", "name", "POST", REPOS, "{\"name\":7}"},
        {"invalid", "Expected object", "POST", REPOS, "[]"},
        {"invalid_name", "-x", "POST", REPOS, "{\"name\":\"-x\"}"},
        {"invalid_name", "a/b", "POST", REPOS, "{\"name\":\"x\",\"project\":\"a/b\"}"},
        {"not_found", "nowhere", "POST", REPOS, "{\"name\":\"x\",\"project\":\"nowhere\"}"},
        {"exists", "data", "POST", REPOS, "{\"name\":\"data\"}"},
        {"exists", "out", "POST", REPOS, "{\"name\":\"out\",\"exist_ok\":true}"}, /* of another kind */
        {"not_found", "dota", "GET", "/api/v1/repos/default/dota", NULL},
        {"invalid_name", "project", "GET", "/api/v1/repos/..%2F..%2Fetc/data", NULL},
        {"invalid_name", "repo", "GET", "/api/v1/repos/default/.x", NULL},
        {"not_found", "nowhere", "GET", "/api/v1/repos?project=nowhere", NULL},
        {"invalid", "limit", "GET", "/api/v1/repos?limit=0", NULL},
        {"invalid", "limit", "GET", "/api/v1/repos?limit=10001", NULL},
        {"invalid", "limit", "GET", "/api/v1/repos?limit=ten", NULL},
        {"invalid", "after", "GET", "/api/v1/repos?after=x", NULL},
        {"invalid", "one page", "GET", "/api/v1/repos?pushed=true&after=default/x", NULL},
        {"invalid_name", "x y", "POST", "/api/v1/projects", "{\"name\":\"x y\"}"},
        {"invalid_name", "9x_", "POST", REPO "/branches", "{\"name\":\"_9x_\"}"},
        {"not_found", "none", "POST", REPO "/branches", "{\"name\":\"b\",\"from\":\"none\"}"},
        {"exists", "master", "POST", REPO "/branches", "{\"name\":\"master\"}"},
        {"output_repo", "out", "POST", "/api/v1/repos/default/out/branches", "{\"name\":\"b\"}"},
        {"not_found", "none", "DELETE", REPO "/branches/none", NULL},
        {"not_found", "none", "GET", REPO "/commits?branch=none", NULL},
        {"not_found", "ffff", "GET", REPO "/commits/ffffffff", NULL},
        {"invalid", "after ^", "GET", REPO "/commits/master%5Ex", NULL},
        {"output_repo", "out", "DELETE", "/api/v1/repos/default/out/commits/master", NULL},
        {"output_repo", "out", "PUT", "/api/v1/repos/default/out/branches/master/files/a", "x"},
        {"output_repo", "out", "POST", "/api/v1/repos/default/out/branches/master/commits", "x"},
        {"not_found", "dota", "PUT", "/api/v1/repos/default/dota/branches/master/files/a", "x"},
        {"too_large", "accepts a body", "DELETE", REPO, "{}"},
    };
    struct pl_repo_args out = {.project = "default", .name = "out", .output = true};

    (void)state;
    make_repo("data");
    put_text("data@master", "a", "1", NULL);
    MUST(pl_db_run(t.db, PL_TX_LOGGED, make_output_tx, &out, &err));
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        refused(bad[i].code, bad[i].part, bad[i].method, bad[i].target, bad[i].body);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_setup, api_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(projects_are_made_listed_and_deleted),
        TEST(a_project_goes_after_its_secrets_and_is_not_made_over_others),
        TEST(a_repo_is_told_with_its_newest_head),
        TEST(repos_are_listed_in_pages),
        cmocka_unit_test_setup_teardown(a_page_of_repos_makes_the_words_of_its_own_stages, traced_setup, traced_teardown),
        TEST(repos_that_take_pushes_are_listed_by_their_newest_commit),
        TEST(branches_are_made_where_a_ref_says),
        TEST(a_commit_is_found_by_every_way_of_naming_it),
        TEST(commits_are_listed_newest_first),
        TEST(only_the_newest_commit_of_a_branch_can_be_deleted),
        TEST(what_cannot_be_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
