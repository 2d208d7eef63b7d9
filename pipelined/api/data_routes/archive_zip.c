/* Numbers are little-endian (PKWARE APPNOTE.TXT 6.3.10). */
#include "pipelined/api/data_routes/archive_format.h"

#include <pthread.h>
#include <time.h>

#define LOCAL_BYTES        30u
#define LOCAL_EXTRA_BYTES  20u
#define RECORD_EXTRA_BYTES 28u
#define FLAG_DESCRIPTOR    0x0008u
#define FLAG_UTF8          0x0800u
#define MADE_BY            (3u << 8 | 45u) /* Unix, version 4.5 */
#define ALL16              0xFFFFu
#define ALL32              0xFFFFFFFFu

/* ---- checksum ---- */

static uint32_t crc_table[8][256];

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
        crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
}

uint32_t pl_archive_crc32(uint32_t crc, const void *data, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint8_t *p = data;

    pthread_once(&once, make_table);
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);

        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^ crc_table[4][low >> 24] ^
              crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
    }
    for (; n > 0; n--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
    return ~crc;
}

/* ---- fields ---- */

/* A field of 2, 4 or 8 bytes. */
struct field {
    uint8_t bytes;
    uint64_t value;
};

static int add_fields(struct pl_buf *out, const struct field *fields, size_t n, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        const uint64_t v = fields[i].value;

        r = fields[i].bytes == 2   ? pl_buf_add_le16(out, (uint16_t)v, err)
            : fields[i].bytes == 4 ? pl_buf_add_le32(out, (uint32_t)v, err)
                                   : pl_buf_add_le64(out, v, err);
    }
    return r;
}

/* The time as MS-DOS has it, in UTC: date in the upper 16 bits, two-second steps from 1980 to 2107. */
static uint32_t dos_time(int64_t at_us)
{
    const time_t s = (time_t)(at_us > 0 ? at_us / 1000000 : 0);
    struct tm t;

    if (!gmtime_r(&s, &t) || t.tm_year < 80 || t.tm_year > 207)
        return 1u << 21 | 1u << 16; /* 1980-01-01 */
    return (uint32_t)(t.tm_year - 80) << 25 | (uint32_t)(t.tm_mon + 1) << 21 | (uint32_t)t.tm_mday << 16 |
           (uint32_t)t.tm_hour << 11 | (uint32_t)t.tm_min << 5 | (uint32_t)t.tm_sec / 2;
}

static bool is_large(const struct pl_archive_zip_entry *e)
{
    return e->entry.size >= ALL32;
}

/* Appends the name. A backslash is written as "_": programs on Windows take it for a slash, so that "..\" would lead out. */
static int add_name(struct pl_buf *out, const struct pl_archive_entry *e, struct pl_err *err)
{
    const size_t at = out->len;
    int r = pl_buf_add_str(out, e->name, err);

    for (size_t i = at; r >= 0 && i < out->len; i++)
        if (out->data[i] == '\\')
            out->data[i] = '_';
    return r < 0 || e->kind != PL_ARCHIVE_DIR ? r : pl_buf_add(out, "/", 1, err);
}

static size_t name_bytes(const struct pl_archive_entry *e)
{
    return strlen(e->name) + (e->kind == PL_ARCHIVE_DIR);
}

/* ---- entries ---- */

int pl_archive_zip_header(const struct pl_archive_zip_entry *e, struct pl_buf *out, struct pl_err *err)
{
    const bool large = is_large(e), later = e->descriptor;
    const uint64_t size = later ? 0 : e->entry.size;
    const struct field fields[] = {
        {4, 0x04034b50u},
        {2, large ? 45 : 20},
        {2, FLAG_UTF8 | (later ? FLAG_DESCRIPTOR : 0)},
        {2, 0}, /* stored */
        {4, dos_time(e->entry.at_us)},
        {4, later ? 0 : e->crc},
        {4, large ? ALL32 : size},
        {4, large ? ALL32 : size},
        {2, name_bytes(&e->entry)},
        {2, large ? LOCAL_EXTRA_BYTES : 0},
    };
    const struct field extra[] = {{2, 1}, {2, LOCAL_EXTRA_BYTES - 4}, {8, size}, {8, size}};
    int r = add_fields(out, fields, PL_ARRAY_SIZE(fields), err);

    r = r < 0 ? r : add_name(out, &e->entry, err);
    return r < 0 || !large ? r : add_fields(out, extra, PL_ARRAY_SIZE(extra), err);
}

