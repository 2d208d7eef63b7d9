// link: pipelined/kube/client storage/base storage/system
/* Which cluster, and who we are to it: kubeconfig files, the pod's own account, plugins. */
#include "pipelined/kube/client/kube_exec_plugin.h"
#include "pipelined/kube/client/kube_identity.h"
#include "pipelined/kube/client/kube_yaml.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/system/io.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include <cmocka.h>

/* --- YAML --- */

static void yaml_is_read_as_json(void **state)
{
    static const struct {
        const char *yaml, *json;
    } rows[] = {
        {"", "null"},
        {"# nothing\n", "null"},
        {"a: 1\nb: [x, -2, 0x10, 1.5]\n", "{\"a\":1,\"b\":[\"x\",-2,\"0x10\",\"1.5\"]}"},
        {"a: yes\nb: true\nc: ~\nd: null\ne: \"true\"\nf: ''",
         "{\"a\":\"yes\",\"b\":true,\"c\":null,\"d\":null,\"e\":\"true\",\"f\":\"\"}"},
        {"1: a\ntrue: b", "{\"1\":\"a\",\"true\":\"b\"}"},
        {"a: &x {b: c}\nd: *x", "{\"a\":{\"b\":\"c\"},\"d\":{\"b\":\"c\"}}"},
        {"a: |\n  one\n  two\n", "{\"a\":\"one\\ntwo\\n\"}"},
        {"{\"json\": [\"is\", {\"yaml\": true}]}", "{\"json\":[\"is\",{\"yaml\":true}]}"},
        {"a: 99999999999999999999", "{\"a\":\"99999999999999999999\"}"},
        {"- '-'\n- +", "[\"-\",\"+\"]"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_err err = {0};
        json_t *got = NULL;
        char *text;

        if (pl_kube_yaml_parse(rows[i].yaml, strlen(rows[i].yaml), &got, &err) != 0)
            fail_msg("%s: %s", rows[i].yaml, err.msg);
        text = json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY);
        assert_string_equal(text, rows[i].json);
        free(text);
        json_decref(got);
    }
}

static void yaml_that_is_none_or_too_much_is_refused(void **state)
{
    static const struct {
        const char *yaml, *words;
        int code;
    } rows[] = {
        {"a: [1", "line 2, column 1", PL_EINVAL},
        {"a: 1\na: 2", "line 2, column 1: duplicate key \"a\"", PL_EINVAL},
        {"a: !mine 1", "tags are not supported", PL_EINVAL},
        {"[a]: 1", "a key is not a string", PL_EINVAL},
        {"a: 1\n---\nb: 2", "several documents", PL_EINVAL},
        {"\xff\xff\xff", "byte", PL_EINVAL},
        {"a: &x [*x]", "nested too deeply", PL_EINVAL},
        {"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
         "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]",
         "more than 200000 values", PL_ETOOBIG},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_err err = {0};
        json_t *got = NULL;
        int r = pl_kube_yaml_parse(rows[i].yaml, strlen(rows[i].yaml), &got, &err);

        if (r != rows[i].code || strstr(err.msg, rows[i].words) == NULL)
            fail_msg("%s: %d %s", rows[i].yaml, r, err.msg);
    }
}

/* --- files --- */

#define HEAD "apiVersion: v1\nkind: Config\n"
#define ONE                                                                                                                      \
    HEAD "current-context: one\n"                                                                                                \
         "clusters: [{name: c, cluster: {server: 'https://h:6443/', certificate-authority: ca.pem}}]\n"                          \
         "contexts: [{name: one, context: {cluster: c, user: u, namespace: mine}}]\n"                                            \
         "users: [{name: u, user: {token: secret}}]\n"

static int resolve(const char *text, const char *context, struct pl_kubeconfig *ret, struct pl_err *err)
{
    const struct pl_kubeconfig_text t = {"/home/x/.kube/config", text, strlen(text)};

    return pl_kubeconfig_resolve(&t, 1, context, ret, err);
}

