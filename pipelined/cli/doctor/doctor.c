/* Prints and collects the result lines of the subcommand doctor. */
#include "pipelined/cli/doctor/doctor.h"

#include "pipelined/cli/support/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const char *const grade_names[] = {[PL_DOCTOR_OK] = "ok", [PL_DOCTOR_WARN] = "warn", [PL_DOCTOR_FAIL] = "FAIL"};

static void print(const struct pl_doctor *d, enum pl_doctor_grade grade, const char *check, const char *text, const char *remedy)
{
    static const char *const colours[] = {
        [PL_DOCTOR_OK] = "\033[32m", [PL_DOCTOR_WARN] = "\033[33m", [PL_DOCTOR_FAIL] = "\033[31m"};
    const bool coloured = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    char clean[PL_ERR_MSG_BYTES];

    if (d->cli->json)
        return;
    printf("%s%-4s%s  %-14s %s\n", coloured ? colours[grade] : "", grade_names[grade], coloured ? "\033[0m" : "", check,
           pl_show_clean(text, clean, sizeof clean));
    if (remedy)
        printf("%20s → %s\n", "", remedy);
    fflush(stdout);
}

int pl_doctor_say(struct pl_doctor *d, enum pl_doctor_grade grade, const char *check, const char *remedy, struct pl_err *err,
                  const char *fmt, ...)
{
    char text[PL_ERR_MSG_BYTES];
    json_t *line;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text[strcspn(text, "\n")] = 0;
    line = json_pack("{s:s, s:s, s:s}", "grade", grade_names[grade], "check", check, "text", text);
    if (line && remedy)
        json_object_set_new(line, "remedy", json_string(remedy));
    if (!line || json_array_append_new(d->lines, line) < 0)
        return pl_err_nomem(err);
    d->count[grade]++;
    print(d, grade, check, text, remedy);
    return 0;
}

int pl_doctor_get(struct pl_doctor *d, const char *path, json_t **ret, int *ret_code, struct pl_err *err)
{
    int r = pl_kube_client_get(d->client, path, ret, err);

    *ret_code = r;
    if (r != PL_EFORBIDDEN && r != PL_ENOTFOUND)
        return r;
    *ret = NULL;
    return 0;
}
