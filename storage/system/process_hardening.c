/* process_hardening: clears the process's dumpable flag (prctl(2), PR_SET_DUMPABLE) and sets its core limit
 * to 0. */
#include "storage/system/process_hardening.h"

#include "storage/base/base.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* In builds with LeakSanitizer, called at exit: sets the dumpable flag again, because LeakSanitizer examines
 * this process from a second process. */
static void open_again(void)
{
    prctl(PR_SET_DUMPABLE, 1);
}
#endif

void pl_process_close(void)
{
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    atexit(open_again);
#endif
}
