# The last step of a simulated kubelet's containers: static, for it runs in any image; without sanitizers, for it becomes the command. Tests and
# benchmarks both need it.
if(NOT TARGET pl-enter)
  add_executable(pl-enter ${CMAKE_CURRENT_LIST_DIR}/enter.c)
  set_target_properties(pl-enter PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_definitions(pl-enter PRIVATE _GNU_SOURCE)
  target_compile_options(pl-enter PRIVATE -Wall -Wextra -O1)
  target_link_options(pl-enter PRIVATE -static)
endif()
