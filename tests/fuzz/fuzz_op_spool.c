// link: pipelined/db/open_commits storage/pack
/* Any bytes as the spool of an open commit: refused with a message, or operations and records that are read again. The first byte says
 * whether the rest is a file, or groups (u16 length of meta, u16 of data, both) whose checksums are set right. */
#include "pipelined/db/open_commits/open_commit_file.h"
#include "storage/pack/pack_format.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define COMMIT "0123456789abcdef0123456789abcdef"

static void must(int r)
{
    if (r < 0)
        abort();
}

static void add_group(struct pl_buf *file, struct pl_cursor *in, uint64_t number)
{
    uint16_t meta_len = pl_cursor_le16(in), data_len = pl_cursor_le16(in);
    const uint8_t *meta, *data;
    _cleanup_(pl_buf_finish) struct pl_buf body = {0};
    size_t at = file->len;

    meta_len = (uint16_t)PL_MIN(meta_len, pl_cursor_left(in));
    meta = pl_cursor_bytes(in, meta_len);
    data_len = (uint16_t)PL_MIN(data_len, pl_cursor_left(in));
    data = pl_cursor_bytes(in, data_len);
    if (in->failed)
        return;
    must(pl_buf_add(&body, meta, meta_len, NULL));
    if (meta_len >= 16)
        for (int i = 0; i < 8; i++)
            body.data[8 + i] = (uint8_t)(pl_xxh64(data, data_len, 0) >> (8 * i));
    must(pl_buf_add(file, "PLSG", 4, NULL));
    must(pl_buf_add_le32(file, meta_len, NULL));
    must(pl_buf_add_le64(file, data_len, NULL));
    must(pl_buf_add_le64(file, number, NULL));
    must(pl_buf_add_le64(file, pl_xxh64(body.data, body.len, pl_xxh64(file->data + at, 24, pl_xxh64(COMMIT, 32, 0))), NULL));
    must(pl_buf_add(file, body.data, body.len, NULL));
    must(pl_buf_add(file, data, data_len, NULL));
}

static void make_file(const uint8_t *data, size_t n, const char *path)
{
    static const char json[] =
        "{\"author\":\"\",\"base\":\"\",\"base_root\":\"0000000000000000000000000000000000000000000000000000"
        "000000000000\",\"branch\":\"b\",\"bucket\":false,\"commit\":\"" COMMIT "\",\"created_us\":1,"
        "\"gathered\":true,\"message\":\"\",\"project\":\"p\",\"repo\":\"r\",\"repo_id\":1}";
    struct pl_cursor in = pl_cursor_of(data, n);
    struct pl_buf file = {0};
    bool mend = n > 0 && pl_cursor_u8(&in) & 1;
    FILE *f = fopen(path, "wb");

    if (!f)
        abort();
    if (mend) {
        must(pl_buf_add(&file, "PLSP\1\0\0\0", 8, NULL));
        must(pl_buf_add_le32(&file, sizeof json - 1, NULL));
        must(pl_buf_add_le64(&file, pl_xxh64(json, sizeof json - 1, 0), NULL));
        must(pl_buf_add(&file, json, sizeof json - 1, NULL));
        for (uint64_t number = 1; pl_cursor_left(&in) >= 4; number++)
            add_group(&file, &in, number);
    } else if (n > 1) {
        must(pl_buf_add(&file, data + 1, n - 1, NULL));
    }
    if (fwrite(file.data, 1, file.len, f) != file.len || fclose(f) != 0)
        abort();
    pl_buf_finish(&file);
}

static void open_one(const char *path, struct pl_buf *ret)
{
    struct pl_open_commit_file *s = NULL;
    struct pl_op_set t = {0};
    struct pl_err err = {0};
    int r = pl_open_commit_file_open(path, &t, &s, &err);

    if (r < 0 && (err.msg[0] == '\0' || t.n))
        abort();
    if (r == 0) {
        must(pl_op_set_write(&t, ret, NULL));
        must(pl_open_commit_file_append(s, NULL, 0, NULL, NULL, NULL));
    }
    pl_open_commit_file_close(s);
    pl_op_set_finish(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pl_buf one = {0}, two = {0};
    char path[64];

    (void)snprintf(path, sizeof path, "/dev/shm/pl-fuzz-spool-%ld", (long)getpid());
    make_file(data, n, path);
    open_one(path, &one);
    if (one.len) {
        open_one(path, &two);
        if (one.len != two.len || memcmp(one.data, two.data, one.len) != 0)
            abort();
    }
    unlink(path);
    pl_buf_finish(&one);
    pl_buf_finish(&two);
    return 0;
}