int pl_archive_zip_descriptor(const struct pl_archive_zip_entry *e, struct pl_buf *out, struct pl_err *err)
{
    const uint8_t wide = is_large(e) ? 8 : 4;
    const struct field fields[] = {{4, 0x08074b50u}, {4, e->crc}, {wide, e->entry.size}, {wide, e->entry.size}};

    return e->descriptor ? add_fields(out, fields, PL_ARRAY_SIZE(fields), err) : 0;
}

uint64_t pl_archive_zip_bytes(const struct pl_archive_zip_entry *e)
{
    const bool large = is_large(e);

    return LOCAL_BYTES + name_bytes(&e->entry) + (large ? LOCAL_EXTRA_BYTES : 0) + e->entry.size +
           (!e->descriptor ? 0
            : large        ? 24
                           : 16);
}

int pl_archive_zip_record(const struct pl_archive_zip_entry *e, struct pl_buf *out, struct pl_err *err)
{
    static const uint32_t modes[] = {
        [PL_ARCHIVE_FILE] = 0100644, [PL_ARCHIVE_EXEC] = 0100755, [PL_ARCHIVE_LINK] = 0120777, [PL_ARCHIVE_DIR] = 0040755};
    const bool large = is_large(e) || e->offset >= ALL32;
    const uint32_t attributes = modes[e->entry.kind] << 16 | (e->entry.kind == PL_ARCHIVE_DIR ? 0x10u : 0);
    const struct field fields[] = {
        {4, 0x02014b50u},
        {2, MADE_BY},
        {2, large ? 45 : 20},
        {2, FLAG_UTF8 | (e->descriptor ? FLAG_DESCRIPTOR : 0)},
        {2, 0},
        {4, dos_time(e->entry.at_us)},
        {4, e->crc},
        {4, large ? ALL32 : e->entry.size},
        {4, large ? ALL32 : e->entry.size},
        {2, name_bytes(&e->entry)},
        {2, large ? RECORD_EXTRA_BYTES : 0},
        {2, 0}, /* comment */
        {2, 0}, /* disk */
        {2, 0},
        {4, attributes},
        {4, large ? ALL32 : e->offset},
    };
    const struct field extra[] = {{2, 1}, {2, RECORD_EXTRA_BYTES - 4}, {8, e->entry.size}, {8, e->entry.size}, {8, e->offset}};
    int r = add_fields(out, fields, PL_ARRAY_SIZE(fields), err);

    r = r < 0 ? r : add_name(out, &e->entry, err);
    return r < 0 || !large ? r : add_fields(out, extra, PL_ARRAY_SIZE(extra), err);
}

int pl_archive_zip_end(uint64_t entries, uint64_t offset, uint64_t bytes, struct pl_buf *out, struct pl_err *err)
{
    const bool large = entries >= ALL16 || offset >= ALL32 || bytes >= ALL32;
    const struct field wide[] = {
        {4, 0x06064b50u}, {8, 44},      {2, MADE_BY},        {2, 45},    {4, 0},
        {4, 0},           {8, entries}, {8, entries},        {8, bytes}, {8, offset},
        {4, 0x07064b50u}, {4, 0},       {8, offset + bytes}, {4, 1},
    };
    const struct field fields[] = {
        {4, 0x06054b50u},
        {2, 0},
        {2, 0},
        {2, large ? ALL16 : entries},
        {2, large ? ALL16 : entries},
        {4, large ? ALL32 : bytes},
        {4, large ? ALL32 : offset},
        {2, 0},
    };
    int r = large ? add_fields(out, wide, PL_ARRAY_SIZE(wide), err) : 0;

    return r < 0 ? r : add_fields(out, fields, PL_ARRAY_SIZE(fields), err);
}
