// link: pipelined/source storage/base
/* What proves that a webhook comes from somebody who knows the secret. The HMACs are GitHub's example and some of Python's
 * hmac. */
#include "pipelined/source/webhook_signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <strings.h>

struct sent {
    const char *name, *value;
};

static const char *header_of(const void *self, const char *name)
{
    for (const struct sent *s = self; s->name; s++)
        if (strcasecmp(s->name, name) == 0)
            return s->value;
    return NULL;
}

static bool is_signed(const char *secret, const struct sent *sent, const char *body)
{
    const struct pl_webhook_key key = pl_webhook_key_make(secret, strlen(secret));

    return pl_webhook_signed(&key, header_of, sent, body, strlen(body));
}

/* The example of GitHub's documentation of webhooks. */
#define SECRET "It's a Secret to Everybody"
#define BODY   "Hello, World!"
#define MAC    "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
#define UPPER  "757107EA0EB2509FC211221CCE984B8A37570B6D7586C22C46F4379C8B043E17"
#define SHA1   "01dc10d0c83e72ed246219cdd91669667fe2ca59"

static void each_vendor_s_header_proves_it(void **state)
{
    static const struct {
        const char *name, *value;
        bool good;
    } rows[] = {
        {"X-Hub-Signature-256", "sha256=" MAC, true},
        {"x-hub-signature-256", "SHA256=" UPPER, true},
        {"X-Hub-Signature", "sha256=" MAC, true},
        {"X-Gitea-Signature", MAC, true},
        {"X-Forgejo-Signature", MAC, true},
        {"X-Gitlab-Token", SECRET, true},
        {"X-Pipelined-Signature", "sha256=" MAC, true},
        {"Authorization", "Bearer " SECRET, true},
        {"authorization", "bearer " SECRET, true},
        /* another kind of proof, or none */
        {"X-Hub-Signature-256", MAC, false},
        {"X-Hub-Signature-256", "sha256=", false},
        {"X-Hub-Signature-256", "sha256=" MAC "0", false},
        {"X-Hub-Signature-256", "sha256= " MAC, false},
        {"X-Hub-Signature-256", "sha256=zz7107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", false},
        {"X-Hub-Signature-256", "sha256=657107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", false},
        {"X-Hub-Signature-256", SECRET, false},
        {"X-Hub-Signature-256", "", false},
        {"X-Hub-Signature", "sha1=" SHA1, false},
        {"X-Hub-Signature", MAC, false},
        {"X-Gitea-Signature", "sha256=" MAC, false},
        {"X-Gitea-Signature", SECRET, false},
        {"X-Gitlab-Token", "", false},
        {"X-Gitlab-Token", "Bearer " SECRET, false},
        {"X-Gitlab-Token", MAC, false},
        {"X-Gitlab-Token", "It's a Secret to Everybod", false},
        {"X-Gitlab-Token", SECRET " ", false},
        {"X-Pipelined-Signature", MAC, false},
        {"Authorization", SECRET, false},
        {"Authorization", "Bearer", false},
        {"Authorization", "Bearer ", false},
        {"Authorization", "Basic " SECRET, false},
        {"X-Other", "sha256=" MAC, false},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const struct sent sent[] = {{rows[i].name, rows[i].value}, {0}};

        if (is_signed(SECRET, sent, BODY) != rows[i].good)
            fail_msg("%s: %s", rows[i].name, rows[i].value);
    }
}

static void one_good_header_is_enough(void **state)
{
    const struct sent both[] = {{"X-Hub-Signature", "sha1=" SHA1}, {"X-Hub-Signature-256", "sha256=" MAC}, {0}};
    const struct sent neither[] = {{"X-Gitlab-Token", "no"}, {"X-Gitea-Signature", "no"}, {0}};
    const struct sent none[] = {{0}};

    (void)state;
    assert_true(is_signed(SECRET, both, BODY));
    assert_false(is_signed(SECRET, neither, BODY));
    assert_false(is_signed(SECRET, none, BODY));
}