static void a_context_names_cluster_and_user(void **state)
{
    struct pl_kubeconfig c = {0};

    (void)state;
    assert_int_equal(resolve(ONE, NULL, &c, NULL), 0);
    assert_string_equal(c.context, "one");
    assert_string_equal(c.server, "https://h:6443");
    assert_string_equal(c.name_space, "mine");
    assert_string_equal(c.ca_file, "/home/x/.kube/ca.pem");
    assert_string_equal(c.token, "secret");
    assert_null(c.plugin);
    pl_kubeconfig_finish(&c);
}

static void every_field_is_taken(void **state)
{
    const char *text = HEAD
        "clusters:\n- name: c\n  cluster:\n    server: https://10.0.0.1\n    insecure-skip-tls-verify: true\n    "
        "tls-server-name: api\n"
        "    proxy-url: socks5://p:1\n    disable-compression: true\ncontexts:\n- {name: k, context: {cluster: c, user: u}}\n"
        "users:\n- name: u\n  user:\n    client-certificate-data: Q0VS\n      VA==\n    client-certificate: /x\n    client-key: "
        "k.pem\n"
        "    tokenFile: ../t\n    username: me\n    password: 123\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n"
        "      command: ./get\n      args: [a, b]\n      env: [{name: N, value: v}]\n      provideClusterInfo: true\n"
        "      interactiveMode: IfAvailable\n      installHint: get it there\n";
    struct pl_kubeconfig c = {0};
    struct pl_err err = {0};

    (void)state;
    if (resolve(text, "k", &c, &err) != 0)
        fail_msg("%s", err.msg);
    assert_true(c.insecure);
    assert_string_equal(c.tls_server_name, "api");
    assert_string_equal(c.proxy_url, "socks5://p:1");
    assert_string_equal(c.name_space, "default");
    assert_string_equal(c.cert_data, "CERT"); /* the data counts, not the path */
    assert_null(c.cert_file);
    assert_string_equal(c.key_file, "/home/x/.kube/k.pem");
    assert_string_equal(c.token_file, "/home/x/.kube/../t");
    assert_string_equal(c.password, "123");
    assert_string_equal(c.plugin->command, "/home/x/.kube/./get");
    assert_string_equal(c.plugin->args[1], "b");
    assert_null(c.plugin->args[2]);
    assert_string_equal(c.plugin->env[0], "N=v");
    assert_true(c.plugin->wants_cluster);
    assert_string_equal(c.plugin->install_hint, "get it there");
    pl_kubeconfig_finish(&c);
}

static void of_several_files_the_first_that_names_it_counts(void **state)
{
    const char *first = HEAD "current-context: two\nusers: [{name: u, user: {token: first, tokenFile: t}}]\n";
    const char *second = HEAD "current-context: one\ncontexts: [{name: two, context: {cluster: c, user: u}}]\n"
                              "users: [{name: u, user: {token: second}}]\nclusters: [{name: c, cluster: {server: http://s}}]\n";
    const struct pl_kubeconfig_text t[] = {{"/a/1", first, strlen(first)}, {"/b/2", second, strlen(second)}};
    struct pl_kubeconfig c = {0};

    (void)state;
    assert_int_equal(pl_kubeconfig_resolve(t, 2, NULL, &c, NULL), 0);
    assert_string_equal(c.context, "two");
    assert_string_equal(c.server, "http://s");
    assert_string_equal(c.token, "first");
    assert_string_equal(c.token_file, "/a/t");
    pl_kubeconfig_finish(&c);
}

