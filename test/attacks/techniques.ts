/** A way out of a container, which is really tried. */
export interface Technique {
  technique: string;
  /**
   * The body of a Python function that may use the functions of `attack.py`. It returns the outcome, or the kernel's
   * error.
   */
  attack: string;
  /** The expected outcome for the sandbox's root, and for a user if it differs. Several: it depends on the kernel. */
  root: string[];
  user?: string[];
}

const refused = ['EPERM'];
const readOnly = ['EROFS'];
const absent = ['ENOENT'];
const notKnown = ['ENOSYS'];
const noSuchSocket = ['EAFNOSUPPORT'];
const nothing = ['nothing'];
/** A user is refused by the file's mode, before the read-only mount is checked. */
const byMode = ['EACCES'];

/** Grouped by the folder of their target. */
export const techniques: Record<string, Technique[]> = {
  "the host's files": [
    { technique: 'open it by its path', attack: 'return open(parameters["canary"]).read()', root: absent },
    {
      technique: 'climb above the root',
      attack:
        'return found(door + "/.." * 40 + parameters["canary"] for door in ("", "/proc/1/root", "/proc/self/cwd"))',
      root: nothing,
    },
    {
      technique: 'a folder that the runtime left open (CVE-2024-21626)',
      attack: `found_here = found(door + parameters["canary"] for door in doors())
return found_here if found_here != "nothing" else found(door + "/.." * 40 + parameters["canary"] for door in doors())`,
      root: nothing,
    },
    {
      technique: 'chroot and climb out',
      attack: `os.makedirs("/tmp/jail", exist_ok=True)
here = os.open("/", os.O_RDONLY)
os.chroot("/tmp/jail"); os.fchdir(here)
for _ in range(64): os.chdir("..")
os.chroot(".")
return found([parameters["canary"]])`,
      root: nothing,
      user: refused,
    },
    { technique: 'pivot_root', attack: 'return call((155, 41), b"/tmp", b"/tmp")', root: refused },
    {
      technique: 'open_by_handle_at (shocker)',
      attack: `handle = ctypes.create_string_buffer(struct.pack("=IiQ", 8, 1, 2))
return call((304, 265), os.open("/", os.O_RDONLY), handle, 0)`,
      root: refused,
    },
    {
      technique: 'name_to_handle_at',
      attack: 'return call((303, 264), -100, b"/", b"x" * 200, b"y" * 8, 0)',
      root: refused,
    },
    {
      technique: "the host's memory file system",
      attack: 'return found(["/dev/shm" + parameters["memoryFile"]])',
      root: nothing,
    },
    {
      technique: 'the lower layers of its root',
      attack:
        'return found(base + parameters["canary"] for base in ("/mnt/lower", "/lower", "/mnt/disk", "/disk/upper"))',
      root: nothing,
    },
    {
      technique: 'files that other namespaces mount (/proc/<pid>/root)',
      attack: 'return found("/proc/%d/root%s" % (pid, parameters["canary"]) for pid in range(1, 40000))',
      root: nothing,
    },
  ],

  mounts: [
    ...['tmpfs', 'proc', 'sysfs', 'overlay', 'fuse', 'nfs', 'cgroup', 'cgroup2', 'ext4', 'binfmt_misc', 'debugfs'].map(
      (type) => ({
        technique: `mount ${type}`,
        attack: `return call((165, 40), b"none", b"/mnt", b"${type}", 0, b"")`,
        root: refused,
      }),
    ),
    { technique: 'bind a folder', attack: 'return call((165, 40), b"/etc", b"/mnt", b"", 0x1000, 0)', root: refused },
    {
      technique: 'remount /sys for writing',
      attack: 'return call((165, 40), b"", b"/sys", b"", 0x20, 0)',
      root: refused,
    },
    {
      technique: 'remount the agent for writing',
      attack: 'return call((165, 40), b"", b"/.platform", b"", 0x1020, 0)',
      root: refused,
    },
    { technique: 'uncover a masked file', attack: 'return call((166, 39), b"/proc/kcore", 2)', root: refused },
    { technique: 'fsopen', attack: 'return call(430, b"tmpfs", 0)', root: refused },
    { technique: 'open_tree with a clone', attack: 'return call(428, -100, b"/", 1)', root: refused },
    { technique: 'move_mount', attack: 'return call(429, -100, b"/dev", -100, b"/mnt", 0)', root: refused },
    { technique: 'mount_setattr', attack: 'return call(442, -100, b"/.platform", 0, b"x" * 32, 32)', root: refused },
  ],

  namespaces: [
    {
      technique: 'unshare any (overlay and nf_tables bugs begin so)',
      attack: 'return each(lambda kind=kind: call((272, 97), kind) for kind in EVERY_NAMESPACE)',
      root: refused,
    },
    {
      technique: 'clone with a user namespace',
      attack: 'return call((56, 220), CLONE_NEWUSER | 17, 0, 0, 0, 0)',
      root: notKnown,
    },
    {
      technique: 'clone with upper bits set',
      attack: 'return call((56, 220), (1 << 40) | CLONE_NEWUSER | 17, 0, 0, 0, 0)',
      root: notKnown,
    },
    { technique: 'clone3', attack: 'return call(435, b"x" * 64, 64)', root: notKnown },
    {
      technique: 'setns to those of init',
      attack:
        'return each(lambda name=name: call((308, 268), os.open("/proc/1/ns/" + name, os.O_RDONLY), 0) for name in os.listdir("/proc/self/ns"))',
      root: refused,
      user: ['EACCES', 'EACCES EPERM'],
    },
    {
      technique: 'setns by a pidfd',
      attack: 'return call((308, 268), os.pidfd_open(os.getpid()), CLONE_NEWUSER)',
      root: refused,
    },
    {
      technique: 'other ids for its user namespace',
      attack: 'return write("/proc/self/uid_map", "0 0 4294967295")',
      root: refused,
    },
    {
      technique: 'offsets of a time namespace',
      attack: 'return write("/proc/self/timens_offsets", "1 1 0")',
      root: ['EPERM', 'EACCES', 'ENOENT'],
    },
    {
      technique: "an id beyond its own, the host's root among them",
      attack:
        'return each(lambda uid=uid: os.setresuid(uid, uid, uid) for uid in (65536, 2**31, parameters["uidBase"]))',
      root: ['EINVAL'],
      user: ['EINVAL', 'EPERM'],
    },
    {
      technique: 'chown to an id beyond its own',
      attack:
        'mine = "/tmp/mine-%d" % os.getuid(); open(mine, "w"); return each(lambda uid=uid: os.chown(mine, uid, uid) for uid in (65536, parameters["uidBase"]))',
      root: ['EINVAL'],
      user: ['EINVAL', 'EPERM'],
    },
  ],

  devices: [
    {
      technique: 'make them: memory, kvm, loop, fuse, disks',
      attack: `made = "/tmp/made-%d" % os.getuid()
os.makedirs(made, exist_ok=True)
kinds = [(stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 11), (stat.S_IFCHR, 10, 232), (stat.S_IFCHR, 10, 237), (stat.S_IFCHR, 10, 229), (stat.S_IFBLK, 7, 0), (stat.S_IFBLK, 8, 0), (stat.S_IFBLK, 254, 0)]
return each(lambda kind=kind, folder=folder: os.mknod("%s/%d-%d" % (folder, kind[1], kind[2]), kind[0] | 0o666, os.makedev(*kind[1:])) for kind in kinds for folder in (made, "/dev/shm"))`,
      root: refused,
    },
    {
      technique: 'find one that is there',
      attack: `harmless = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}
seen = []
for folder, _, names in os.walk("/dev"):
  for name in names:
    try: about = os.stat(folder + "/" + name)
    except OSError: continue
    if stat.S_ISBLK(about.st_mode) or stat.S_ISCHR(about.st_mode):
      number = (os.major(about.st_rdev), os.minor(about.st_rdev))
      if number not in harmless and number[0] != 136: seen.append(folder + "/" + name)
return " ".join(seen) or "nothing"`,
      root: nothing,
    },
    {
      technique: 'open the famous ones',
      attack: `names = "mem kmem port kvm fuse kmsg net/tun loop-control loop0 sda vda mapper/control vhost-vsock vhost-net userfaultfd hpet nvram uinput vfio/vfio dri/card0".split()
return each(lambda name=name: os.open("/dev/" + name, os.O_RDWR) for name in names)`,
      root: absent,
    },
    {
      technique: 'change the mode of a shared one',
      attack: 'return each(lambda name=name: os.chmod("/dev/" + name, 0o600) for name in ("null", "zero", "urandom"))',
      root: ['EPERM', 'EROFS'],
    },
    {
      technique: 'ports of the machine (iopl, ioperm)',
      attack: 'return each([lambda: call((172, -1), 3), lambda: call((173, -1), 0x60, 8, 1)])',
      root: ['EPERM', 'ENOSYS'],
    },
    {
      technique: 'type into a terminal that is not its own',
      attack: 'return fcntl.ioctl(os.open("/dev/console", os.O_RDWR), 0x5412, b"x")',
      root: ['ENOENT', 'ENXIO', 'EIO'],
      user: ['ENOENT', 'EACCES', 'ENXIO'],
    },
  ],

  'kernel settings': [
    {
      technique: 'core_pattern, modprobe, and other programs of the kernel',
      attack:
        'return each(lambda name=name: write_back("/proc/sys/kernel/" + name) for name in ("core_pattern", "modprobe", "hotplug", "poweroff_cmd") if os.path.exists("/proc/sys/kernel/" + name))',
      root: readOnly,
      user: ['EROFS', 'EACCES', 'EACCES EROFS'],
    },
    {
      technique: 'any file of /proc/sys',
      attack: `tries = []
for folder, _, names in os.walk("/proc/sys"):
  for name in names:
    tries.append(lambda path=folder + "/" + name: os.close(os.open(path, os.O_WRONLY)) or path)
return each(tries)`,
      root: ['EROFS', 'EACCES EROFS'],
      user: ['EROFS', 'EACCES EROFS', 'EACCES'],
    },
    {
      technique: 'any file of /sys',
      attack: `tries = []
for folder, _, names in os.walk("/sys"):
  for name in names:
    if not os.path.islink(folder + "/" + name): tries.append(lambda path=folder + "/" + name: os.close(os.open(path, os.O_WRONLY)) or path)
return each(tries[:20000])`,
      root: ['EROFS', 'EACCES EROFS'],
      user: ['EROFS', 'EACCES EROFS', 'EACCES'],
    },
    {
      technique: 'any writable file of /proc that is not of a process',
      attack: `opened = []
for name in os.listdir("/proc"):
  if name.isdigit() or name in ("self", "thread-self", "sys", "net"): continue  # its own network's counters
  for folder, _, names in os.walk("/proc/" + name):
    for each_name in names:
      path = folder + "/" + each_name
      try: os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW))
      except OSError: continue
      if os.stat(path).st_rdev != os.makedev(1, 3): opened.append(path)
return " ".join(opened) or "nothing"`,
      root: nothing,
    },
    {
      technique: 'sysrq',
      attack: 'return write("/proc/sysrq-trigger", "h")',
      root: ['EROFS', 'EACCES', 'ENOENT'],
      user: ['EACCES', 'ENOENT'],
    },
    {
      technique: 'uevent_helper',
      attack: 'return write("/sys/kernel/uevent_helper", "")',
      root: ['ENOENT', 'EROFS'],
      user: ['ENOENT', 'EACCES', 'EROFS'],
    },
    {
      technique: 'a format of programs (binfmt_misc)',
      attack: 'return write("/proc/sys/fs/binfmt_misc/register", "")',
      root: ['ENOENT', 'EROFS'],
      user: ['ENOENT', 'EACCES', 'EROFS'],
    },
    {
      technique: 'name of the machine',
      attack: 'return each([lambda: call((170, 161), b"x", 1), lambda: call((171, 162), b"x", 1)])',
      root: refused,
    },
    {
      technique: 'the clock',
      attack:
        'return each([lambda: call((227, 112), 0, b"x" * 16), lambda: call((164, 170), b"x" * 16, 0), lambda: call((305, 266), 0, struct.pack("=I", 1) + bytes(300))])',
      root: refused,
    },
    { technique: 'adjtimex', attack: 'return call((159, 171), struct.pack("=I", 1) + bytes(300))', root: refused },
    {
      technique: 'reboot, kexec, swap, accounting, quotas',
      attack:
        'return each([lambda: call((169, 142), 0, 0, 0, 0), lambda: call((246, 104), 0, 0, 0, 0), lambda: call((167, 224), b"/x", 0), lambda: call((163, 89), b"/tmp/x"), lambda: call((179, 60), 0, b"/x", 0, 0)])',
      root: refused,
    },
    {
      technique: "the kernel's log",
      attack: 'return each([lambda: call((103, 116), 2, b"x" * 100, 100), lambda: os.open("/proc/kmsg", os.O_RDONLY)])',
      root: ['EPERM', 'EACCES EPERM'],
      user: ['EPERM', 'EACCES EPERM'],
    },
    {
      technique: 'addresses and memory of the kernel',
      attack: `size = 0
for path in ("/proc/kcore", "/proc/kallsyms", "/proc/modules", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/kpagecount", "/proc/vmallocinfo", "/proc/slabinfo"):
  try: size += len(os.read(os.open(path, os.O_RDONLY), 100))
  except OSError: pass
return "nothing" if size == 0 else "%d bytes" % size`,
      root: nothing,
    },
  ],

  modules: [
    { technique: 'load from memory', attack: 'return call((175, 105), b"x", 1, b"")', root: refused },
    {
      technique: 'load from a file',
      attack: 'return call((313, 273), os.open("/bin/sh", os.O_RDONLY), b"", 0)',
      root: refused,
    },
    { technique: 'unload', attack: 'return call((176, 106), b"loop", 0)', root: refused },
  ],

  'control groups': [
    {
      technique: 'release_agent (CVE-2022-0492)',
      attack:
        'return each(lambda path=path: write(path, "/bin/true") for path in ["/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/release_agent", "/sys/fs/cgroup/systemd/release_agent"])',
      root: ['ENOENT', 'EROFS', 'EACCES', 'ENOENT EROFS', 'EACCES ENOENT'],
    },
    {
      technique: 'its own limits',
      attack: `names = "memory/memory.limit_in_bytes pids/pids.max cpu/cpu.cfs_quota_us cpu,cpuacct/cpu.cfs_quota_us devices/devices.allow memory.max pids.max cpu.max cgroup.procs cgroup.freeze freezer/freezer.state".split()
return each(lambda path=path: write(path, "max") for path in ("/sys/fs/cgroup/" + name for name in names) if os.path.exists(path))`,
      root: readOnly,
      user: ['EROFS', 'EACCES', 'EACCES EROFS'],
    },
    {
      technique: 'a group of its own',
      attack:
        'return each(lambda folder=folder: os.mkdir(folder + "mine") for folder in glob.glob("/sys/fs/cgroup/*/") or ["/sys/fs/cgroup/"])',
      root: readOnly,
      user: ['EROFS', 'EACCES', 'EACCES EROFS'],
    },
    {
      technique: 'more than its limits allow',
      attack: `import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
return each([lambda: call((302, 261), 0, 7, struct.pack("=QQ", hard + 1, hard + 1), 0), lambda: os.setpriority(os.PRIO_PROCESS, 0, -5), lambda: write("/proc/self/oom_score_adj", "-1000"), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))])`,
      root: ['EACCES EPERM'],
    },
  ],

  'ways into the kernel': [
    {
      technique: 'bpf',
      attack: 'return each(lambda kind=kind: call((321, 280), kind, b"x" * 120, 120) for kind in (0, 5, 6, 18))',
      root: refused,
    },
    {
      technique: 'keyctl, add_key, request_key',
      attack:
        'return each([lambda: call((250, 219), 0, -3, 1), lambda: call((248, 217), b"user", b"a", b"b", 1, -3), lambda: call((249, 218), b"user", b"a", 0, -3)])',
      root: refused,
    },
    { technique: 'userfaultfd', attack: 'return call((323, 282), 0)', root: refused },
    { technique: 'perf_event_open', attack: 'return call((298, 241), b"x" * 128, 0, -1, -1, 0)', root: refused },
    {
      technique: 'io_uring',
      attack:
        'return each([lambda: call(425, 1, b"x" * 120), lambda: call(426, 0, 1, 0, 0, 0), lambda: call(427, 0, 0, 0, 0)])',
      root: refused,
    },
    {
      technique: 'the old asynchronous I/O, whose number all share',
      attack: 'return call((206, 0), 65536, ctypes.byref(ctypes.c_ulong(0)))',
      root: notKnown,
    },
    {
      technique: 'longer turns on the processor than others have',
      attack: 'return call((314, 274), 0, struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, 100000000, 0, 0), 0)',
      root: notKnown,
    },
    { technique: 'fanotify', attack: 'return call((300, 262), 0, 0)', root: refused },
    { technique: 'modify_ldt', attack: 'return call((154, -1), 0, b"x" * 16, 16)', root: ['EPERM', 'ENOSYS'] },
    {
      technique: 'a personality without address randomness',
      attack: 'return call((135, 92), 0x0040000)',
      root: ['ENOSYS', 'EPERM'],
    },
    {
      technique: 'memory of processes elsewhere (migrate_pages, move_pages, mbind)',
      attack:
        'return each([lambda: call((256, 238), 1, 1, b"x" * 8, b"y" * 8), lambda: call((279, 239), 1, 0, 0, 0, 0, 0), lambda: call((237, 235), 0, 0, 0, 0, 0, 0)])',
      root: refused,
    },
    {
      technique: 'a descriptor of another process (pidfd_getfd)',
      attack: 'return call(438, os.pidfd_open(os.getpid()), 0, 0)',
      root: refused,
    },
    { technique: 'kcmp', attack: 'return call((312, 272), 1, 1, 0, 0, 0)', root: refused },
    {
      technique: 'system calls that are newer than the list',
      attack: 'return each(lambda number=number: call(number, 0, 0, 0, 0, 0, 0) for number in range(470, 600))',
      root: notKnown,
    },
    {
      technique: 'system calls of 32 bits (int 0x80)',
      attack: 'return machine_code(bytes.fromhex("b814000000cd80c3")) if x86 else "killed by 31"',
      root: ['killed by 31'],
    },
    {
      technique: 'system calls of the x32 interface',
      attack: 'return call(0x40000000 + 39) if x86 else "killed by 31"',
      root: ['killed by 31', 'ENOSYS', 'EPERM'],
    },
    { technique: 'take its filter off', attack: 'call((157, 167), 22, 0, 0, 0, 0)', root: ['EINVAL', 'EFAULT'] },
  ],

  privileges: [
    { technique: 'the most it can ever have', attack: 'return status("CapBnd")', root: ['00000000a00405fb'] },
    {
      technique: 'what it has, and what its programs inherit',
      attack: 'return " ".join(status(name) for name in ("CapEff", "CapInh", "CapAmb"))',
      root: ['00000000a00405fb 0000000000000000 0000000000000000'],
      user: ['0000000000000000 0000000000000000 0000000000000000'],
    },
    {
      technique: 'more by capset',
      attack:
        'return call((126, 91), struct.pack("=II", 0x20080522, 0), struct.pack("=6I", 2**32 - 1, 2**32 - 1, 2**32 - 1, 511, 511, 511))',
      root: refused,
    },
    {
      technique: 'more by capabilities of a file',
      attack: `import shutil
shutil.copy("/bin/true", "/var/tmp/capable-%d" % os.getuid())
os.setxattr("/var/tmp/capable-%d" % os.getuid(), "security.capability", struct.pack("<5I", 0x02000001, 1 << 21, 0, 0, 0))
os.execv("/var/tmp/capable-%d" % os.getuid(), ["capable"])`,
      root: refused,
    },
    {
      technique: 'more by a program that is setuid',
      attack:
        'return subprocess.run(["sudo", "-n", "grep", "-hE", "^(CapEff|Seccomp):", "/proc/self/status"], capture_output=True, text=True).stdout.replace("\\t", " ").strip().replace("\\n", " ")',
      root: ['CapEff: 00000000a00405fb Seccomp: 2'],
    },
    { technique: 'an ambient capability it lacks', attack: 'return call((157, 167), 47, 2, 21, 0, 0)', root: refused },
  ],

  'the agent and the runtime': [
    {
      technique: 'overwrite them',
      attack:
        'return each(lambda path=path: os.open(path, os.O_WRONLY) for path in glob.glob("/.platform/*/*") if os.path.isfile(path))',
      root: ['EACCES', 'EROFS', 'EROFS ETXTBSY'],
      user: ['EROFS', 'EACCES', 'EACCES EROFS'],
    },
    {
      technique: 'replace them',
      attack:
        'return each([lambda: os.rename("/.platform/bin/node", "/tmp/node"), lambda: os.unlink("/.platform/agent/agent.cjs"), lambda: os.link("/.platform/bin/node", "/.platform/bin/x"), lambda: os.rename("/.platform", "/platform"), lambda: os.rmdir("/.platform")])',
      root: ['EBUSY EROFS', 'EBUSY EROFS EXDEV'],
      user: [
        'EBUSY EROFS EXDEV',
        'EACCES EROFS EXDEV',
        'EACCES EROFS',
        'EACCES EBUSY EROFS EXDEV',
        'EACCES EBUSY EROFS',
        'EACCES',
      ],
    },
    {
      technique: "overwrite the runtime by a process's own program (CVE-2019-5736)",
      attack: 'return each(lambda pid=pid: os.open("/proc/%s/exe" % pid, os.O_WRONLY) for pid in (1, agent()))',
      root: ['EACCES', 'EROFS', 'ETXTBSY'],
      user: byMode,
    },
    {
      technique: 'write through the page cache (dirty pipe)',
      attack: `path = "/.platform/agent/agent.cjs"
before = open(path, "rb").read(64)
source = os.open(path, os.O_RDONLY)
read, write_end = os.pipe()
fcntl.fcntl(write_end, 1031, 1 << 16)
for _ in range(16): os.write(write_end, b"a" * 4096)
for _ in range(16): os.read(read, 4096)
offset = ctypes.c_longlong(1)
libc.splice(source, ctypes.byref(offset), write_end, None, 1, 0)
os.write(write_end, b"overwritten")
return "unchanged" if open(path, "rb").read(64) == before else "overwritten"`,
      root: ['unchanged'],
    },
    {
      technique: 'write through a private mapping (dirty cow)',
      attack: `path = "/.platform/agent/agent.cjs"
before = open(path, "rb").read(64)
mapping = libc.mmap
mapping.restype = ctypes.c_void_p
address = mapping(None, ctypes.c_size_t(4096), 1, 2, os.open(path, os.O_RDONLY), ctypes.c_long(0))
memory = os.open("/proc/self/mem", os.O_RDWR)
os.pwrite(memory, b"overwritten", address)
return "unchanged" if open(path, "rb").read(64) == before else "overwritten"`,
      root: ['unchanged'],
    },
    {
      technique: 'a shared mapping for writing',
      attack:
        'return mmap.mmap(os.open("/.platform/agent/agent.cjs", os.O_RDONLY), 10, mmap.MAP_SHARED, mmap.PROT_WRITE)',
      root: byMode,
    },
    {
      technique: 'processes of the host by number',
      attack:
        'return each([lambda: os.kill(parameters["hostPid"], 0), lambda: os.pidfd_open(parameters["hostPid"]), lambda: call((101, 117), 16, parameters["hostPid"], 0, 0), lambda: os.open("/proc/%d/mem" % parameters["hostPid"], os.O_RDONLY)])',
      root: ['ENOENT ESRCH'],
    },
  ],

  'the network beneath it': [
    ...(
      [
        ['packets of its own making (AF_PACKET)', 17],
        ['the hypervisor (AF_VSOCK)', 40],
        ["the kernel's ciphers (AF_ALG)", 38],
        ['AF_XDP', 44],
        ['AF_CAN', 29],
        ['AF_TIPC', 30],
        ['AF_BLUETOOTH', 31],
        ['AF_KEY', 15],
        ['AF_RDS', 21],
        ['AF_SMC', 43],
        ['AF_APPLETALK', 5],
      ] as const
    ).map(([technique, family]) => ({
      technique,
      attack: `return each(lambda kind=kind: call((41, 198), ${family}, kind, 0) for kind in (1, 2, 3, 5))`,
      root: noSuchSocket,
    })),
    {
      technique: 'a family with upper bits set',
      attack: 'return call((41, 198), (1 << 32) | 17, 3, 0)',
      root: [...noSuchSocket, ...notKnown],
    },
    {
      technique: 'raw packets of IP and ICMP',
      attack:
        'return each(lambda protocol=protocol, family=family: socket.socket(family, socket.SOCK_RAW, protocol) for protocol in (1, 6, 17, 255) for family in (socket.AF_INET, socket.AF_INET6))',
      root: ['EPERM', 'EAFNOSUPPORT EPERM'],
    },
    {
      technique: 'another address',
      attack:
        'return netlink(0, 20, struct.pack("=BBBBI", 2, 8, 0, 0, socket.if_nametoindex("eth0")) + attribute(2, bytes([10, 0, 0, 1])))',
      root: refused,
    },
    {
      technique: 'another route',
      attack:
        'return netlink(0, 24, struct.pack("=8BI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + attribute(4, struct.pack("=I", socket.if_nametoindex("eth0"))))',
      root: refused,
    },
    {
      technique: "a neighbour's hardware address (ARP spoofing)",
      attack:
        'return netlink(0, 28, struct.pack("=BBHiHBB", 2, 0, 0, socket.if_nametoindex("eth0"), 0x80, 0, 1) + attribute(1, bytes([10, 0, 0, 1])) + attribute(2, bytes(6)))',
      root: refused,
    },
    {
      technique: 'another link',
      attack: 'return netlink(0, 16, struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0) + attribute(3, b"dummy0"))',
      root: refused,
    },
    {
      technique: 'the firewall (nf_tables)',
      attack: 'return netlink(12, (10 << 8) | 0, struct.pack("=BBH", 2, 0, 0) + attribute(1, b"mine"))',
      root: [...refused, 'EPROTONOSUPPORT'],
    },
    {
      technique: 'IPsec, audit and the other families of netlink',
      attack:
        'return each([lambda: netlink(6, 0x10, bytes(64)), lambda: netlink(9, 1000, bytes(40)), lambda: netlink(21, 0x10, bytes(64))])',
      root: [
        'EPERM',
        'EPERM EPROTONOSUPPORT',
        'ECONNREFUSED EPERM',
        'ECONNREFUSED EPROTONOSUPPORT',
        'ECONNREFUSED EPERM EPROTONOSUPPORT',
        'EPROTONOSUPPORT',
      ],
    },
    {
      technique: 'a foreign source address (IP_TRANSPARENT, SO_MARK, TCP_REPAIR)',
      attack: `s = socket.socket()
return each([lambda: s.setsockopt(0, 19, 1), lambda: s.setsockopt(1, 36, 1), lambda: s.setsockopt(6, 19, 1)])`,
      root: refused,
    },
    {
      technique: 'bind to an address of the host',
      attack:
        'return each(lambda address=address: socket.socket().bind((address, 0)) for address in parameters["hostAddresses"])',
      root: ['EADDRNOTAVAIL'],
    },
    {
      technique: 'an abstract socket of the host',
      attack: 'return socket.socket(socket.AF_UNIX).connect("\\0" + parameters["abstractSocket"])',
      root: ['ECONNREFUSED'],
    },
    {
      technique: 'sockets of services in the file system',
      attack:
        'return each(lambda path=path: socket.socket(socket.AF_UNIX).connect(path) for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/systemd/private", "/run/dbus/system_bus_socket"))',
      root: absent,
    },
    {
      technique: "a port of the host's loopback",
      attack: 'return socket.create_connection(("127.0.0.1", parameters["hostPort"]), 2)',
      root: ['ECONNREFUSED'],
    },
    {
      technique: 'IPv6 switched on',
      attack: 'return write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "0")',
      root: ['EROFS', 'ENOENT'],
      user: ['EROFS', 'ENOENT', 'EACCES'],
    },
  ],
};

