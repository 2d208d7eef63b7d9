# pl_folder(NAME [STRICT] [LINK targets…] [PRIVATE_LINK targets…] [EXCLUDE files…]): the folder's .c files are one static library.
# A wrong include does not compile only where the libraries' headers differ; tests/check/layers.py reads the #includes as well.
function(pl_folder name)
  cmake_parse_arguments(F "STRICT" "" "LINK;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  foreach(excluded IN LISTS F_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${excluded})
  endforeach()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC pl_flags ${F_LINK})
  if(F_STRICT)
    target_link_libraries(${name} PRIVATE pl_strict)
  endif()
endfunction()
