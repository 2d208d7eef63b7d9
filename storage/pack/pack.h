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
