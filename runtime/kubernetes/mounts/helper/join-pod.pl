# Makes the FUSE mount of one bucket for the sandbox of a pod and places it there, or removes one from there. The mount
# helper starts this script as root of the node, in the node's PID namespace.
#
# The file system belongs to the sandbox's own user namespace. s3fs in its mount pod (serve-mount.pl) gets only the
# descriptor with which it serves the file system. Until the mount is in its place, only this process can see it. This
# process never accesses the mount, because s3fs may not answer. A child does it, and may hang.
#
# Arguments: `arch=… action=join|unbind init=<pid> container=<id> target=<path>`, and for `join` also `server=<pid>
# serverContainer=<id> seconds=<time limit for the answer of the bucket>`. Lines on standard output: `ready` when the
# bucket answers; `bound` after the line `bind` on standard input; `unbound` when the mount is removed. Failures are
# `storage <output of s3fs>`, `late <output of s3fs>`, `place <problem with the mount point>` and `error <text>`. The
# script ends when standard input ends.
use strict;
use warnings;
use Errno;
use Fcntl qw(O_DIRECTORY);
use POSIX ();
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);

my %arg = map { split /=/, $_, 2 } @ARGV;
my ($cloexec, $empty) = (02000000, '');
my ($connect_seconds, $tail_bytes) = (5, 4096);
my $socket_path = '/run/platform/mount';

my ($shared) = map { "$_/../../../mounts" } $0 =~ m{^(.*)/};
require "$shared/$_.pl" for qw(kernel mount-point);
Kernel::use_processor($arg{arch});
$SIG{PIPE} = 'IGNORE';
my $stage = 'error';
eval { $arg{action} eq 'unbind' ? unbind() : join_pod(); 1 } or report("$stage $@");

sub join_pod {
    my $deadline = time + $arg{seconds};
    my $own = Kernel::namespace($$, 'mnt');
    my ($users, $mounts) = namespaces();
    my $server = connect_to_server($own);
    Kernel::enter_users($users) if $users;
    sysopen my $fuse, '/dev/fuse', 2 or die "/dev/fuse: $!\n";
    Kernel::enter_mounts($mounts);
    Kernel::become_root();
    $stage = 'place';
    MountPoint::make($arg{target});
    $stage = 'error';
    my $mount = Kernel::fuse_mount($fuse);
    send_descriptor($server, $fuse);
    close $fuse;
    my $asker = ask($mount, $server);
    my ($said, $is_ready, $is_over) = ('', 0, 0);
    while (1) {
        my $readable = '';
        vec($readable, fileno $_, 1) = 1 for \*STDIN, $is_over ? () : $server;
        my $found = select $readable, undef, undef, $asker ? 0.01 : $is_ready ? undef : 0.2;
        if ($found > 0 && vec $readable, fileno STDIN, 1) {
            my $got = sysread STDIN, my $word, 16;
            last if !$got || !$is_ready;
            # The folder is opened again, because an earlier mount at this path has been removed meanwhile.
            $stage = 'place';
            my $target = MountPoint::make($arg{target});
            $stage = 'error';
            my $flags = 4 | 0x40;
            Kernel::call('move_mount', $mount, $empty, $target, $empty, $flags);
            syswrite $server, '1';
            report('bound');
            last;
        }
        if ($found > 0 && !$is_over && vec $readable, fileno $server, 1) {
            if (sysread $server, my $text, 4096) { $said = substr $said . $text, -$tail_bytes }
            else { $is_over = 1 }
        }
        # When s3fs has ended, its output says why.
        if ($is_over) { report("storage $said"); last }
        if ($asker && waitpid($asker, POSIX::WNOHANG()) == $asker) {
            undef $asker;
            if ($? == 0) { $is_ready = 1; report('ready') }
        }
        if (!$is_ready && time >= $deadline) { report($said =~ /\S/ ? "late $said" : 'late'); last }
    }
    kill 'KILL', $asker if $asker;
}

# Returns the user namespace and the mount namespace of the sandbox's container. The user namespace is undefined if the
# container shares the node's.
sub namespaces {
    my $mounts = Kernel::namespace($arg{init}, 'mnt');
    my $is_shared = readlink("/proc/$arg{init}/ns/user") eq readlink '/proc/self/ns/user';
    my $users = $is_shared ? undef : Kernel::namespace($arg{init}, 'user');
    require_container($arg{init}, $arg{container});
    return $users, $mounts;
}

sub connect_to_server {
    my $own = shift;
    my $mounts = Kernel::namespace($arg{server}, 'mnt');
    require_container($arg{server}, $arg{serverContainer});
    Kernel::enter_mounts($mounts);
    socket my $server, AF_UNIX, SOCK_STREAM, 0 or die "socket: $!\n";
    my $deadline = time + $connect_seconds;
    until (connect $server, pack_sockaddr_un($socket_path)) {
        die "$socket_path: $!\n" if time > $deadline || !($!{ENOENT} || $!{ECONNREFUSED});
        select undef, undef, undef, 0.01;
    }
    Kernel::enter_mounts($own);
    return $server;
}

# Checks that a process belongs to a container, because the kernel may have reused its number.
sub require_container {
    my ($pid, $container) = @_;
    open my $in, '<', "/proc/$pid/cgroup" or die "process $pid: $!\n";
    my $groups = do { local $/; <$in> };
    die "the container has ended\n" if index($groups, $container) < 0;
}

sub send_descriptor {
    my ($server, $fuse) = @_;
    my ($byte, $sol_socket, $scm_rights) = ("\0", 1, 1);
    my $vector = pack 'P Q', $byte, 1;
    my $control = pack 'Q l l l x4', 20, $sol_socket, $scm_rights, fileno $fuse;
    my $message = pack 'Q L x4 P Q P Q l x4', 0, 0, $vector, 1, $control, length $control, 0;
    Kernel::call('sendmsg', fileno $server, $message, 0);
}

# Starts a child that accesses the mount, and succeeds once s3fs has reached its bucket. The child may hang for ever.
# When the bucket refuses s3fs, s3fs ends, but each of its waiting threads still answers one request. So the child sends
# more requests than s3fs has threads.
sub ask {
    my ($mount, $server) = @_;
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    close $server;
    Kernel::call('prctl', 1, 9, 0, 0, 0);    # the child dies with its parent; a later change of user would undo this
    my $here = '.';
    my $how = pack 'Q3', O_DIRECTORY | $cloexec, 0, 0;
    for (1 .. 12) {
        my $folder = Kernel::attempt('openat2', $mount, $here, $how, 24);
        POSIX::_exit(1) if $folder < 0;
        POSIX::close($folder);
    }
    POSIX::_exit(0);
}

sub unbind {
    my ($users, $mounts) = namespaces();
    Kernel::enter_users($users) if $users;
    Kernel::enter_mounts($mounts);
    Kernel::become_root();
    MountPoint::detach($arg{target});
    report('unbound');
}

sub report {
    my $text = shift =~ s/\s+/ /gr;
    syswrite STDOUT, "$text\n";
}
