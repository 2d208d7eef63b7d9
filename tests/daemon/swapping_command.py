"""A batch command that attacks: it keeps its folders open and puts links in the place of what is in them, without end, wherever the agent moves them."""

SCRIPT = '''#!/usr/bin/python3
import os, threading
import pl

TARGETS = %r
swaps = 0


def swap_on(folder, over):
    global swaps
    while not over.is_set():
        for name, to in zip(("inner", "f0", "f1"), TARGETS):
            try:
                os.rename(name, "away", src_dir_fd=folder, dst_dir_fd=folder)
                os.symlink(to, name, dir_fd=folder)
                os.unlink(name, dir_fd=folder)
            except OSError:
                pass
            try:
                os.rename("away", name, src_dir_fd=folder, dst_dir_fd=folder)
                swaps += 1
            except OSError:
                return


def fill(top):
    os.makedirs(top + "/inner")
    for i in range(60):
        for name in ("f%%d" %% i, "inner/f%%d" %% i):
            with open(top + "/" + name, "w") as f:
                f.write("own %%d" %% i)
    return os.open(top, os.O_RDONLY | os.O_DIRECTORY)


threads = []
for d in pl.datums():
    for over, thread in threads[:-4]:
        over.set()
        thread.join()
    threads = threads[-4:]
    for top in (d.out + "/" + d.id[:12], os.environ["PL_CHECKPOINT"] + "/kept"):
        over = threading.Event()
        threads.append((over, threading.Thread(target=swap_on, args=(fill(top), over), daemon=True)))
        threads[-1][1].start()
    print("swaps:", swaps, flush=True)
'''


def script(folder, *files):
    """The command, whose links lead to a folder and two files."""
    return SCRIPT % ((folder, *files),)
