# pl_embed(TARGET FILES…): a static library that holds the files' bytes, and its header TARGET.h:
#   extern const struct pl_embedded_file TARGET_files[];   extern const size_t TARGET_files_count;
# each with name, content type, size and a strong ETag (SHA-256), made at build time by cmake alone.
set(PL_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/PlEmbedScript.cmake)

function(pl_embed target)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target})
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
  add_custom_command(
    OUTPUT ${folder}/${target}.c ${folder}/${target}.h
    COMMAND ${CMAKE_COMMAND} -DTARGET=${target} -DFOLDER=${folder} "-DFILES=${paths}" -P ${PL_EMBED_SCRIPT}
    DEPENDS ${paths} ${PL_EMBED_SCRIPT}
    COMMENT "Embedding ${target}"
    VERBATIM)
  add_library(${target} STATIC ${folder}/${target}.c ${folder}/${target}.h)
  target_link_libraries(${target} PUBLIC pl_flags)
  target_include_directories(${target} PUBLIC ${folder})
endfunction()
