/* A table of name ends. */
#include "pipelined/api/transfer/media_type.h"

#include "storage/base/base.h"

#include <strings.h>

static const struct {
    const char *end, *type;
} types[] = {
    {"apng", "image/apng"},     {"avif", "image/avif"}, {"bmp", "image/bmp"},   {"gif", "image/gif"},
    {"ico", "image/x-icon"},    {"jpeg", "image/jpeg"}, {"jpg", "image/jpeg"},  {"png", "image/png"},
    {"svg", "image/svg+xml"},   {"webp", "image/webp"}, {"aac", "audio/aac"},   {"flac", "audio/flac"},
    {"m4a", "audio/mp4"},       {"mp3", "audio/mpeg"},  {"oga", "audio/ogg"},   {"ogg", "audio/ogg"},
    {"opus", "audio/ogg"},      {"wav", "audio/wav"},   {"weba", "audio/webm"}, {"m4v", "video/mp4"},
    {"mov", "video/quicktime"}, {"mp4", "video/mp4"},   {"ogv", "video/ogg"},   {"webm", "video/webm"},
    {"pdf", "application/pdf"},
};

const char *pl_media_type(const char *path)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');

    if (!dot || dot == path || (slash && dot <= slash + 1))
        return PL_MEDIA_TYPE_BYTES; /* ".png" is a hidden file, not a picture */
    for (size_t i = 0; i < PL_ARRAY_SIZE(types); i++)
        if (strcasecmp(dot + 1, types[i].end) == 0)
            return types[i].type;
    return PL_MEDIA_TYPE_BYTES;
}
