// link: storage/http
/* Which servers the daemon may connect to for its users: lists of the configuration, and addresses that are not public. */
#include "storage/http/outbound.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct pl_outbound *rules(const char *schemes, const char *hosts, const char *networks)
{
    struct pl_outbound *o = NULL;

    assert_int_equal(
        pl_outbound_create(&(struct pl_outbound_settings){.schemes = schemes, .hosts = hosts, .networks = networks, .ca = ""}, &o,
                           NULL),
        0);
    return o;
}

static bool allows(const struct pl_outbound *o, const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return pl_outbound_allows(o, (const struct sockaddr *)&four);
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return pl_outbound_allows(o, (const struct sockaddr *)&six);
}

static void only_public_addresses_are_allowed(void **state)
{
    static const char *const allowed[] = {"140.82.121.4",        "1.1.1.1",       "172.32.0.1", "100.128.0.1",
                                          "2606:50c0:8000::153", "::ffff:1.1.1.1"};
    static const char *const refused[] = {"127.0.0.1",
                                          "127.8.9.1",
                                          "0.0.0.0",
                                          "10.1.2.3",
                                          "172.16.0.1",
                                          "172.31.255.255",
                                          "192.168.1.1",
                                          "169.254.169.254",
                                          "100.64.0.1",
                                          "224.0.0.1",
                                          "255.255.255.255",
                                          "198.18.0.1",
                                          "::1",
                                          "::",
                                          "fe80::1",
                                          "fd00::1",
                                          "ff02::1",
                                          "::ffff:127.0.0.1",
                                          "::ffff:169.254.169.254",
                                          "::127.0.0.1",
                                          "64:ff9b::7f00:1",
                                          "2002:7f00:1::1"};
    struct pl_outbound *o = rules("https,ssh", "*", "");

    (void)state;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!allows(o, allowed[i]))
            fail_msg("%s is refused", allowed[i]);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (allows(o, refused[i]))
            fail_msg("%s is allowed", refused[i]);
    pl_outbound_destroy(o);
}

static void networks_of_the_settings_are_allowed_too(void **state)
{
    struct pl_outbound *o = rules("https", "*", "127.0.0.0/8, fd00:1::/32 10.0.0.7");

    (void)state;
    assert_true(allows(o, "127.0.0.1"));
    assert_true(allows(o, "::ffff:127.0.0.1"));
    assert_true(allows(o, "fd00:1::5"));
    assert_true(allows(o, "10.0.0.7"));
    assert_false(allows(o, "10.0.0.8"));
    assert_false(allows(o, "::1"));
    assert_true(allows(o, "8.8.8.8"));
    pl_outbound_destroy(o);
}

static void an_address_that_is_not_of_ip_is_refused(void **state)
{
    struct pl_outbound *o = rules("https", "*", "0.0.0.0/0,::/0");
    const struct sockaddr local = {.sa_family = AF_UNIX};

    (void)state;
    assert_false(pl_outbound_allows(o, &local));
    pl_outbound_destroy(o);
}

static void schemes_and_hosts_are_those_of_the_lists(void **state)
{
    static const struct {
        const char *scheme, *host;
        bool good;
    } rows[] = {
        {"https", "github.com", true},       {"HTTPS", "GitHub.com", true},
        {"ssh", "git.example.org", true},    {"ssh", "a.b.example.org", true},
        {"https", "example.org", false},     {"https", "evilexample.org", false},
        {"https", "github.com.evil", false}, {"http", "github.com", false},
        {"file", "github.com", false},       {"https", "", false},
        {"https", "140.82.121.4", false},    {"", "github.com", false},
    };
    struct pl_outbound *o = rules("https,ssh", "github.com,*.example.org", "");
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err = (struct pl_err){0};
        if ((pl_outbound_check(o, rows[i].scheme, rows[i].host, "git", &err) == 0) != rows[i].good)
            fail_msg("%s://%s: %s", rows[i].scheme, rows[i].host, err.msg);
        if (!rows[i].good)
            assert_string_equal(err.field, "git");
    }
    pl_outbound_destroy(o);
}

static void an_empty_list_allows_nothing(void **state)
{
    struct pl_outbound *o = rules("", "", "");

    (void)state;
    assert_int_equal(pl_outbound_check(o, "https", "github.com", "git", NULL), PL_EFORBIDDEN);
    pl_outbound_destroy(o);
}

static void a_wrong_entry_is_named(void **state)
{
    static const struct {
        struct pl_outbound_settings settings;
        const char *said;
    } rows[] = {
        {{"https,ftp", "*", "", ""}, "outbound.schemes: \"ftp\""},
        {{"https", "a,https://b", "", ""}, "outbound.hosts: \"https://b\""},
        {{"https", "*example.org", "", ""}, "outbound.hosts: \"*example.org\""},
        {{"https", "*", "10.0.0.0/33", ""}, "outbound.networks: \"10.0.0.0/33\""},
        {{"https", "*", "private", ""}, "outbound.networks: \"private\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pl_outbound *o = NULL;
        struct pl_err err = {0};

        assert_int_equal(pl_outbound_create(&rows[i].settings, &o, &err), PL_EINVAL);
        assert_non_null(strstr(err.msg, rows[i].said));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_public_addresses_are_allowed),
        cmocka_unit_test(networks_of_the_settings_are_allowed_too),
        cmocka_unit_test(an_address_that_is_not_of_ip_is_refused),
        cmocka_unit_test(schemes_and_hosts_are_those_of_the_lists),
        cmocka_unit_test(an_empty_list_allows_nothing),
        cmocka_unit_test(a_wrong_entry_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
