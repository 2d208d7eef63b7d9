// link: pipelined/agent/outputs storage/system
/* Following metrics.jsonl: whole lines, bounded in length and rate, whatever the command does with the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/outputs/metrics_file.h"
#include "storage/system/io.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct fixture {
    char dir[64];
    int dirfd;
    struct pl_metrics m;
    struct pl_buf out;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    *state = f;
    strcpy(f->dir, "/tmp/pl-test-metrics-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY);
    pl_metrics_start(&f->m, f->dirfd, 0);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    close(f->dirfd);
    pl_buf_finish(&f->out);
    assert_int_equal(pl_io_remove_tree(f->dir, NULL), 0);
    free(f);
    return 0;
}

static void append(struct fixture *f, const char *text)
{
    int fd = openat(f->dirfd, PL_METRICS_FILE, O_WRONLY | O_CREAT | O_APPEND, 0644);

    assert_int_equal(pl_io_write(fd, text, strlen(text), "test", NULL), 0);
    close(fd);
}

static const char *poll_at(struct fixture *f, int64_t now_ms, bool end)
{
    pl_buf_clear(&f->out);
    pl_metrics_poll(&f->m, now_ms, end, &f->out);
    return pl_buf_str(&f->out);
}

static void lines_come_when_they_are_whole(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(poll_at(f, 0, false), "");
    append(f, "{\"a\":1}\n{\"a\"");
    assert_string_equal(poll_at(f, 1, false), "{\"a\":1}\n");
    append(f, ":2}\n\n{\"a\":3}");
    assert_string_equal(poll_at(f, 2, false), "{\"a\":2}\n");
    assert_string_equal(poll_at(f, 3, true), "{\"a\":3}\n");
}

static void lines_of_more_than_1_KiB_are_left_out(void **state)
{
    struct fixture *f = *state;
    char line[PL_METRICS_LINE_MAX + 3];

    memset(line, 'x', sizeof(line));
    line[PL_METRICS_LINE_MAX + 1] = '\n';
    line[PL_METRICS_LINE_MAX + 2] = 0;
    append(f, line);
    append(f, line + 1); /* exactly 1 KiB */
    append(f, "end\n");
    assert_string_equal(poll_at(f, 0, false) + PL_METRICS_LINE_MAX, "\nend\n");
}

static void a_file_that_is_written_anew_is_read_anew(void **state)
{
    struct fixture *f = *state;

    append(f, "first run\n");
    assert_string_equal(poll_at(f, 0, false), "first run\n");
    assert_int_equal(unlinkat(f->dirfd, PL_METRICS_FILE, 0), 0);
    append(f, "x\n");
    assert_string_equal(poll_at(f, 0, false), "x\n");
}

static void ten_lines_a_second_after_a_burst(void **state)
{
    struct fixture *f = *state;
    size_t lines = 0;

    for (int i = 0; i < 1000; i++)
        append(f, "1\n");
    (void)poll_at(f, 0, false);
    assert_int_equal(f->out.len, 2 * PL_METRICS_BURST);
    for (int t = 1; t <= 20; t++) {
        for (int i = 0; i < 100; i++)
            append(f, "2\n");
        (void)poll_at(f, t * 250, false);
        lines += f->out.len / 2;
    }
    assert_in_range(lines, 49, 51); /* 5 s */
}

static void what_is_no_file_is_left_alone(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(mkfifoat(f->dirfd, PL_METRICS_FILE, 0600), 0);
    assert_string_equal(poll_at(f, 0, false), ""); /* and does not hang */
    assert_int_equal(unlinkat(f->dirfd, PL_METRICS_FILE, 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", f->dirfd, PL_METRICS_FILE), 0);
    assert_string_equal(poll_at(f, 0, true), "");
}

static void put(struct fixture *f, const char *name, const char *text)
{
    int fd = openat(f->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_int_equal(pl_io_write(fd, text, strlen(text), "test", NULL), 0);
    close(fd);
}

static void metrics_json_is_the_one_line_of_a_command_without_lines(void **state)
{
    static const struct {
        const char *text, *line;
    } rows[] = {
        {"{\"loss\": 0.5}", "{\"loss\": 0.5}\n"},
        {"{\n  \"loss\": 0.5,\r\n\t\"name\": \"a  b\"\n}\n", "{\"loss\": 0.5,\"name\": \"a  b\"}\n"},
        {"", ""},
        {"\n\n", ""},
        {"\n{\"loss\": 1}", "{\"loss\": 1}\n"},
        {"[1, 2]", ""},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        put(f, PL_METRICS_RESULT, rows[i].text);
        pl_metrics_start(&f->m, f->dirfd, 0);
        assert_string_equal(poll_at(f, 0, false), "");
        assert_string_equal(poll_at(f, 0, true), rows[i].line);
    }
    /* with lines of its own it is not read */
    put(f, PL_METRICS_RESULT, "{\"loss\": 0.5}");
    append(f, "{\"loss\": 0.4}\n");
    pl_metrics_start(&f->m, f->dirfd, 0);
    assert_string_equal(poll_at(f, 0, true), "{\"loss\": 0.4}\n");
}

static void a_metrics_json_that_is_too_large_is_left_alone(void **state)
{
    static char text[PL_METRICS_TEXT_MAX + 2];
    struct fixture *f = *state;

    memset(text, ' ', sizeof text - 1);
    text[0] = '{';
    text[sizeof text - 2] = '}';
    put(f, PL_METRICS_RESULT, text);
    assert_string_equal(poll_at(f, 0, true), "");
    assert_int_equal(unlinkat(f->dirfd, PL_METRICS_RESULT, 0), 0);
    assert_int_equal(symlinkat("/proc/self/environ", f->dirfd, PL_METRICS_RESULT), 0);
    assert_string_equal(poll_at(f, 0, true), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_come_when_they_are_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_more_than_1_KiB_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_written_anew_is_read_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ten_lines_a_second_after_a_burst, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(metrics_json_is_the_one_line_of_a_command_without_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_metrics_json_that_is_too_large_is_left_alone, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