static void what_is_wrong_is_named(void **state)
{
#define USER(fields)                                                                                                             \
    HEAD "current-context: k\nclusters: [{name: c, cluster: {server: https://s}}]\ncontexts: [{name: k, context: {cluster: c, "  \
         "user: u}}]\n"                                                                                                          \
         "users:\n- name: u\n  user:\n" fields
#define CLUSTER(fields)                                                                                                          \
    HEAD "current-context: k\ncontexts: [{name: k, context: {cluster: c}}]\nclusters: [{name: c, cluster: {" fields "}}]\n"
    static const struct {
        const char *text;
        int code;
        const char *words;
    } rows[] = {
        {"- 1", PL_EINVAL, "/home/x/.kube/config: not a kubeconfig"},
        {"a: [", PL_EINVAL, "/home/x/.kube/config: line "},
        {"", PL_ENOTFOUND, "no current-context: name one of: none"},
        {HEAD "contexts: [{name: a}, {name: b}]", PL_ENOTFOUND, "name one of: a, b"},
        {HEAD "current-context: x\ncontexts: [{name: a}, {name: b}]", PL_ENOTFOUND, "no context \"x\"; it has: a, b"},
        {HEAD "current-context: x\ncontexts: [{name: x}]", PL_EINVAL, "context \"x\": cluster is missing"},
        {HEAD "current-context: x\ncontexts: [{name: x, context: {cluster: q}}]", PL_ENOTFOUND, "no cluster \"q\"; it has: none"},
        {HEAD "current-context: x\ncontexts: [{name: x, context: 3}]", PL_EINVAL, "context \"x\" is not a mapping"},
        {CLUSTER(""), PL_EINVAL, "cluster \"c\": server is missing"},
        {CLUSTER("server: [1]"), PL_EINVAL, "server is not a string"},
        {CLUSTER("server: 'h:1'"), PL_EINVAL, "server is not an address"},
        {CLUSTER("server: 'https://'"), PL_EINVAL, "server is not an address"},
        {CLUSTER("server: 'https:///x'"), PL_EINVAL, "server is not an address"},
        {CLUSTER("server: 'https://h/?q'"), PL_EINVAL, "server is not an address"},
        {CLUSTER("server: \"https://h/\\r\\nX: y\""), PL_EINVAL, "server is not an address"},
        {CLUSTER("server: https://s, proxy-url: x"), PL_EINVAL, "proxy-url is not the address of a proxy"},
        {CLUSTER("server: https://s, insecure-skip-tls-verify: maybe"), PL_EINVAL, "is neither true nor false"},
        {CLUSTER("server: https://s, insecure-skip-tls-verify: true, certificate-authority: x"), PL_EINVAL, "exclude each other"},
        {CLUSTER("server: https://s, certificate-authority-data: '***'"), PL_EINVAL, "certificate-authority-data is not base64"},
        {USER("    client-certificate: x\n"), PL_EINVAL, "go together: one is missing"},
        {USER("    auth-provider: {name: gcp}\n"), PL_EINVAL, "removed from Kubernetes in 1.26"},
        {USER("    exec: {apiVersion: client.authentication.k8s.io/v1}\n"), PL_EINVAL, "exec has no command"},
        {USER("    exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}\n"), PL_EINVAL,
         "unsupported apiVersion"},
        {USER("    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}\n"), PL_EINVAL,
         "needs a terminal"},
        {USER("    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, args: [{}]}\n"), PL_EINVAL,
         "arg that is not a string"},
        {USER("    exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [{name: a}]}\n"), PL_EINVAL,
         "env entry without name"},
        {HEAD "current-context: k\nclusters: [{name: c, cluster: {server: https://s}}]\ncontexts: [{name: k, context: {cluster: "
              "c, user: w}}]\n",
         PL_ENOTFOUND, "no user \"w\""},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_kubeconfig c = {0};
        struct pl_err err = {0};
        int r = resolve(rows[i].text, NULL, &c, &err);

        if (r != rows[i].code || strstr(err.msg, rows[i].words) == NULL)
            fail_msg("%s\n%d %s\nnot %s", rows[i].text, r, err.msg, rows[i].words);
        assert_null(c.server);
    }
}

/* --- folders --- */

struct folder {
    char path[64];
};

