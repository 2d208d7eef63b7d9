/* file_writers: tells whether any process can write to a file without being noticed. early_upload.h depends
 * on it. Any thread. */
#pragma once

#include <stdbool.h>

/* True: at this moment no process has the file open or mapped for writing, so a process must open it before
 * it can write to it. False: a process has it open or mapped for writing, or this cannot be found out. `fd`
 * must be open only for reading. A process that opens the file during the call waits for some
 * microseconds. */
bool pl_file_writers_is_none(int fd);

/* Tests with a file in the folder `work` whether its file system supports this: a mapped file must count as
 * open for writing, and a write through a later mapping must change the file's change time. Takes up to 20
 * ms. */
bool pl_file_writers_are_supported(const char *work);
