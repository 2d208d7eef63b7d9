/* writers: does anyone write to this file, and would it show if someone did? What early (early.h) stands on. Any thread. */
#pragma once

#include <stdbool.h>

/* True: at this moment nobody has the file open for writing, or mapped so; from now on who writes to it must open it first. False: someone
 * has, or it cannot be known. `fd` is open for reading alone. Who opens the file meanwhile waits for microseconds. */
bool pl_file_writers_is_none(int fd);

/* Tries with a file of the folder `work` whether its file system tells: a mapped file counts as open for writing, and who writes to a file
 * through a mapping made later moves its change time. Takes up to 20 ms. */
bool pl_file_writers_are_supported(const char *work);
