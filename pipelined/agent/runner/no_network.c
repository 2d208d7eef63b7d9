/* A BPF program of PL_NO_NETWORK_STEPS instructions, built from a table of system call numbers. */
#include "pipelined/agent/runner/no_network.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
_Static_assert(SYS_socket == 41 && SYS_io_uring_setup == 425, "numbers of the table below");
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
_Static_assert(SYS_socket == 198 && SYS_io_uring_setup == 425, "numbers of the table below");
#else
#error "the system call numbers of this architecture are unknown"
#endif

static const struct abi {
    uint32_t arch, end; /* system call numbers from `end` on belong to the x32 ABI */
    uint32_t socket, io_uring_setup;
} abis[] = {{AUDIT_ARCH_X86_64, 0x40000000u, 41, 425}, {AUDIT_ARCH_AARCH64, UINT32_MAX, 198, 425}};

#define LOAD(member)                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define IF(value, then, otherwise)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), (otherwise))
#define IF_GE(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (then), (otherwise))
#define ANSWER(what)                  BPF_STMT(BPF_RET | BPF_K, (what))

static const struct abi *abi_of(uint32_t arch)
{
    for (size_t i = 0; i < sizeof(abis) / sizeof(abis[0]); i++)
        if (abis[i].arch == arch)
            return &abis[i];
    return NULL;
}

/* Offsets of jumps count from the next instruction. The address family of socket() is an int: the filter
 * compares the lower half of the argument, which comes first in memory because both ABIs are
 * little-endian. */
bool pl_no_network_filter(uint32_t arch, struct sock_filter ret[PL_NO_NETWORK_STEPS])
{
    const struct abi *abi = abi_of(arch);

    if (!abi)
        return false;
    memcpy(ret,
           (const struct sock_filter[PL_NO_NETWORK_STEPS]){
               LOAD(arch),                               /* step 0 */
               IF(abi->arch, 0, 8),                      /* step 1: for another ABI go to 10 */
               LOAD(nr),                                 /* step 2 */
               IF_GE(abi->end, 6, 0),                    /* step 3: for x32 go to 10 */
               IF(abi->io_uring_setup, 5, 0),            /* step 4: if equal go to 10 */
               IF(abi->socket, 0, 5),                    /* step 5: for any other call go to 11 */
               LOAD(args[0]),                            /* step 6 */
               IF(AF_UNIX, 3, 0),                        /* step 7: if equal go to 11 */
               IF(AF_NETLINK, 2, 0),                     /* step 8: if equal go to 11 */
               ANSWER(SECCOMP_RET_ERRNO | EAFNOSUPPORT), /* step 9 */
               ANSWER(SECCOMP_RET_ERRNO | ENOSYS),       /* step 10 */
               ANSWER(SECCOMP_RET_ALLOW),                /* step 11 */
           },
           PL_NO_NETWORK_STEPS * sizeof *ret);
    return true;
}

bool pl_no_network_works(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;

    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int pl_no_network_begin(void)
{
    struct sock_filter filter[PL_NO_NETWORK_STEPS];
    struct sock_fprog program = {PL_NO_NETWORK_STEPS, filter};

    if (!pl_no_network_filter(NATIVE, filter))
        return ENOSYS;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? errno : 0;
}
