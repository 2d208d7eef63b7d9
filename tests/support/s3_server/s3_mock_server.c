/* s3_mock_server: the mock as a program, for tests of the daemon. Prints its URL; then each line of its input is an order, answered by one
 * line; it ends with its input.
 *
 *   fault KIND METHOD|- PART|- SKIP TIMES BYTES    as s3_mock_fault; KIND is a name below
 *   chaos SEED PERCENT        clock SECONDS
 *   requests METHOD|-         objects       violations       request NUMBER (0 = the first) */
#include "tests/support/s3_server/s3_mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[S3_FAULTS] = {
    [S3_FAULT_NONE] = "none",
    [S3_FAULT_500] = "500",
    [S3_FAULT_503] = "503",
    [S3_FAULT_409] = "409",
    [S3_FAULT_403] = "403",
    [S3_FAULT_RESET_BODY] = "reset_body",
    [S3_FAULT_RESET_BEFORE] = "reset_before",
    [S3_FAULT_RESET_AFTER] = "reset_after",
    [S3_FAULT_CUT] = "cut",
    [S3_FAULT_STALL] = "stall",
    [S3_FAULT_500_AFTER] = "500_after",
    [S3_FAULT_200_ERROR] = "200_error",
    [S3_FAULT_TWICE] = "twice",
    [S3_FAULT_LATE] = "late",
    [S3_FAULT_WRONG_ETAG] = "wrong_etag",
    [S3_FAULT_NO_ETAG] = "no_etag",
    [S3_FAULT_SLOW] = "slow",
    [S3_FAULT_FLIP] = "flip",
    [S3_FAULT_OTHER_RANGE] = "other_range",
    [S3_FAULT_WHOLE] = "whole",
    [S3_FAULT_404] = "404",
    [S3_FAULT_KEYS_SLOW_DOWN] = "keys_slow_down",
    [S3_FAULT_NO_LENGTH] = "no_length",
    [S3_FAULT_NO_BUCKET] = "no_bucket",
    [S3_FAULT_REDIRECT] = "redirect",
    [S3_FAULT_BAD_REGION] = "bad_region",
    [S3_FAULT_BAD_KEY] = "bad_key",
    [S3_FAULT_FULL] = "full",
    [S3_FAULT_UNKNOWN_CALL] = "unknown_call",
};

/* A word that is kept for as long as the program runs; NULL for "-". */
static const char *kept(const char *word)
{
    static char words[128][256];
    static size_t n;

    if (strcmp(word, "-") == 0 || n == 128)
        return NULL;
    snprintf(words[n], sizeof words[n], "%s", word);
    return words[n++];
}

static bool order_fault(struct s3_mock *m, const char *line)
{
    char kind[32], method[16], part[256];
    struct s3_fault f = {0};

    if (sscanf(line, "fault %31s %15s %255s %u %u %u", kind, method, part, &f.skip, &f.times, &f.bytes) != 6)
        return false;
    while (f.kind < S3_FAULTS && strcmp(kinds[f.kind], kind) != 0)
        f.kind++;
    if (f.kind == S3_FAULTS)
        return false;
    f.method = kept(method);
    f.key = kept(part);
    s3_mock_fault(m, f);
    return true;
}

static void order(struct s3_mock *m, const char *line)
{
    unsigned long long seed;
    unsigned percent;
    char word[16], recent[256];
    long seconds;

    if (sscanf(line, "chaos %llu %u", &seed, &percent) == 2)
        s3_mock_chaos(m, seed, percent);
    else if (sscanf(line, "clock %ld", &seconds) == 1)
        s3_mock_set_clock(m, seconds);
    else if (sscanf(line, "request %u", &percent) == 1) {
        s3_mock_request(m, percent, recent, sizeof recent);
        printf("%s\n", recent);
        return;
    } else if (sscanf(line, "requests %15s", word) == 1) {
        printf("%u\n", s3_mock_requests(m, strcmp(word, "-") != 0 ? word : NULL));
        return;
    } else if (strncmp(line, "objects", 7) == 0) {
        printf("%zu\n", s3_mock_objects(m));
        return;
    } else if (strncmp(line, "violations", 10) == 0) {
        printf("%u %s\n", s3_mock_violations(m), s3_mock_violation(m));
        return;
    } else if (!order_fault(m, line)) {
        printf("unknown order\n");
        return;
    }
    printf("ok\n");
}

int main(int argc, char **argv)
{
    struct s3_mock_config config = {.page_keys = 100};
    struct s3_mock *m;
    char line[512];

    for (int i = 1; i < argc; i++) {
        config.tls |= strcmp(argv[i], "--tls") == 0;
        config.ignores_conditions |= strcmp(argv[i], "--ignores-conditions") == 0;
    }
    m = s3_mock_start(&config);
    printf("%s %s\n", s3_mock_url(m), config.tls ? s3_mock_ca(m) : "-");
    while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin) != NULL)
        order(m, line);
    s3_mock_stop(m);
    return 0;
}
