#!/usr/bin/perl
# The parent process of one sandbox. It builds the sandbox's file system in its own mount namespace, makes the container
# there with the container runtime, sets up its network, waits for its end and records the exit. Its mounts disappear
# when it and the container have ended for any reason, so none can leak.
#
# The container's first process only waits and reaps. The agent is a second process that the runtime starts in the
# container. So when the agent ends, everything else in the sandbox continues, and the agent can be restarted.
#
# It is started in the sandbox's folder with `key=value` arguments that are not secret (launch.ts). The agent's boot
# document is passed through on standard input, unread. Standard output has a line for each completed step, or `error
# <step> <text>`. SIGTERM ends the sandbox. Each connection to the socket `agent.sock` restarts the agent if it has
# ended. The connection becomes the agent's standard input, so its boot document is also passed through unread.
#
# It is written in Perl, because every Debian has Perl, Perl starts in 3 ms, and it can make system calls.
use strict;
use warnings;
use Errno;
use Fcntl qw(:flock :seek O_RDONLY O_RDWR O_WRONLY O_CREAT O_APPEND O_NOFOLLOW O_NONBLOCK);

my %arg = map { split /=/, $_, 2 } @ARGV;
my $staging = '/mnt';
my ($rdonly, $nosuid, $nodev, $noexec, $private) = (1, 2, 4, 8, 1 << 18);
my ($at_fdcwd, $cloexec, $tail_bytes, $slice_ns, $starter_seconds) = (-100, 02000000, 8192, 200_000, 30);
# The SELinux context of every file that the sandbox sees. It replaces the contexts that the files have on the host.
my @context = $arg{filesContext} ? (context => $arg{filesContext}) : ();
my ($folder) = $0 =~ m{^(.*)/};
require "$folder/$_" for qw(../mounts/kernel.pl file-systems.pl);
Kernel::use_processor($arg{arch});

my ($child, $init, $init_status, $stopping, $disk, $upper_disk, @loop_names, $fresh, $staged);
# The runtime while it starts the agent, the time since then, the agent, its log, its socket; and handles that become
# readable when a process ends.
my ($starter, $starter_since, $agent, $agent_log, $agent_socket, $init_end, $starter_end, $agent_end);
my $step = 'begin';
$SIG{PIPE} = $SIG{HUP} = $SIG{INT} = 'IGNORE';
$SIG{TERM} = sub { $stopping = 1; kill 'KILL', grep { $_ } $child, $starter, $init; lift_disk_rates(); thaw() };

open my $report, '>&', \*STDOUT or die $!;
open STDOUT, '>&', \*STDERR or die $!;

if (!eval { start(); 1 }) {
    my $reason = $@ =~ s/\s+/ /gr;
    warn "$step: $reason\n";
    kill_container();
    close_container();
    syswrite $report, "error $step $reason\n";
    exit 1;
}
close $report;
if ($fresh) { ioctl $disk, 0x4C08, 1 or warn "direct I/O: $!\n" }
join_cgroups($arg{shimCgroups});
until (defined $init_status) {
    # A failure here, such as a full disk, must not end the sandbox. The host worker asks again.
    if (!eval { serve(); 1 }) { warn $@; pause(0.1) }
}
kill_container();
close_container();

sub start {
    # So that init becomes a child of this process.
    Kernel::call('prctl', 36, 1, 0, 0, 0);
    record_pids();
    # Reserves space for the record, so that it can be written even if the disk is full at the end.
    write_file('exit.new', exit_text(0, 0));
    listen_for_starts();
    done('disk') if begin('disk') && mount_disk();
    done('root') if begin('root') && mount_root();
    begin_time();
    done('container') if begin('container') && run_container();
    open my $document, '<&', \*STDIN and open STDIN, '<', '/dev/null' or die $!;
    start_agent($document);
    # The agent prepares itself meanwhile. It does nothing else before it has its boot document.
    done('network') if begin('network') && connect_network();
    done('start') if begin('start') && await_agent();
}

