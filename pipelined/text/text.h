/* text: Globs, templates, quantities, JSON text with positions. Pure.
 *
 * In:      Texts.
 * Out:     Matches, numbers, rendered texts.
 * Uses:    storage/base
 * Threads: Any thread.
 *
 * Headers for other rooms:
 *   glob           glob matching over tree paths, with captures
 *   git_address    the address of a git repository, taken apart
 *   ignore_rules   rules of .pipelinedignore files
 *   json_position  line and column of every JSON value
 *   json_text      JSON to text and back, safe when memory runs out
 *   param_text     replaces ${params.NAME} in text
 *   quantity       Kubernetes quantities
 *   template       templates with ${INPUT.path} and captures
 *   text_excerpt   the lines of a text around a position
 *
 * Inside:
 *   glob_compile   compiles a glob to matcher instructions
 *   glob_program   instruction set of the glob matcher (internal) */
#pragma once
