/* gpus: Accounts for the time of GPUs: who held them, what computed, what stood idle. Pure.
 *
 * In:      Reports on the GPUs, as GET /api/v1/gpus shows them, and the time.
 * Out:     Spans of time for a table, curves and sums over them.
 * Uses:    storage/base, text
 * Threads: Any; each struct has one user at a time.
 *
 * Headers for other rooms:
 *   gpu_ledger   sums up the time of GPUs, minute by minute
 *   gpu_history  merges the ledger's spans into curves and sums
 *   gpu_queue    what would let a waiting job start, in words */
#pragma once
