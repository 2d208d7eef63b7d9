/* Finds the boundaries of documents by counting braces outside of strings. */
#include "pipelined/spec/spec_documents.h"

/* Skips what may stand between documents: blanks, commas and brackets of an array, lines of "---". */
static size_t documents_skip(const char *text, size_t len, size_t at)
{
    for (;;) {
        if (at < len && strchr(" \t\r\n,[]", text[at]) != NULL && text[at] != '\0')
            at++;
        else if (at + 3 <= len && memcmp(text + at, "---", 3) == 0)
            at += 3;
        else
            return at;
    }
}

/* Returns the offset after the object that begins at `at`; `len` if it is never closed. */
static size_t documents_end(const char *text, size_t len, size_t at)
{
    size_t depth = 0;
    bool string = false;

    for (; at < len; at++) {
        if (string && text[at] == '\\')
            at++;
        else if (text[at] == '"')
            string = !string;
        else if (!string && text[at] == '{')
            depth++;
        else if (!string && text[at] == '}' && --depth == 0)
            return at + 1;
    }
    return len;
}

/* False if the text begins with '[' and does not end with ']'. documents_skip skips brackets, so an array
 * that is never closed would go unnoticed. */
static bool documents_array_closed(const char *text, size_t len)
{
    size_t at = 0, end = len;

    while (at < len && strchr(" \t\r\n", text[at]) != NULL)
        at++;
    while (end > at && strchr(" \t\r\n", text[end - 1]) != NULL)
        end--;
    return at == len || text[at] != '[' || text[end - 1] == ']';
}

bool pl_spec_document_next(const char *text, size_t len, size_t *at, size_t *ret_from, size_t *ret_len)
{
    size_t from = documents_skip(text, len, *at);

    if (*at == 0 && (from == len || text[from] != '{' || !documents_array_closed(text, len))) {
        *ret_from = 0;
        *ret_len = len;
        *at = len + 1; /* an empty text is one document, too */
        return true;
    }
    if (from >= len)
        return false;
    *ret_from = from;
    *at = text[from] == '{' ? documents_end(text, len, from) : len;
    *ret_len = *at - from;
    return true;
}

int pl_spec_document_text(const char *text, size_t from, size_t len, struct pl_buf *out, struct pl_err *err)
{
    size_t line = from;
    int r = 0;

    while (line > 0 && text[line - 1] != '\n')
        line--;
    for (size_t i = 0; i < line && r == 0; i++)
        if (text[i] == '\n')
            r = pl_buf_add_u8(out, '\n', err);
    for (size_t i = line; i < from && r == 0; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80) /* columns are counted in characters */
            r = pl_buf_add_u8(out, ' ', err);
    return r < 0 ? r : pl_buf_add(out, text + from, len, err);
}
