// link: pipelined/text
/* Addresses of git repositories: the forms that git has, and what is refused. */
#include "pipelined/text/git_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

/* The parts as "scheme user host port path", "-" for what is not there, "~" before a relative path; "!" and the reason. */
static const char *parts(const char *text)
{
    static char out[3000];
    struct pl_git_address a;
    struct pl_err err = {0};

    if (pl_git_address_parse(text, &a, &err) < 0)
        snprintf(out, sizeof out, "!%s", err.msg);
    else
        snprintf(out, sizeof out, "%s %s %s %u %s%s", a.scheme, *a.user ? a.user : "-", *a.host ? a.host : "-", a.port,
                 a.relative ? "~" : "", a.path);
    return out;
}

static void each_form_is_taken_apart(void **state)
{
    static const struct {
        const char *text, *parts;
    } rows[] = {
        {"https://github.com/team/repo.git", "https - github.com 0 /team/repo.git"},
        {"https://git.example.org:8443/a/b", "https - git.example.org 8443 /a/b"},
        {"http://127.0.0.1:3000/x.git", "http - 127.0.0.1 3000 /x.git"},
        {"https://[::1]:8443/x", "https - ::1 8443 /x"},
        {"ssh://git@github.com/team/repo.git", "ssh git github.com 0 /team/repo.git"},
        {"ssh://host:2222/srv/x.git", "ssh - host 2222 /srv/x.git"},
        {"git@github.com:team/repo.git", "ssh git github.com 0 ~team/repo.git"},
        {"git@host:/srv/x.git", "ssh git host 0 /srv/x.git"},
        {"host:repo", "ssh - host 0 ~repo"},
        {"git@[fd00::1]:repo", "ssh git fd00::1 0 ~repo"},
        {"git://example.org/x", "git - example.org 0 /x"},
        {"/srv/git/x.git", "file - - 0 /srv/git/x.git"},
        {"file:///srv/git/x.git", "file - - 0 /srv/git/x.git"},
        {"https://host/a..b", "https - host 0 /a..b"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(parts(rows[i].text), rows[i].parts);
}

static void anything_else_is_refused_with_what_is_expected(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"", "1 to 2000 bytes"},
        {"repo", "https://HOST/PATH"},
        {"./repo", "https://HOST/PATH"},
        {"ftp://host/x", "begins with none of"},
        {"HTTPS://host/x", "begins with none of"},
        {"https://", "//HOST/PATH"},
        {"https://host", "a path is expected"},
        {"https://host:/x", "//HOST:PORT/PATH"},
        {"https://host:0/x", "//HOST:PORT/PATH"},
        {"https://host:65536/x", "//HOST:PORT/PATH"},
        {"https://host:99999999999/x", "//HOST:PORT/PATH"},
        {"https://ho st/x", "//HOST/PATH"},
        {"https://-host/x", "//HOST/PATH"},
        {"ssh://-oProxyCommand=x@host/x", "//HOST/PATH"},
        {"-oProxyCommand=x:y", "https://HOST/PATH"},
        {"https://user@host/x", "in a secret"},
        {"https://host/x?y", "without ? and #"},
        {"https://host/../x", "without \"..\""},
        {"/srv/..", "without \"..\""},
        {"git@host:../x", "without \"..\""},
        {"/srv/x\n", "control characters"},
        {"file://host/x", "a path is expected"},
        {"file:///srv/%2e%2e/x", "without % and '"},
        {"ssh://git@host/x'y", "without % and '"},
        {"https://[::1/x", "//HOST/PATH"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = parts(rows[i].text);

        if (*got != '!' || !strstr(got, rows[i].said))
            fail_msg("%s: %s", rows[i].text, got);
    }
}

static void a_password_is_not_repeated(void **state)
{
    (void)state;
    assert_null(strstr(parts("https://user:hunter2@host/x"), "hunter2"));
    assert_null(strstr(parts("ssh://user:hunter2@host/x"), "hunter2"));
    assert_null(strstr(parts("https://hunter2@host/x"), "hunter2"));
    assert_null(strstr(parts("bob:hunter2@host:path"), "hunter2"));
    assert_null(strstr(parts("https://user:hun/ter2@host/x"), "ter2"));
    assert_non_null(strstr(parts("https://user:hunter2@host/x"), "in a secret"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(each_form_is_taken_apart),
                                              cmocka_unit_test(anything_else_is_refused_with_what_is_expected),
                                              cmocka_unit_test(a_password_is_not_repeated)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
