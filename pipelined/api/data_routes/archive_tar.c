/* The ustar header is 512 bytes of text fields (POSIX.1-2001, pax). */
#include "pipelined/api/data_routes/archive_format.h"

#include <stdio.h>

#define BLOCK 512u

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100], magic[6], version[2],
        uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

#define SIZE_MAX_OCTAL 077777777777ull /* 11 digits */

static int add_zeros(struct pl_buf *out, size_t n, struct pl_err *err)
{
    static const uint8_t zeros[2 * BLOCK];

    return pl_buf_add(out, zeros, n, err);
}

/* Only ASCII means the same to every program that reads the fields of the header; a pax header is UTF-8. */
static bool is_ascii(const char *text)
{
    while (*text && (unsigned char)*text < 0x80)
        text++;
    return !*text;
}

/* Places a name in the two fields of the header. Returns false if it does not fit. */
static bool place_name(struct header *h, const char *name, size_t len)
{
    if (!is_ascii(name))
        return false;
    if (len <= sizeof h->name) {
        memcpy(h->name, name, len);
        return true;
    }
    for (size_t at = len - sizeof h->name - 1; at < len && at <= sizeof h->prefix; at++) {
        if (at == 0 || name[at] != '/' || at + 1 == len)
            continue;
        memcpy(h->prefix, name, at);
        memcpy(h->name, name + at + 1, len - at - 1);
        return true;
    }
    return false;
}

/* Appends one record of a pax header, "LENGTH KEY=VALUE\n", whose length counts its own digits. */
static int add_pax(struct pl_buf *out, const char *key, const char *value, struct pl_err *err)
{
    const size_t rest = strlen(key) + strlen(value) + 3;
    size_t all = rest + 1;

    for (int i = 0; i < 2; i++) /* one more digit may make the number one digit longer, once */
        all = rest + (size_t)snprintf(NULL, 0, "%zu", all);
    return pl_buf_addf(out, err, "%zu %s=%s\n", all, key, value);
}

static int add_header(struct header *h, char type, unsigned mode, uint64_t size, int64_t at_us, struct pl_buf *out,
                      struct pl_err *err)
{
    unsigned sum = 0;

    snprintf(h->mode, sizeof h->mode, "%07o", mode);
    snprintf(h->uid, sizeof h->uid, "%07o", 0u);
    snprintf(h->gid, sizeof h->gid, "%07o", 0u);
    snprintf(h->size, sizeof h->size, "%011llo", (unsigned long long)(size > SIZE_MAX_OCTAL ? 0 : size));
    snprintf(h->mtime, sizeof h->mtime, "%011llo", (unsigned long long)(at_us > 0 ? at_us / 1000000 : 0) & SIZE_MAX_OCTAL);
    h->type = type;
    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    memset(h->checksum, ' ', sizeof h->checksum);
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *)h)[i];
    snprintf(h->checksum, sizeof h->checksum, "%06o", sum); /* six digits, NUL, and the space that is there */
    return pl_buf_add(out, h, BLOCK, err);
}

int pl_archive_tar_header(const struct pl_archive_entry *e, struct pl_buf *out, struct pl_err *err)
{
    static const struct {
        char type;
        unsigned mode;
    } kinds[] = {[PL_ARCHIVE_FILE] = {'0', 0644},
                 [PL_ARCHIVE_EXEC] = {'0', 0755},
                 [PL_ARCHIVE_LINK] = {'2', 0777},
                 [PL_ARCHIVE_DIR] = {'5', 0755}};
    _cleanup_(pl_buf_finish) struct pl_buf pax = {0};
    struct header h = {{0}}, before = {{0}};
    char name[PL_ARCHIVE_NAME_MAX + 2], number[24];
    const uint64_t size = e->kind == PL_ARCHIVE_LINK ? 0 : e->size;
    const char *target = e->kind == PL_ARCHIVE_LINK ? e->target : "";
    int r = 0;

    snprintf(name, sizeof name, "%s%s", e->name, e->kind == PL_ARCHIVE_DIR ? "/" : "");
    snprintf(number, sizeof number, "%llu", (unsigned long long)size);
    if (!place_name(&h, name, strlen(name)))
        r = add_pax(&pax, "path", name, err);
    if (strlen(target) <= sizeof h.linkname && is_ascii(target))
        memcpy(h.linkname, target, strlen(target));
    else
        r = r < 0 ? r : add_pax(&pax, "linkpath", target, err);
    if (size > SIZE_MAX_OCTAL)
        r = r < 0 ? r : add_pax(&pax, "size", number, err);
    if (r == 0 && pax.len) {
        memcpy(before.name, "pax", 3);
        r = add_header(&before, 'x', 0644, pax.len, e->at_us, out, err);
        r = r < 0 ? r : pl_buf_add(out, pax.data, pax.len, err);
        r = r < 0 ? r : pl_archive_tar_padding(pax.len, out, err);
        if (!*h.name)
            memcpy(h.name, "long-name", 9); /* for programs that do not know pax */
    }
    return r < 0 ? r : add_header(&h, kinds[e->kind].type, kinds[e->kind].mode, size, e->at_us, out, err);
}

int pl_archive_tar_padding(uint64_t size, struct pl_buf *out, struct pl_err *err)
{
    return add_zeros(out, (size_t)(-size & (BLOCK - 1)), err);
}

int pl_archive_tar_end(struct pl_buf *out, struct pl_err *err)
{
    return add_zeros(out, (size_t)2 * BLOCK, err);
}
