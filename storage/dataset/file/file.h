/* storage/dataset/file: Bytes of one file to its entry and back; joins stored files.
 *
 * In:      Bytes, or an entry.
 * Out:     An entry whose chunks are in packs, or bytes in order.
 * Uses:    storage/{base, chunk, pack, tree}
 * Threads: The caller's thread.
 *
 * Headers for other rooms:
 *   file_concat  concatenates stored files without reading all bytes
 *   file_read    entry to bytes, in order
 *   file_write   bytes to chunks, chunk list and entry
 *   shared_dir   reference-counted open folder shared by threads */
#pragma once
