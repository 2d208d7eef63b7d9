/* storage/pack: The bytes of one pack: written by a pack_builder, sent to a pack_sink, read and verified by pack_reader.
 *
 * In:      Records (chunks, tree nodes, lists).
 * Out:     Sealed packs of at most 64 MiB; verified records.
 * Uses:    storage/{base, chunk, system}
 * Threads: A pack_builder belongs to one caller and starts its own threads.
 *
 * Headers for other rooms:
 *   chunk_reader   where verified records come from
 *   pack_builder   deduplicates, compresses and packs all records of one ingest or commit
 *   pack_format    byte layout of a pack
 *   pack_reader    reads footers and records of a pack and verifies them
 *   pack_sink      where full packs go
 *   pack_writer    collects records and seals them into one pack
 *   recent_ids     bounded set of recently added record ids
 *
 * Inside:
 *   pack_uploader  background thread that uploads full packs */

/* storage/pack: many records in one object. Uses storage/chunk and storage/object.
 *
 *   pack_format    the bytes of a pack        pack_writer, pack_reader   one pack, made and read
 *   index          id → pack and offset, in memory and mmapped segments (index_segment)
 *   store          the records of a project, verified; takes packs in (pack_files, record_cache)
 *   pack_session   what one ingest or commit writes, in parallel (seen_set); pack_sink is where its packs go
 *   chunk_reader   where verified records come from, whoever keeps them */
#pragma once

#include "storage/pack/pack_builder.h"
#include "storage/pack/pack_reader.h"