static char *put(const struct folder *f, const char *name, const char *text, mode_t mode)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", f->path, name);
    assert_int_equal(pl_io_write_file(path, text, strlen(text), mode, NULL), 0);
    return path;
}

static int setup(void **state)
{
    struct folder *f = calloc(1, sizeof *f);

    (void)snprintf(f->path, sizeof f->path, "/tmp/pl-kubeconfig-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct folder *f = *state;

    assert_int_equal(pl_io_remove_tree(f->path, NULL), 0);
    free(f);
    return 0;
}

static void a_list_of_files_may_name_some_that_are_not_there(void **state)
{
    const struct folder *f = *state;
    struct pl_kubeconfig c = {0};
    struct pl_err err = {0};
    char list[256];

    put(f, "k", ONE, 0600);
    (void)snprintf(list, sizeof list, "%s/none:%s/k::", f->path, f->path);
    assert_int_equal(pl_kubeconfig_load(&(struct pl_kubeconfig_where){.files = list}, &c, &err), 0);
    assert_string_equal(c.token, "secret");
    pl_kubeconfig_finish(&c);
    setenv("KUBECONFIG", list, 1);
    assert_int_equal(pl_kubeconfig_load(&(struct pl_kubeconfig_where){0}, &c, &err), 0);
    pl_kubeconfig_finish(&c);
    (void)snprintf(list, sizeof list, "%s/none", f->path);
    setenv("KUBECONFIG", list, 1);
    unsetenv("KUBERNETES_SERVICE_HOST");
    assert_int_equal(pl_kubeconfig_load(&(struct pl_kubeconfig_where){0}, &c, &err), PL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "/none, and this is not a pod"));
    unsetenv("KUBECONFIG");
}

static void a_pod_finds_its_own_account(void **state)
{
    const struct folder *f = *state;
    struct pl_kubeconfig c = {0};
    struct pl_err err = {0};

    assert_int_equal(pl_kubeconfig_in_cluster(f->path, NULL, NULL, &c, &err), PL_ENOTFOUND);
    assert_int_equal(pl_kubeconfig_in_cluster(f->path, "10.0.0.1", "443", &c, &err), PL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "service account"));
    put(f, "token", "t1\n", 0600);
    assert_int_equal(pl_kubeconfig_in_cluster(f->path, "10.0.0.1", "443", &c, &err), 0);
    assert_string_equal(c.server, "https://10.0.0.1:443");
    assert_string_equal(c.name_space, "default");
    assert_null(c.ca_file);
    pl_kubeconfig_finish(&c);
    put(f, "ca.crt", "pem", 0600);
    put(f, "namespace", "mine\n", 0600);
    assert_int_equal(pl_kubeconfig_in_cluster(f->path, "fd00::1", "6443", &c, &err), 0);
    assert_string_equal(c.server, "https://[fd00::1]:6443");
    assert_string_equal(c.name_space, "mine");
    assert_non_null(c.ca_file);
    pl_kubeconfig_finish(&c);
}

/* --- who we are now --- */

static void on_changed(void *arg)
{
    assert_int_equal(eventfd_write(*(int *)arg, 1), 0);
}

/* What is in force, waiting for a plugin; NULL and `err` when there is nothing. */
static struct pl_kube_auth *auth_of(struct pl_kube_identity *id, int changed, int64_t now_ms, struct pl_err *err)
{
    struct pl_kube_auth *a = NULL;
    int r = pl_kube_identity_get(id, now_ms, &a, err);

    if (r == PL_EBUSY) {
        struct pollfd p = {changed, POLLIN, 0};
        eventfd_t n;

        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_int_equal(eventfd_read(changed, &n), 0);
        r = pl_kube_identity_get(id, now_ms, &a, err);
    }
    return r == 0 ? a : NULL;
}