/** Techniques against which only users are protected: the sandbox's root is the same as the agent. */
export const onlyForUsers: Technique[] = [
  { technique: 'kill the agent', attack: 'return os.kill(agent(), 9)', root: refused },
  { technique: 'kill init', attack: 'return os.kill(1, 9)', root: refused },
  { technique: 'debug the agent', attack: 'return call((101, 117), 16, agent(), 0, 0)', root: refused },
  {
    technique: 'read memory of the agent',
    attack:
      'return each([lambda: os.open("/proc/%d/mem" % agent(), os.O_RDONLY), lambda: call((310, 270), agent(), b"x" * 16, 1, b"y" * 16, 1, 0)])',
    root: ['EACCES EPERM', 'EACCES EFAULT'],
  },
  {
    technique: 'its environment, its files, where it stands',
    attack:
      'return each([lambda: open("/proc/%d/environ" % agent()).read(), lambda: os.listdir("/proc/%d/fd" % agent()), lambda: os.readlink("/proc/%d/cwd" % agent())])',
    root: ['EACCES'],
  },
  {
    technique: "root's files",
    attack:
      'return each([lambda: open("/etc/shadow").read(), lambda: os.listdir("/root"), lambda: open("/etc/passwd", "a"), lambda: os.listdir("/proc/1/task/1/fd")])',
    root: ['EACCES'],
  },
];