sub begin { $step = shift; die "stopped\n" if $stopping; return 1 }
sub done { syswrite $report, "@_\n" }

# For processes that are started from now on, the machine's uptime begins here: in `uptime`, and in the ages of
# processes.
sub begin_time {
    my $offsets = '/proc/self/timens_offsets';
    my ($uptime) = read_file('/proc/uptime') =~ /^(\d+)/ or die "no uptime\n";
    # If the kernel lacks time namespaces, or the host may not make them, the sandbox sees the host's time.
    return if Kernel::attempt('unshare', 0x80) != 0;
    write_file($offsets, "boottime -$uptime 0\n");
}

# Disk, root and the other mounts.

sub mount_disk {
    if (!-e 'disk.ext4') { copy_sparse($arg{blank}, 'disk.ext4'); $fresh = 1 }
    sysopen $disk, 'disk.ext4', O_RDWR | O_NOFOLLOW or die "open: $!";
    # The loop device keeps this file open, and with it the lock, so a disk is never mounted twice.
    my $tries = 0;
    until (flock $disk, LOCK_EX | LOCK_NB) { die "in use\n" if ++$tries > 300; pause(0.01) }
    repair_disk();
    Kernel::call('unshare', 0x20000);
    Kernel::call('mount_setattr', $at_fdcwd, '/', 0x8000, pack('Q4', 0, 0, $private, 0), 32);
    ($disk, $loop_names[0]) = attach_loop($disk, $arg{id}, !$fresh);
    # The kernel queues requests that exceed the rates of a device without an end: direct reads of many threads would
    # fill the host's memory, and could not be ended for minutes. A loop device takes 128 requests at once, and processes
    # wait before further ones. So the limits are on the lower of two devices.
    ($upper_disk, $loop_names[1]) = attach_loop($disk, $arg{id}, 1) if $arg{limitsRates};
    my $loop = "/dev/$loop_names[-1]";
    my $ids = shifted_ids();
    # Opened before $staging is covered, because they may be below it.
    my $image = open_tree($arg{image}, $rdonly | $nodev, $ids);
    my $platform = open_tree($arg{platform}, $rdonly | $nosuid | $nodev);
    attach(new_fs('tmpfs', $nosuid | $nodev, source => 'sandbox', nr_blocks => '256', mode => '0755', @context), $staging);
    $staged = 1;
    for my $folder (qw(lower disk root tail platform-files empty platform run dev own)) { mkdir "$staging/$folder" or die "$folder: $!" }
    attach($image, "$staging/lower");
    attach($platform, "$staging/platform-files");
    attach(new_fs('ext4', $nodev, source => $loop, errors => 'remount-ro', discard => undef), "$staging/disk");
    for my $folder ('upper', 'work') { mkdir "$staging/disk/$folder" or $!{EEXIST} or die "$folder: $!" }
    attach(open_tree("$staging/disk", 0, $ids), "$staging/disk");
    return 1;
}

