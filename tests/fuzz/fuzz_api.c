// link: pipelined/api/answer_routes pipelined/api/data_routes pipelined/api/origin_routes pipelined/api/run_routes pipelined/api/server pipelined/db/tx pipelined/net/loop pipelined/net/server pipelined/spec storage/base storage/object storage/store storage/system storage/tree_edit pl_dep_cmocka
/* Any bytes as the body of any request that takes one: it is answered, never with a failure of ours, an error is one of the catalogue, and
 * the API goes on. The first byte chooses the request. */
#include "tests/support/fixtures/api_fixture.h"

#include <signal.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define REPO "/api/v1/repos/default/data"
#define ID   "0123456789abcdef0123456789abcdef"

static const struct {
    const char *method, *target;
} requests[] = {
    {"POST", "/api/v1/projects"},
    {"POST", "/api/v1/repos"},
    {"PATCH",
     "/api/v1/repos/default/other"}, /* not REPO: with a window and "durable" its puts would be answered when that ends */
    {"POST", REPO "/branches"},
    {"POST", REPO "/branches/master/commits"},
    {"POST", REPO "/branches/master/commits?base=master"},
    {"PUT", REPO "/branches/master/files/f"},
    {"POST", REPO "/branches/master/open"},
    {"POST", REPO "/open/" ID "/ops"},
    {"POST", REPO "/open/" ID "/finish"},
    {"POST", REPO "/branches/master/flush"},
    {"POST", "/api/v1/sessions"},
    {"POST", "/api/v1/projects/default/have"},
    {"POST", "/api/v1/projects/default/locate"},
    {"PUT", "/api/v1/projects/default/packs/" ID ID "?session=" ID},
    {"POST", "/api/v1/pipelines"},
    {"POST", "/api/v1/pipelines/default/p/run"},
    {"POST", "/api/v1/runs/" ID "/rerun"},
    {"POST", "/api/v1/runs/" ID "/stop"},
    {"POST", "/api/v1/fsck"},
    {"POST", "/api/v1/login-links"},
};

static void finish(void)
{
    api_teardown(NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    void *state = NULL;

    (void)argc;
    (void)argv;
    signal(SIGPIPE, SIG_IGN);
    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    if (api_setup(&state) < 0)
        abort();
    make_repo("data");
    make_repo("other");
    put_text("data@master", "a", "one", NULL);
    atexit(finish);
    return 0;
}

/* An error names its code, of the catalogue, and says something. */
static void check_error(const struct answer *a)
{
    json_t *value = json_loadb(a->body, a->len, 0, NULL), *error = json_object_get(value, "error");
    const char *code = json_string_value(json_object_get(error, "code")),
               *message = json_string_value(json_object_get(error, "message"));
    const struct pl_err_info *info = code ? pl_err_info_by_name(code) : NULL;

    if (!info || !message || !*message || pl_streq(code, "internal") || pl_streq(code, "io_error") || pl_streq(code, "corrupt")) {
        fprintf(stderr, "%d: %.400s\n", a->status, a->body);
        abort();
    }
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct answer a;

    if (n == 0)
        return 0;
    a = ask_with(requests[*data % PL_ARRAY_SIZE(requests)].method, requests[*data % PL_ARRAY_SIZE(requests)].target, AS_USER,
                 data + 1, n - 1);
    if (a.status < 200 || !a.complete)
        abort();
    if (a.status >= 400)
        check_error(&a);
    answer_free(&a);
    return 0;
}
