/* crc32c: CRC-32 with Castagnoli's polynomial (RFC 3720), the checksum that S3 takes as x-amz-checksum-crc32c. With the processor's own
 * instruction where there is one. Pure; any thread. */
#pragma once

#include "storage/base/base.h"

#include <sys/uio.h>

/* Goes on from `crc` (0 at first) over `n` bytes. */
uint32_t pl_crc32c(uint32_t crc, const void *data, size_t n);
/* Of the joined bytes, in S3's form: base64 of the four bytes, most significant first. Returns `out`. */
#define PL_CRC32C_BASE64 8
char *pl_crc32c_base64(uint32_t crc, char out[PL_CRC32C_BASE64 + 1]);