sub mount_root {
    opendir my $home, '.' or die $!;
    chdir $staging or die $!;    # the sandbox reads these names in /proc/mounts, so they are relative
    my @layers = (lowerdir => 'lower', upperdir => 'disk/upper', workdir => 'disk/work');
    my @distrust = (redirect_dir => 'nofollow', metacopy => 'off');    # of marks that an image may carry
    my $overlay = new_fs('overlay', $nodev, source => 'sandbox', @layers, @distrust, @context);
    # An overlay gives each sandbox its own inodes, so locks and watches do not affect other sandboxes, and keeps one
    # copy in memory. It needs two layers. It shows the free space of the first layer, which must not be the host's.
    my @read_only = (source => 'platform', lowerdir => 'empty:platform-files', redirect_dir => 'nofollow');
    my $platform = new_fs('overlay', $rdonly | $nosuid | $nodev, @read_only, @context);
    chdir $home or die $!;
    attach($overlay, "$staging/root");
    attach($platform, "$staging/platform");
    my @owner = (uid => $arg{uidBase}, gid => $arg{uidBase});
    my @size = (nr_blocks => '16', nr_inodes => '32', mode => '0755');
    attach(new_fs('tmpfs', $nosuid | $nodev | $noexec, source => 'platform', @size, @owner, @context), "$staging/tail");
    for my $name ('agent.log', map { /^file:(.+)/ ? $1 : () } keys %arg) {
        write_file("$staging/tail/$name", $arg{"file:$name"} // '');
        chown $arg{uidBase}, $arg{uidBase}, "$staging/tail/$name" or die "$name: $!";
    }
    # Opened before any process runs inside, because the sandbox may later replace it with a link.
    sysopen $agent_log, "$staging/tail/agent.log", O_WRONLY | O_APPEND | O_NOFOLLOW or die "agent.log: $!";
    make_devices("$staging/dev", $arg{uidBase}, @context);
    my @few = (nr_blocks => '256', nr_inodes => '32', mode => '0755');
    attach(new_fs('tmpfs', $nosuid | $nodev | $noexec, source => 'platform', @few, @context), "$staging/own");
    mkdir "$staging/own/folder" or die $!;
    write_file("$staging/own/$_", $arg{"own:$_"}) for map { /^own:(.+)/ ? $1 : () } keys %arg;
    write_file("$staging/$_", read_file($_)) for 'config.json', 'agent.json';
    write_file("$staging/user", '');
    my $user = user_namespace($arg{userOwner}, "0 $arg{uidBase} 65536\n");
    attach(Kernel::handle('open_tree', fileno $user, '', 0x1001 | $cloexec), "$staging/user");
    join_cgroups($arg{hiddenCgroups});
    if ($arg{hide}) {
        # crun makes groups below the folder all the same, so it gets one of its own.
        mkdir "$staging/hidden" or die $!;
        attach(open_tree("$staging/hidden", 0), $arg{hide});
    }
    return 1;
}

# A user namespace that maps the sandbox's ids to its own range. 65536 is the host's root, which owns the folders that
# overlayfs makes.
sub shifted_ids { return user_namespace(0, "0 $arg{uidBase} 65536\n65536 0 1\n") }

# The journal repairs the damage of a power cut. Errors that the kernel has recorded need the checker.
sub repair_disk {
    sysseek $disk, 1024 + 58, SEEK_SET or die $!;
    sysread($disk, my $state, 2) == 2 or die "no file system\n";
    return unless unpack('S', $state) & 2;
    my $code = run({ any => 1 }, 'e2fsck', '-p', 'disk.ext4') >> 8;
    die "e2fsck gave up ($code)\n" if $code & ~3;
}

# Container and network.

sub runtime_words { return ('--root', "$staging/run", '--log', "$staging/run.log") }

sub run_container {
    my @words = ('run', '--detach', '--bundle', $staging, '--pid-file', "$staging/init.pid", $arg{id});
    if (!eval { run({ inside => 1 }, $arg{runtime}, runtime_words(), @words) }) { die $@ . runtime_log() }
    ($init) = read_file("$staging/init.pid") =~ /(\d+)/ or die "no process id\n";
    $init_end = end_of($init);
    record_pids();
    bind_own_paths(split /,/, $arg{bind}) if $arg{bind};
    return 1;
}

# Binds the sandbox's own files and folders, given as `name:destination`, where the runtime refuses to bind them. No
# process of the sandbox runs yet.
sub bind_own_paths {
    my %tree = map { /(.+?):(.+)/ ? ($2 => open_tree("$staging/own/$1", $rdonly | $nosuid | $nodev | $noexec)) : () } @_;
    open my $mounts, '<', "/proc/$init/ns/mnt" or die "mount namespace: $!";
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        my $done = eval {
            Kernel::enter_mounts($mounts);
            attach($tree{$_}, $_) for keys %tree;
            1;
        };
        warn $@ if !$done;
        exit($done ? 0 : 1);
    }
    waitpid $pid, 0;
    die "own paths are not bound\n" if $?;
}