static void has_token(struct pl_kube_identity *id, int changed, int64_t now_ms, const char *want)
{
    struct pl_err err = {0};
    struct pl_kube_auth *a = auth_of(id, changed, now_ms, &err);

    if (a == NULL)
        fail_msg("%s", err.msg);
    assert_string_equal(a->authorization, want);
    pl_kube_auth_unref(a);
}

static void a_token_in_a_file_is_read_again_after_a_minute_and_when_it_is_refused(void **state)
{
    const struct folder *f = *state;
    struct pl_kubeconfig c = {.server = strdup("https://h"), .token_file = strdup(put(f, "t", "one\n", 0600))};
    struct pl_kube_identity *id = NULL;
    struct pl_kube_auth *a;
    struct pl_err err = {0};

    assert_int_equal(pl_kube_identity_create(&c, on_changed, NULL, &id, NULL), 0);
    has_token(id, -1, 0, "Authorization: Bearer one");
    put(f, "t", "two", 0600);
    has_token(id, -1, 59999, "Authorization: Bearer one");
    has_token(id, -1, 60000, "Authorization: Bearer two");
    a = auth_of(id, -1, 60001, &err);
    assert_false(pl_kube_identity_refused(id, a, 60001)); /* it is what the file says */
    put(f, "t", "three", 0600);
    assert_true(pl_kube_identity_refused(id, a, 60002));
    assert_true(pl_kube_identity_refused(id, a, 60003)); /* another request that was refused with the old one */
    has_token(id, -1, 60004, "Authorization: Bearer three");
    pl_kube_auth_unref(a);
    put(f, "t", "a b\nX-Header: 1", 0600); /* no token: what is in force stays */
    has_token(id, -1, 200000, "Authorization: Bearer three");
    pl_kube_identity_destroy(id);
}

static void keys_given_as_text_are_files_in_memory(void **state)
{
    struct pl_kubeconfig c = {.server = strdup("https://h.test:6443/x"),
                              .ca_data = strdup("CA"),
                              .cert_data = strdup("CERT"),
                              .key_data = strdup("KEY"),
                              .tls_server_name = strdup("api"),
                              .username = strdup("u"),
                              .password = strdup("p")};
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    struct pl_kube_identity *id = NULL;
    struct pl_kube_auth *a = NULL;

    (void)state;
    assert_int_equal(pl_kube_identity_create(&c, on_changed, NULL, &id, NULL), 0);
    assert_string_equal(pl_kube_identity_base(id), "https://api:6443/x");
    assert_int_equal(pl_kube_identity_get(id, 0, &a, NULL), 0);
    assert_string_equal(a->authorization, "Authorization: Basic dTpw");
    assert_string_equal(a->host, "Host: h.test:6443");
    assert_string_equal(a->route.connect_to, "::h.test:6443");
    assert_int_equal(pl_io_read_file(a->route.key, &text, NULL), 0);
    assert_int_equal(pl_io_read_file(a->route.ca, &text, NULL), 0);
    assert_memory_equal(text.data + text.len - 2, "CA", 2);
    pl_kube_auth_unref(a);
    pl_kube_identity_destroy(id);
}

/* A plugin that counts its runs, and says what its environment is. */
static struct pl_kubeconfig plugin_config(const struct folder *f, const char *script)
{
    struct pl_kubeconfig c = {.server = strdup("https://h"), .ca_data = strdup("CA"), .plugin = calloc(1, sizeof *c.plugin)};

    c.plugin->command = strdup(put(f, "plugin", script, 0700));
    c.plugin->api_version = strdup("client.authentication.k8s.io/v1");
    c.plugin->args[0] = strdup(f->path);
    c.plugin->env[0] = strdup("WHO=me");
    c.plugin->wants_cluster = true;
    return c;
}

#define CREDENTIAL(status)                                                                                                       \
    "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":" status "}"

