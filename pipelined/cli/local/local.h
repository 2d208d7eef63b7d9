/* cli/local: Specs, code folders, folders and stores of this machine.
 *
 * In:      Paths and URLs.
 * Out:     Parsed specs, uploaded code, open stores.
 * Uses:    cli/support, spec, storage/{base, object, pack, system, tree}, storage/dataset/{commit, ingest}
 * Threads: Main thread.
 *
 * Headers for other rooms:
 *   code_folder   uploads a stage's code folder
 *   input_option  --input REPO=DIR: folders in place of repos
 *   local_tree    a local folder as a tree
 *   spec_file     reads and checks spec files
 *   store_url     opens a store by URL */
#pragma once