sub runtime_log { return -e "$staging/run.log" ? substr read_file("$staging/run.log"), -1000 : '' }

# The agent.

sub listen_for_starts {
    my ($local, $stream) = (1, 1);
    unlink 'agent.sock';
    socket $agent_socket, $local, $stream, 0 or die "socket: $!";
    bind $agent_socket, pack 'S a108', $local, 'agent.sock' or die "bind: $!";
    listen $agent_socket, 1 or die "listen: $!";
}

# Starts the agent with the runtime and with its boot document as standard input. It does not wait, because in a control
# group that was frozen meanwhile the runtime would not end before the thaw.
sub start_agent {
    my $document = shift;
    unlink "$staging/agent.pid";
    my @words = ('exec', '--detach', '--process', "$staging/agent.json", '--pid-file', "$staging/agent.pid", $arg{id});
    $starter = fork // die "fork: $!";
    if (!$starter) {
        eval { exec_inside($document, $arg{runtime}, runtime_words(), @words) };
        warn "start the agent: $@\n";
        kill 'KILL', $$;
    }
    $starter_since = time;
    $starter_end = end_of($starter);
}

sub await_agent {
    while ($starter) { reap(waitpid -1, 0) }
    die "stopped\n" if $stopping;
    die "the agent was not started\n" . runtime_log() if !-e 'agent';
    return 1;
}

sub agent_started {
    my $status = shift;
    undef $starter;
    undef $starter_end;
    my $file = "$staging/agent.pid";
    my $pid = !$status && -e $file ? read_file($file) : '';
    if ($pid !~ /(\d+)/) {
        warn "the agent was not started: $status\n";
        kill 'KILL', grep { $_ != $init } children();
        return;
    }
    $agent = $1;
    $agent_end = end_of($agent);
    record_agent();
}

# A handle that becomes readable when a child ends. Undefined for a child that has ended and was already reaped.
sub end_of {
    my $pid = shift;
    my $fd = Kernel::attempt('pidfd_open', $pid + 0, 0);
    return undef if $fd < 0 && $!{ESRCH};
    return handle('pidfd_open', $fd);
}

# Waits until a process ends, a start of the agent is requested, or a signal arrives.
sub serve {
    my $ready = '';
    vec($ready, fileno $_, 1) = 1 for grep { $_ } $agent_socket, $init_end, $starter_end, $agent_end;
    my $found = select $ready, undef, undef, undef;
    while ((my $pid = waitpid -1, 1) > 0) { reap($pid) }
    return if $found <= 0 || !vec($ready, fileno $agent_socket, 1) || defined $init_status;
    accept my $document, $agent_socket or return;
    # The agent's file may be lost, so that the host believes that the agent has ended.
    if ($agent) { record_agent() }
    elsif (!$starter) { start_agent($document) }
    # The runtime reads files of the sandbox, which may be pipes without a writer, so its time is limited.
    elsif (time - $starter_since > $starter_seconds) { kill 'KILL', $starter }
}

# Both ends know each other's hardware address in advance. So there are no address requests on the link that could be
# answered falsely, and the first packet is not delayed by a second.
sub connect_network {
    my ($name, $address, $gateway) = @arg{qw(interface address gateway)};
    my $own = sprintf '02:00:%02x:%02x:%02x:%02x', split /\./, $address;
    my $other = sprintf '06:00:%02x:%02x:%02x:%02x', split /\./, $address;
    run({ input => <<"END" }, 'ip', '-batch', '-');
link add name $name address $other mtu $arg{mtu} group $arg{group} type veth peer name eth0 address $own mtu $arg{mtu} netns $init
link set dev $name addrgenmode none
link set dev $name up
neighbor add $address lladdr $own dev $name nud permanent
route add $address/32 dev $name src $gateway
END
    return run({ input => <<"END" }, 'nsenter', "--net=/proc/$init/ns/net", 'ip', '-batch', '-');
link set dev lo up
address add $address/32 dev eth0
link set dev eth0 up
neighbor add $gateway lladdr $other dev eth0 nud permanent
route add $gateway dev eth0
route add default via $gateway
END
}