static void a_plugin_runs_once_until_its_credential_ends_or_is_refused(void **state)
{
    const struct folder *f = *state;
    struct pl_kubeconfig c = plugin_config(
        f, "#!/bin/sh\necho x >>\"$1/runs\"; printf %s \"$KUBERNETES_EXEC_INFO\" >\"$1/info\"\n"
           "n=$(wc -l <\"$1/runs\" | tr -d ' ')\n"
           "echo "
           "'{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"'$WHO$n'\","
           "\"expirationTimestamp\":\"2999-01-01T00:00:00Z\"}}'\n");
    _cleanup_(pl_buf_finish) struct pl_buf info = {0};
    int changed = eventfd(0, EFD_CLOEXEC);
    struct pl_kube_identity *id = NULL;
    struct pl_kube_auth *a;
    char path[128];

    assert_int_equal(pl_kube_identity_create(&c, on_changed, &changed, &id, NULL), 0);
    has_token(id, changed, 0, "Authorization: Bearer me1");
    has_token(id, changed, 3600000, "Authorization: Bearer me1");
    (void)snprintf(path, sizeof path, "%s/info", f->path);
    assert_int_equal(pl_io_read_file(path, &info, NULL), 0);
    assert_string_equal(
        pl_buf_str(&info),
        "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"spec\":{\"interactive\":false,"
        "\"cluster\":{\"server\":\"https://h\",\"insecure-skip-tls-verify\":false,\"certificate-authority-data\":\"Q0E=\"}}}");
    a = auth_of(id, changed, 0, NULL);
    assert_true(pl_kube_identity_refused(id, a, 0));
    pl_kube_auth_unref(a);
    has_token(id, changed, 1, "Authorization: Bearer me2");
    pl_kube_identity_destroy(id);
    close(changed);
}

/* Whoever made it has a clock that is ten minutes behind ours: it is used, and not asked for again with every request. */
static void a_credential_that_is_over_by_our_clock_is_used_for_a_while(void **state)
{
    const struct folder *f = *state;
    struct pl_kubeconfig c =
        plugin_config(f, "#!/bin/sh\necho x >>\"$1/runs\"; n=$(wc -l <\"$1/runs\" | tr -d ' ')\n"
                         "at=$(date -u -d '10 minutes ago' +%Y-%m-%dT%H:%M:%SZ)\n"
                         "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":"
                         "{\"token\":\"'$WHO$n'\",\"expirationTimestamp\":\"'$at'\"}}'\n");
    int changed = eventfd(0, EFD_CLOEXEC);
    struct pl_kube_identity *id = NULL;
    struct pl_kube_auth *a;

    assert_int_equal(pl_kube_identity_create(&c, on_changed, &changed, &id, NULL), 0);
    has_token(id, changed, 0, "Authorization: Bearer me1");
    has_token(id, changed, 1, "Authorization: Bearer me1");
    a = auth_of(id, changed, 2, NULL);
    assert_true(pl_kube_identity_refused(id, a, 2));
    pl_kube_auth_unref(a);
    has_token(id, changed, 3, "Authorization: Bearer me2");
    pl_kube_identity_destroy(id);
    close(changed);
}

static void a_plugin_that_fails_says_why(void **state)
{
    static const struct {
        const char *script, *words;
    } rows[] = {
        {"#!/bin/sh\necho 'log in first' >&2; exit 3\n", "exit status 3: log in first"},
        {"#!/bin/sh\nkill -9 $$\n", "ended by signal 9"},
        {"#!/bin/sh\necho hello\n", "is not an ExecCredential"},
        {"#!/bin/sh\necho '" CREDENTIAL("{}") "'\n", "neither a token nor a certificate"},
        {"#!/bin/sh\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\"}'\n",
         "another apiVersion"},
        {"#!/bin/sh\necho '" CREDENTIAL("{\"token\":\"t\",\"expirationTimestamp\":\"soon\"}") "'\n",
         "expirationTimestamp is not a valid time"},
    };

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        struct pl_kubeconfig c = plugin_config(*state, rows[i].script);
        int changed = eventfd(0, EFD_CLOEXEC);
        struct pl_kube_identity *id = NULL;
        struct pl_err err = {0};

        assert_int_equal(pl_kube_identity_create(&c, on_changed, &changed, &id, NULL), 0);
        assert_null(auth_of(id, changed, 1, &err));
        if (err.code != PL_EAUTH || strstr(err.msg, rows[i].words) == NULL)
            fail_msg("%d %s, not %s", err.code, err.msg, rows[i].words);
        assert_null(auth_of(id, changed, 2, &err)); /* it is not run again at once */
        assert_non_null(strstr(err.msg, rows[i].words));
        pl_kube_identity_destroy(id);
        close(changed);
    }
}

