/* media_type: the media type of a file by the end of its name, for raw downloads. Only types that a browser shows by
 * itself inside a page (pictures, audio, video) or hands to a viewer (PDF) have one of their own; everything else, HTML
 * and scripts included, is application/octet-stream. The caller sends it with `nosniff`, as attachment and with a
 * sandbox, so that no type makes a page of this origin. Pure. */
#pragma once

#define PL_MEDIA_TYPE_BYTES "application/octet-stream"

/* Returns the media type for a path; a constant string. Upper and lower case are equal. */
const char *pl_media_type(const char *path);
