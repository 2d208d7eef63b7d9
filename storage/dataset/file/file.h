/* storage/dataset/file: Writes the bytes of one file as an entry, reads them back, and joins stored files.
 *
 * In:      Bytes, or an entry.
 * Out:     An entry whose chunks are in packs, or bytes in order.
 * Uses:    storage/{base, chunk, pack, tree}
 * Threads: The caller's thread.
 *
 * Headers for other rooms:
 *   file_concat  concatenates stored files without reading all bytes
 *   file_copy    copies the records of a file into packs for another project
 *   file_read    reads the bytes of an entry, in order
 *   file_write   writes bytes as chunks, a chunk list and an entry
 *   shared_dir   reference-counted open folder shared by threads */
#pragma once
