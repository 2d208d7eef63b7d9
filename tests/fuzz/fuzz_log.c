// link: pipelined/db/writer storage/dataset/log storage/system
/* Any bytes as a log object: decoded strictly, and with its chain set right its records are applied to a database: errors, no crash. What
 * was applied can be applied again from the start. */
#include "pipelined/db/writer/db_open.h"
#include "pipelined/db/writer/log_apply.h"
#include "storage/dataset/log/log.h"
#include "storage/system/io.h"

#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct pl_conn *conn;

static void must(int r)
{
    if (r < 0)
        abort();
}

static char dir[] = "/tmp/pl-fuzz-log-XXXXXX";

static void clean_up(void)
{
    conn = pl_conn_close(conn);
    (void)!pl_io_remove_tree(dir, NULL);
}

/* A database with the schema and nothing in it; each input's changes are rolled back. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char store[64];
    struct pl_object_store *objects;
    struct pl_log_head head;
    struct pl_recover_report report = {0};

    (void)argc;
    (void)argv;
    if (!mkdtemp(dir))
        abort();
    (void)atexit(clean_up);
    (void)snprintf(store, sizeof store, "%s/store", dir);
    must(pl_object_file_open(store, &objects, NULL));
    must(pl_db_prepare(dir, objects, &conn, &head, &report, NULL));
    must(pl_sql_script(conn, "PRAGMA synchronous = OFF", NULL));
    pl_object_close(objects);
    return 0;
}

static int apply(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err)
{
    json_t *payload = json_loadb(record->payload, record->len, JSON_REJECT_DUPLICATES, NULL);
    int r = json_is_object(payload) ? pl_apply_record(conn, record->kind, payload, seq, err) : PL_ECORRUPT;

    (void)self;
    if (r < 0 && json_is_object(payload) && err->msg[0] == '\0')
        abort();
    json_decref(payload);
    return r;
}

/* The header as it must be for the first object of store zero. */
static void mend(uint8_t *bytes, size_t n)
{
    static const uint8_t header[72] = {'P', 'L', 'L', 'G', 1, 0, [32] = 1};

    memcpy(bytes, header, PL_MIN(n, sizeof header));
}

static int decode(const uint8_t *bytes, size_t n, struct pl_log_head *head)
{
    struct pl_log_sink sink = {.record = apply};
    struct pl_err err = {0};
    int r;

    *head = (struct pl_log_head){0};
    must(pl_sql_script(conn, "SAVEPOINT input", NULL));
    r = pl_log_decode(bytes, n, head, &sink, &err);
    must(pl_sql_script(conn, "ROLLBACK TO input; RELEASE input", NULL));
    if (r < 0 && head->seq != 0)
        abort();
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    struct pl_log_head head = {0}, again;
    int r;

    if (copy == NULL)
        return 0;
    memcpy(copy, data, n);
    (void)!pl_log_decode(copy, n, &head, NULL, NULL);
    mend(copy, n);
    r = decode(copy, n, &head);
    if (decode(copy, n, &again) != r || memcmp(&head, &again, sizeof head) != 0)
        abort();
    free(copy);
    return 0;
}
