/* storage/pack: Packs: objects of many records each. A pack_builder writes them and hands them to a
 * pack_sink; a pack_reader reads and verifies them.
 *
 * In:      Records (chunks, tree nodes, lists).
 * Out:     Sealed packs of at most 64 MiB; verified records.
 * Uses:    storage/{base, chunk, system}
 * Threads: Any number of threads may add to a pack_builder, which has one thread for uploads. A pack_writer
 *          and a pack_reader's input belong to one thread at a time.
 *
 * Headers for other rooms:
 *   chunk_reader   interface for reading verified records
 *   pack_builder   deduplicates, compresses and packs all records of one ingest or commit
 *   pack_format    byte layout of a pack
 *   pack_reader    reads footers and records of a pack and verifies them
 *   pack_sink      interface that receives full packs
 *   pack_writer    collects records and seals them into one pack
 *   recent_ids     bounded set of recently added record ids
 *
 * Inside:
 *   pack_uploader  background thread that uploads full packs */
#pragma once

#include "storage/pack/pack_builder.h"
#include "storage/pack/pack_reader.h"
