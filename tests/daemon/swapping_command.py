"""A batch command that attacks: it keeps its folders open and puts links in the place of what is in them, without end, wherever the agent moves them.
It leaves the folders of one datum in four alone while the datum runs: these datums succeed beside the attack on the folders of the others."""
import inspect

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


%s

threads = []
for d in pl.datums():
    for over, thread in threads[:-4]:
        over.set()
        thread.join()
    threads = threads[-4:]
    for top in (d.out + "/" + d.id[:12], os.environ["PL_CHECKPOINT"] + "/kept"):
        over = threading.Event()
        folder = fill(top)
        if not left_alone(d.id):
            threads.append((over, threading.Thread(target=swap_on, args=(folder, over), daemon=True)))
            threads[-1][1].start()
        elif top.endswith("/kept"):
            os.system(%r)
    print("swaps:", swaps, flush=True)
'''


def left_alone(datum):
    """Whether the command leaves the folders of the datum with this ID alone."""
    return int(datum, 16) % 4 == 0


def script(folder, *files, wait="true"):
    """The command, whose links lead to a folder and two files. Datums that it leaves alone run a shell command, `wait`, before they end."""
    return SCRIPT % ((folder, *files), inspect.getsource(left_alone), wait)
