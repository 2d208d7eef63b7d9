/* enum_key: reads one part after the other. */
#include "pipelined/plan/enum_key.h"

#include "storage/base/path.h"

#include <string.h>

bool pl_enum_key_next(struct pl_cursor *c, struct pl_enum_match *ret)
{
    const uint8_t *start, *end;

    if (pl_cursor_left(c) < 3 || c->p[0] == 0xFF)
        return false;
    ret->leaf = (size_t)pl_cursor_u8(c) << 8;
    ret->leaf |= pl_cursor_u8(c);
    start = c->p;
    end = memchr(start, 0, pl_cursor_left(c));
    if (!end)
        return false;
    ret->path = (const char *)start;
    ret->path_len = (size_t)(end - start);
    ret->dir = ret->path_len == 0 || start[ret->path_len - 1] == '/';
    if (ret->path_len && ret->dir)
        ret->path_len--;
    c->p = end + 1;
    return ret->path_len <= PL_PATH_MAX_BYTES;
}
