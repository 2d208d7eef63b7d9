/* pl_web: the files of the web page that are part of the program, made by web/build.cmake. Empty without a page. */
#ifndef PL_WEB_H
#define PL_WEB_H
#include <stddef.h>

struct pl_web_file {
    const char *name;          /* "index.html", "ui/main-Bz3k.js"; names below ui/ have a hash of their content */
    const char *encoding;      /* Content-Encoding: "", "gzip" or "br"; a name may have one file for each */
    const char *type;          /* Content-Type */
    const char *etag;          /* SHA-256 of the bytes, without quotes */
    const unsigned char *data; /* `size` bytes, then a NUL that is not counted */
    size_t size;
};

/* Ends with an entry whose name is NULL, which is not counted. */
extern const struct pl_web_file pl_web_files[];
extern const size_t pl_web_files_count;

#endif