static void a_plugin_that_is_not_there_or_does_not_end(void **state)
{
    const struct folder *f = *state;
    struct pl_kubeconfig c = plugin_config(f, "#!/bin/sh\nsleep 1000 & wait\n");
    struct pl_kube_credential got = {0};
    struct pl_kube_identity *id = NULL;
    struct pl_kube_auth *a = NULL;
    int changed = eventfd(0, EFD_CLOEXEC);
    struct pl_err err = {0};

    assert_int_equal(pl_kube_exec_run(&c, 50, -1, &got, &err), PL_EAUTH);
    assert_non_null(strstr(err.msg, "it did not end in time"));
    assert_int_equal(pl_kube_identity_create(&c, on_changed, &changed, &id, NULL), 0);
    assert_int_equal(pl_kube_identity_get(id, 0, &a, NULL), PL_EBUSY);
    pl_kube_identity_destroy(id); /* kills it */
    c = plugin_config(f, "#!/bin/sh\n");
    free(c.plugin->command);
    c.plugin->command = strdup("no-such-plugin-anywhere");
    c.plugin->install_hint = strdup("get it from your vendor");
    assert_int_equal(pl_kube_exec_run(&c, 1000, -1, &got, &err), PL_EAUTH);
    assert_non_null(strstr(err.msg, "cannot be started: No such file"));
    assert_string_equal(err.hint, "get it from your vendor");
    pl_kubeconfig_finish(&c);
    close(changed);
}

static void times_of_the_api(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {{"1970-01-01T00:00:01Z", 1000000},
                {"2026-01-02T03:04:05Z", 1767323045000000},
                {"2026-01-02T03:04:05.5Z", 1767323045500000},
                {"2026-01-02T03:04:05.123456789Z", 1767323045123456},
                {"2026-01-02T05:04:05+02:00", 1767323045000000},
                {"2026-01-01T21:34:05-05:30", 1767323045000000}};
    static const char *const bad[] = {"",
                                      "now",
                                      "2026-01-02",
                                      "2026-01-02T03:04:05",
                                      "2026-01-02T03:04:05.Z",
                                      "2026-01-02T03:04:05+0200",
                                      "2026-01-02T03:04:05Zx"};
    int64_t us;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
        assert_true(pl_kube_time_parse(good[i].text, &us));
        assert_int_equal(us, good[i].us);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++)
        assert_false(pl_kube_time_parse(bad[i], &us));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_is_read_as_json),
        cmocka_unit_test(yaml_that_is_none_or_too_much_is_refused),
        cmocka_unit_test(a_context_names_cluster_and_user),
        cmocka_unit_test(every_field_is_taken),
        cmocka_unit_test(of_several_files_the_first_that_names_it_counts),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test_setup_teardown(a_list_of_files_may_name_some_that_are_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pod_finds_its_own_account, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_in_a_file_is_read_again_after_a_minute_and_when_it_is_refused, setup, teardown),
        cmocka_unit_test(keys_given_as_text_are_files_in_memory),
        cmocka_unit_test_setup_teardown(a_plugin_runs_once_until_its_credential_ends_or_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_credential_that_is_over_by_our_clock_is_used_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plugin_that_fails_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plugin_that_is_not_there_or_does_not_end, setup, teardown),
        cmocka_unit_test(times_of_the_api),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
