/* api/data_routes: Routes on projects, repos, branches, commits, files and packs.
 *
 * In:      Requests.
 * Out:     JSON, bytes, streams of operations.
 * Uses:    api/{graph_view, server, transfer}, db/{open_commits, tx}, notify, text, storage/{base, chunk, object, pack, store, system, tree,
 *          tree_edit}, storage/dataset/{file, ingest}
 * Threads: Storage pool.
 *
 * Headers for other rooms:
 *   archive_stream       replies with folders and files as a tar or zip archive
 *   commit_view          reads a finished or an open commit
 *   diff_totals          counts what differs between two trees
 *
 * Inside:
 *   archive_format       bytes of tar and zip archives around their files
 *   archive_tar          tar
 *   archive_zip          zip
 *   gone_lookup          what became of a repo, commit or file that is gone
 *   routes_archive       a folder as a tar or zip archive
 *   routes_branches      branches
 *   routes_commits       commits
 *   routes_diff          differences of two commits
 *   routes_files         files: bytes, lists, single puts
 *   routes_open_commits  open commits
 *   routes_packs         pack upload, record lookup, pack download
 *   routes_presigned     presigned URLs for packs
 *   routes_repos         projects and repos
 *   routes_trees         tree entries as a stream of operations
 *   upload_request       request bodies that change a branch or an open commit */

/* data_routes: routes on projects, repos, branches, commits, files and packs. */
#pragma once

#include "pipelined/api/server/api.h"

/* The tables of this room, for pl_api_config.tables. */
extern const struct pl_api_tables pl_api_data_routes;