# Runs a program. Dies when the program fails, unless `any` is set. Returns its wait status with `any`, otherwise true.
sub run {
    my ($option, @words) = @_;
    my ($read, $write);
    if (defined $option->{input}) { pipe $read, $write or die $! }
    $child = fork // die "fork: $!";
    if (!$child) {
        $SIG{$_} = 'DEFAULT' for qw(PIPE HUP INT TERM);
        if ($option->{inside}) {
            pipe my $input, my $closed or die $!;
            eval { exec_inside($input, @words) };
            warn $@;
        }
        else {
            open STDIN, '<&', $read or die $! if $read;
            open STDIN, '<', '/dev/null' or die $! if !$read;
            exec { $words[0] } @words or warn "$words[0]: $!\n";
        }
        kill 'KILL', $$;
    }
    if ($write) { close $read; syswrite $write, $option->{input}; close $write }
    my $pid = $child;
    waitpid $pid, 0;
    my $status = $?;
    undef $child;
    return $status if $option->{any};
    die "stopped\n" if $stopping;
    die "$words[0] failed with $status\n" if $status;
    return 1;
}

# Becomes a program of the runtime that starts a process inside. The host's /dev/null is not used, because the runtime
# gives these streams to the sandbox's root, who could then change them.
sub exec_inside {
    my ($input, @words) = @_;
    $SIG{$_} = 'DEFAULT' for qw(PIPE HUP INT TERM);
    # Set here, because on a host with CAP_SYS_RESOURCE this value becomes the minimum that the sandbox can set.
    write_file('/proc/self/oom_score_adj', $arg{oomScore});
    # Short processor slices (Linux 6.12), so that other processes do not wait for one that never sleeps.
    my $turns = pack 'L2 Q l L Q3', 48, 0, 0, 0, 0, $slice_ns, 0, 0;
    Kernel::attempt('sched_setattr', 0, $turns, 0) == 0 or warn "sched_setattr: $!\n";
    open STDIN, '<&', $input or die $!;
    open STDOUT, '>&', $agent_log and open STDERR, '>&', \*STDOUT or die $!;
    exec { $words[0] } @words or die "$words[0]: $!\n";
}

# The end.

sub reap {
    my $pid = shift;
    die "no child is left: $!" if $pid < 0 && !$!{EINTR};
    if ($init && $pid == $init) { $init_status = $? }
    elsif ($starter && $pid == $starter) { agent_started($?) }
    elsif ($agent && $pid == $agent) { undef $agent; undef $agent_end }
}

# Kills all processes inside, and the remaining processes of the runtime, which makes containers in a process that
# outlives its parent.
sub kill_container {
    for (1 .. 500) {
        my @left = (children(), -e $arg{procs} ? split ' ', read_file($arg{procs}) : ());
        last unless @left;
        kill 'KILL', @left;
        lift_disk_rates();
        thaw();
        while ((my $pid = waitpid -1, 1) > 0) { reap($pid) }
        pause(0.01);
    }
    return unless $init && !defined $init_status;
    kill 'KILL', $init;
    # Init cannot end before the agent was reaped.
    reap(waitpid -1, 0) until defined $init_status;
}

# The child processes, including orphans of descendants, because this process is a subreaper.
sub children {
    opendir my $processes, '/proc' or die "/proc: $!";
    return grep { parent_of($_) == $$ } grep { /^\d+$/ } readdir $processes;
}

