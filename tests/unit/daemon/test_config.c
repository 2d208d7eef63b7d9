// link: pipelined/daemon storage/base storage/system
/* What the daemon is told: defaults, file, options; what is refused and how; docs/config.md. */
#include "tests/support/fixtures/generated_docs.h"

#include "pipelined/daemon/config.h"

struct given {
    char *dir;
    struct pl_config c;
    struct pl_err err;
};

static int setup(void **state)
{
    struct given *g = calloc(1, sizeof *g);

    g->dir = fixture_dir();
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct given *g = *state;

    pl_config_finish(&g->c);
    fixture_remove(g->dir);
    free(g);
    return 0;
}

/* Words of a command line behind "pipelined". */
static int read_words(struct given *g, const char *words)
{
    char text[1024], *argv[32] = {(char[]){"pipelined"}}, *save, *word;
    int argc = 1;

    snprintf(text, sizeof text, "%s", words);
    for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    pl_config_finish(&g->c);
    g->err = (struct pl_err){0};
    return pl_config_read(argc, argv, &g->c, &g->err);
}

/* The file's text with ' for ". */
static int read_file(struct given *g, const char *text, const char *more)
{
    char words[1024], json[1024];
    const char *path = fixture_path(g->dir, "c.json");

    snprintf(json, sizeof json, "%s", text);
    for (char *p = json; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    assert_int_equal(pl_io_write_file(path, json, strlen(json), 0600, NULL), 0);
    snprintf(words, sizeof words, "--config %s %s", path, more);
    return read_words(g, words);
}

static void test_defaults(void **state)
{
    struct given *g = *state;

    assert_int_equal(read_words(g, ""), 0);
    assert_string_equal(g->c.listen, "127.0.0.1:7380");
    assert_string_equal(g->c.executor, "local");
    assert_string_equal(g->c.sandbox, "bwrap");
    assert_int_equal(g->c.gpus, -1);
    assert_int_equal(g->c.linger_ms, 2000);
    assert_true(*g->c.data != '\0');
}

static void test_the_file_changes_defaults_and_options_change_the_file(void **state)
{
    struct given *g = *state;

    assert_int_equal(read_file(g, "{'listen': '127.0.0.1:1', 'gpus': 3, 'drain': '1m30s'}", "--gpus 2 --public-url=http://x"), 0);
    assert_string_equal(g->c.listen, "127.0.0.1:1");
    assert_int_equal(g->c.gpus, 2);
    assert_int_equal(g->c.drain_ms, 90000);
    assert_string_equal(g->c.public_url, "http://x");
}

static void test_what_is_wrong_is_named_with_what_is_accepted(void **state)
{
    static const struct {
        const char *words;
        int code;
        const char *message;
    } rows[] = {
        {"--lisen 1", PL_EUSAGE, "unknown option --lisen: did you mean --listen"},
        {"--zzz 1", PL_EUSAGE, "unknown option --zzz"},
        {"--listen", PL_EUSAGE, "--listen needs a value: --listen ADDRESS:PORT"},
        {"--config", PL_EUSAGE, "--config needs a value"},
        {"--gpus many", PL_EINVAL, "--gpus is \"many\": use a number from -1 to 64"},
        {"--gpus 65", PL_EINVAL, "--gpus is \"65\""},
        {"--sandbox-read-only /opt,tools", PL_EINVAL, "--sandbox-read-only has \"tools\": use absolute paths of folders"},
        {"--sandbox-read-only /a:/b", PL_EINVAL, "has \"/a:/b\": use absolute paths of folders without a colon"},
        {"--linger soon", PL_EINVAL, "--linger is \"soon\": use a duration such as 2s"},
        {"--config /nowhere/c.json", PL_ENOTFOUND, "/nowhere/c.json"},
        {"--config=/nowhere/c.json", PL_ENOTFOUND, "/nowhere/c.json"},
        {"--log-level verbose", PL_EINVAL, "--log-level is \"verbose\": use debug, info, warn or error"},
    };
    struct given *g = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        assert_int_equal(read_words(g, rows[i].words), rows[i].code);
        if (!strstr(g->err.msg, rows[i].message))
            fail_msg("\"%s\" is not in: %s", rows[i].message, g->err.msg);
    }
}

static void test_a_file_is_refused_by_key(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{'lisen': 'x'}", "unknown key \"lisen\": did you mean \"listen\"?"},
        {"{'gpus': 'three'}", "gpus must be a number"},
        {"{'listen': 1}", "listen must be a string"},
        {"{'sandbox_read_only': 1}", "sandbox_read_only must be a list of strings"},
        {"{'sandbox_read_only': ['/opt', 1]}", "sandbox_read_only[1] must be a string without a comma"},
        {"{'sandbox_read_only': ['/opt', 'venv']}", "--sandbox-read-only has \"venv\": use absolute paths"},
        {"[]", "not an object"},
        {"{", "c.json:1:"},
        {"{'gpus': 1, 'gpus': 2}", "c.json:1:"},
    };
    struct given *g = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        assert_int_equal(read_file(g, rows[i].text, ""), PL_EINVAL);
        if (!strstr(g->err.msg, rows[i].message))
            fail_msg("\"%s\" is not in: %s", rows[i].message, g->err.msg);
    }
}

static void test_help_names_every_option_of_the_page(void **state)
{
    struct pl_buf help = {0}, page = {0};
    unsigned options = 0;
    char option[64];

    (void)state;
    assert_int_equal(pl_config_help(&help, NULL), 0);
    assert_int_equal(pl_config_markdown(&page, NULL), 0);
    for (const char *at = pl_buf_str(&page); (at = strstr(at, "| `--")); at++) {
        assert_int_equal(sscanf(at, "| `%63[^`]`", option), 1);
        assert_non_null(strstr(pl_buf_str(&help), option));
        options++;
    }
    assert_true(options >= 10);
    pl_buf_finish(&help);
    pl_buf_finish(&page);
}

static void test_the_page_is_made_from_the_table(void **state)
{
    struct pl_buf page = {0};

    (void)state;
    assert_int_equal(pl_config_markdown(&page, NULL), 0);
    assert_docs(DOCS("config.md"), &page);
    pl_buf_finish(&page);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_defaults),
        T(test_the_file_changes_defaults_and_options_change_the_file),
        T(test_what_is_wrong_is_named_with_what_is_accepted),
        T(test_a_file_is_refused_by_key),
        cmocka_unit_test(test_help_names_every_option_of_the_page),
        cmocka_unit_test(test_the_page_is_made_from_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
