# Run at build time by pl_embed: FILES (a list of paths) become FOLDER/TARGET.c and FOLDER/TARGET.h.
set(type_.html "text/html; charset=utf-8")
set(type_.js "text/javascript; charset=utf-8")
set(type_.css "text/css; charset=utf-8")
set(type_.svg "image/svg+xml")
set(type_.json "application/json")
set(type_.py "text/x-python; charset=utf-8")

set(arrays "")
set(rows "")
set(number 0)
foreach(path IN LISTS FILES)
  get_filename_component(name ${path} NAME)
  get_filename_component(extension ${path} LAST_EXT)
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "${path}: no content type is known for \"${extension}\": add it to PlEmbedScript.cmake")
  endif()
  file(SHA256 ${path} hash)
  file(SIZE ${path} size)
  file(READ ${path} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n    " bytes "${bytes}")
  string(APPEND arrays "static const unsigned char bytes_${number}[] = { /* ${name} */\n    ${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", \"${type_${extension}}\", \"\\\"${hash}\\\"\", bytes_${number}, ${size}},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${FOLDER}/${TARGET}.h.new "/* ${TARGET}: files that are part of the program, made by cmake/PlEmbed.cmake. */
#ifndef PL_EMBEDDED_${TARGET}_H
#define PL_EMBEDDED_${TARGET}_H
#include <stddef.h>

struct pl_embedded_file {
    const char *name;          /* index.html */
    const char *type;          /* the Content-Type header */
    const char *etag;          /* with its quotes, as the ETag header wants it */
    const unsigned char *data; /* `size` bytes, then a NUL that is not counted */
    size_t size;
};

/* Ends with an entry whose name is NULL, which is not counted. */
extern const struct pl_embedded_file ${TARGET}_files[];
extern const size_t ${TARGET}_files_count;
#endif
")
file(WRITE ${FOLDER}/${TARGET}.c.new "#include \"${TARGET}.h\"

${arrays}
const struct pl_embedded_file ${TARGET}_files[] = {
${rows}    {NULL, NULL, NULL, NULL, 0},
};
const size_t ${TARGET}_files_count = ${number};
")
foreach(kind c h)
  file(COPY_FILE ${FOLDER}/${TARGET}.${kind}.new ${FOLDER}/${TARGET}.${kind})
  file(REMOVE ${FOLDER}/${TARGET}.${kind}.new)
endforeach()
