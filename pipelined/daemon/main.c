/* pipelined: the daemon. */
#include "daemon.h"

#include "storage/base/log.h"

#include <stdio.h>

static enum pl_log_level level_of(const char *name)
{
    static const char *const names[] = {
        [PL_LOG_DEBUG] = "debug", [PL_LOG_INFO] = "info", [PL_LOG_WARN] = "warn", [PL_LOG_ERROR] = "error"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++)
        if (pl_streq(names[i], name))
            return (enum pl_log_level)i;
    return PL_LOG_INFO;
}

static int print(int (*make)(struct pl_buf *out, struct pl_err *err))
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};

    if (make(&text, NULL) < 0)
        return 1;
    return fwrite(text.data, 1, text.len, stdout) == text.len && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct pl_config config = {0};
    struct pl_err err = {0};
    int code;

    if (pl_config_read(argc, argv, &config, &err) < 0) {
        fprintf(stderr, "pipelined: %s\n", err.msg);
        return pl_err_info(err.code)->exit_code == 2 ? 2 : 1;
    }
    pl_log_init("pipelined", level_of(config.log_level), !isatty(STDERR_FILENO));
    if (config.show_help)
        code = print(pl_config_help);
    else if (config.show_doc)
        code = print(pl_config_markdown);
    else if (config.show_version)
        code = printf("pipelined %s\n", PL_VERSION) < 0;
    else
        code = pl_daemon_run(&config);
    pl_config_finish(&config);
    return code;
}
