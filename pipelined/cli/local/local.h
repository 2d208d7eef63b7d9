/* cli/local: Access to specs, code folders, data folders and stores on this machine.
 *
 * In:      Paths and URLs.
 * Out:     Parsed specs, uploaded code, open stores.
 * Uses:    cli/support, spec, text, storage/{base, object, pack, system, tree}, storage/dataset/{commit, ingest}
 * Threads: Main thread.
 *
 * Headers for other rooms:
 *   code_folder   stores a stage's code folder
 *   input_option  --input REPO=DIR: local folders instead of repos
 *   local_tree    stores a local folder as a tree
 *   spec_file     reads and checks spec files
 *   store_url     opens a store by URL */
#pragma once