static void another_body_or_secret_is_not_signed(void **state)
{
    const struct sent sent[] = {{"X-Hub-Signature-256", "sha256=" MAC}, {0}};

    (void)state;
    assert_false(is_signed(SECRET, sent, "Hello, World"));
    assert_false(is_signed(SECRET, sent, ""));
    assert_false(is_signed("another secret", sent, BODY));
}

static void secrets_of_every_length(void **state)
{
    static const struct {
        size_t n;        /* letters k */
        const char *mac; /* of "body" */
    } rows[] = {
        {1, "c6d811ef3aeb02437cd423f1abe13209041864630bdc4e2c04def5c7b0031a23"},
        {63, "2b088ef0dc110c2a7a28c0e8264829dfa61c3878aa5ad5546c8665bfe3006163"},
        {64, "2e213d30b446410b3c21ed0982394dd2add15ccc4da5abab1cac32e7fd6eb01f"},
        {65, "2da24f5c5e8c4884fbeebd56a313b1578530a805d626213a9338445723ad28f6"},
        {4096, "cf5abefff0b78769c38ad75576971af6d913efd0063de15825458f69674194e3"},
    };
    char secret[PL_WEBHOOK_SECRET_MAX + 2];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        const struct sent sent[] = {{"X-Gitea-Signature", rows[i].mac}, {0}}, token[] = {{"X-Gitlab-Token", secret}, {0}};

        memset(secret, 'k', rows[i].n);
        secret[rows[i].n] = '\0';
        if (!is_signed(secret, sent, "body") || !is_signed(secret, token, "body"))
            fail_msg("a secret of %zu bytes", rows[i].n);
    }
    memset(secret, 'k', sizeof secret);
    assert_false(pl_webhook_key_make(secret, PL_WEBHOOK_SECRET_MAX + 1).there);
}

static void a_line_break_at_the_end_of_a_secret_does_not_count(void **state)
{
    const struct sent sent[] = {{"X-Gitlab-Token", SECRET}, {0}};

    (void)state;
    assert_true(is_signed(SECRET "\n", sent, ""));
    assert_true(is_signed(SECRET "\r\n", sent, ""));
    assert_false(is_signed(SECRET "\n\n", sent, ""));
}

/* The HMAC under an empty key is known to everybody. */
static void nothing_is_signed_without_a_secret(void **state)
{
    static const char *const empty[] = {"", "\n", "\r\n"};
    const struct sent sent[] = {{"X-Gitea-Signature", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
                                {"X-Gitlab-Token", ""},
                                {"Authorization", "Bearer "},
                                {0}};
    const struct pl_webhook_key none = pl_webhook_key_none();

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(empty); i++)
        assert_false(is_signed(empty[i], sent, ""));
    assert_false(pl_webhook_signed(&none, header_of, sent, NULL, 0));
}

static void a_body_may_hold_any_bytes(void **state)
{
    const struct pl_webhook_key key = pl_webhook_key_make("k", 1);
    const struct sent sent[] = {{"X-Gitea-Signature", "db719bb8380ec9f8f7cc41f4a3370a3b99b5a274bf5de3036c4bb553f0507a44"}, {0}};

    (void)state;
    assert_true(pl_webhook_signed(&key, header_of, sent, "\0\377\0", 3));
    assert_false(pl_webhook_signed(&key, header_of, sent, "\0\377", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_vendor_s_header_proves_it),
        cmocka_unit_test(one_good_header_is_enough),
        cmocka_unit_test(another_body_or_secret_is_not_signed),
        cmocka_unit_test(secrets_of_every_length),
        cmocka_unit_test(a_line_break_at_the_end_of_a_secret_does_not_count),
        cmocka_unit_test(nothing_is_signed_without_a_secret),
        cmocka_unit_test(a_body_may_hold_any_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
