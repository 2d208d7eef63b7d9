/* uri: percent-encoding and decoding, byte by byte. */
#include "storage/http/uri.h"

#include "storage/base/hash.h"

static bool unreserved(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

int pl_uri_escape(const char *text, bool keep_slash, struct pl_buf *out, struct pl_err *err)
{
    static const char digits[] = "0123456789ABCDEF";
    int r = 0;

    for (const unsigned char *p = (const unsigned char *)text; r == 0 && *p != '\0'; p++) {
        const char escaped[] = {'%', digits[*p >> 4], digits[*p & 15]};

        if (unreserved(*p) || (keep_slash && *p == '/'))
            r = pl_buf_add_u8(out, *p, err);
        else
            r = pl_buf_add(out, escaped, sizeof(escaped), err);
    }
    return r;
}

int pl_uri_unescape(const char *text, size_t len, bool plus, struct pl_buf *out, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i++) {
        uint8_t byte = (uint8_t)text[i];

        if (byte == '%') {
            if (len - i < 3 || !pl_hex_decode((const char[]){text[i + 1], text[i + 2], '\0'}, &byte, 1))
                return pl_err_set(err, PL_EINVAL, "a %% at byte %zu is not followed by two hex digits", i);
            i += 2;
        } else if (byte == '+' && plus) {
            byte = ' ';
        }
        if (byte == 0)
            return pl_err_set(err, PL_EINVAL, "byte %zu is NUL", i);
        r = pl_buf_add_u8(out, byte, err);
    }
    return r;
}