sub parent_of {
    my $stat = eval { read_file('/proc/' . shift . '/stat') } // '';
    return $stat =~ /.*\) \S (\d+)/s ? $1 : 0;
}

# Processes that wait for the disk cannot end, and what the sandbox has written goes to the disk before the unmount.
sub lift_disk_rates {
    for my $file (grep { -e } split /:/, $arg{rateFiles}) {
        eval { write_file($file, "$_ $arg{noRates}") for read_file($file) =~ /^(\d+:\d+) /mg; 1 } or warn $@;
    }
}

sub thaw { write_file($arg{thawFile}, $arg{thawText}) if -e $arg{thawFile} }

sub close_container {
    my $out_of_memory = -e $arg{oomFile} && read_file($arg{oomFile}) =~ /^oom_kill ([1-9]\d*)/m ? 1 : 0;
    undef $agent_log;
    lift_disk_rates();
    if ($staged) {
        keep_tail($_) for 'command.tail', 'agent.log';
        unmount("$staging/$_") for qw(root tail platform platform-files own dev lower disk disk);
    }
    for my $device (grep { $_ } $upper_disk, $disk) {
        close $device;
        my $name = pop @loop_names or next;
        for (1 .. 200) { last unless -e "/sys/block/$name/loop/backing_file"; pause(0.005) }
    }
    for my $folder (split /:/, $arg{cgroups}) {
        for (1 .. 200) { last if !-d $folder || rmdir $folder || !$!{EBUSY}; pause(0.01) }
    }
    return if !defined $init_status || machine_shuts_down();
    my $code = $init_status & 127 ? 128 + ($init_status & 127) : $init_status >> 8;
    sysopen my $record, 'exit.new', O_WRONLY | O_CREAT, 0600 or die "exit: $!";
    defined syswrite $record, exit_text($code, $out_of_memory) or die "exit: $!";
    rename_durably($record, 'exit.new', 'exit');
}

# systemd-shutdown(8) takes the place of systemd, and asks every process to end. The next host worker must then find the
# same as after a power cut: processes that are gone, without an exit.
sub machine_shuts_down {
    open my $in, '<', '/proc/1/comm' or return 0;
    return (<$in> // '') =~ /^systemd-shutdow/;
}

# The text always has the same length.
sub exit_text { return sprintf "%03d %d\n", @_ }

# The sandbox could write to this folder, so its files may be links, pipes or huge. On a full disk no tail is kept.
sub keep_tail {
    my $name = shift;
    sysopen(my $in, "$staging/tail/$name", O_RDONLY | O_NOFOLLOW | O_NONBLOCK) or return;
    return unless -f $in;
    my $size = -s _;
    sysseek $in, $size > $tail_bytes ? $size - $tail_bytes : 0, SEEK_SET;
    sysread($in, my $text, $tail_bytes);
    eval { write_file($name, $text // ''); 1 } or warn $@;
}

# Joins groups that survive the end of the host worker's service.
sub join_cgroups {
    for my $folder (split /:/, shift) {
        eval { write_file("$folder/cgroup.procs", '0'); 1 } or warn "join $folder: $@";
    }
}

# Not synced, because the numbers are meaningless after a power cut.
sub record_pids {
    my ($ticks) = read_file("/proc/$$/stat") =~ /.*\)(?: \S+){19} (\d+)/s;
    write_file('pids.new', join(' ', $$, $ticks, $init // 0) . "\n");
    rename 'pids.new', 'pids' or die "pids: $!";
}

# As `record_pids`. The host uses it to detect the end of the agent.
sub record_agent {
    my $stat = eval { read_file("/proc/$agent/stat") } // '';
    my $ticks = $stat =~ /.*\)(?: \S+){19} (\d+)/s ? $1 : 0;
    write_file('agent.new', "$agent $ticks\n");
    rename 'agent.new', 'agent' or die "agent: $!";
}
