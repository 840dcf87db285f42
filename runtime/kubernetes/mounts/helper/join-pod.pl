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
my %nr = (
    open_tree => 428, move_mount => 429, fsopen => 430, fsconfig => 431, fsmount => 432, openat2 => 437,
    $arg{arch} eq 'arm64'
    ? (setns => 268, umount2 => 39, setgroups => 159, setresgid => 149, setresuid => 147, mkdirat => 34, fchdir => 50, prctl => 167, sendmsg => 211)
    : (setns => 308, umount2 => 166, setgroups => 116, setresgid => 119, setresuid => 117, mkdirat => 258, fchdir => 81, prctl => 157, sendmsg => 46),
);
my ($new_mounts, $new_users, $nosuid_nodev) = (0x20000, 0x10000000, 6);
my ($at_fdcwd, $cloexec, $empty) = (-100, 02000000, '');
my ($connect_seconds, $tail_bytes) = (5, 4096);
my $socket_path = '/run/platform/mount';

$SIG{PIPE} = 'IGNORE';
my $stage = 'error';
eval { $arg{action} eq 'unbind' ? unbind() : join_pod(); 1 } or report("$stage $@");

sub join_pod {
    my $deadline = time + $arg{seconds};
    my $own = namespace($$, 'mnt');
    my ($users, $mounts) = namespaces();
    my $server = connect_to_server($own);
    enter($users, $new_users) if $users;
    sysopen my $fuse, '/dev/fuse', 2 or die "/dev/fuse: $!\n";
    enter($mounts, $new_mounts);
    become_root();
    $stage = 'place';
    open_folder();
    $stage = 'error';
    my $mount = make_mount($fuse);
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
            my $target = open_folder();
            $stage = 'error';
            my $flags = 4 | 0x40;
            call('move_mount', $mount, $empty, $target, $empty, $flags);
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
    my $mounts = namespace($arg{init}, 'mnt');
    my $is_shared = readlink("/proc/$arg{init}/ns/user") eq readlink '/proc/self/ns/user';
    my $users = $is_shared ? undef : namespace($arg{init}, 'user');
    require_container($arg{init}, $arg{container});
    return $users, $mounts;
}

sub connect_to_server {
    my $own = shift;
    my $mounts = namespace($arg{server}, 'mnt');
    require_container($arg{server}, $arg{serverContainer});
    enter($mounts, $new_mounts);
    socket my $server, AF_UNIX, SOCK_STREAM, 0 or die "socket: $!\n";
    my $deadline = time + $connect_seconds;
    until (connect $server, pack_sockaddr_un($socket_path)) {
        die "$socket_path: $!\n" if time > $deadline || !($!{ENOENT} || $!{ECONNREFUSED});
        select undef, undef, undef, 0.01;
    }
    enter($own, $new_mounts);
    return $server;
}

# Checks that a process belongs to a container, because the kernel may have reused its number.
sub require_container {
    my ($pid, $container) = @_;
    open my $in, '<', "/proc/$pid/cgroup" or die "process $pid: $!\n";
    my $groups = do { local $/; <$in> };
    die "the container has ended\n" if index($groups, $container) < 0;
}

# Returns a bare descriptor. A Perl handle would send a request to the file system, and s3fs does not serve it yet.
sub make_mount {
    my $fuse = shift;
    my $type = 'fuse';
    my $fs = call('fsopen', $type, 1);
    my @number = (rootmode => '40000', user_id => '0', group_id => '0');
    my @options = (source => 's3fs', subtype => 's3fs', fd => '' . fileno $fuse, @number);
    while (my ($key, $value) = splice @options, 0, 2) { call('fsconfig', $fs, 1, $key, $value, 0) }
    my $others = 'allow_other';
    call('fsconfig', $fs, 0, $others, 0, 0);
    call('fsconfig', $fs, 6, 0, 0, 0);
    my $mount = call('fsmount', $fs, 1, $nosuid_nodev);
    POSIX::close($fs);
    return $mount;
}

sub send_descriptor {
    my ($server, $fuse) = @_;
    my ($byte, $sol_socket, $scm_rights) = ("\0", 1, 1);
    my $vector = pack 'P Q', $byte, 1;
    my $control = pack 'Q l l l x4', 20, $sol_socket, $scm_rights, fileno $fuse;
    my $message = pack 'Q L x4 P Q P Q l x4', 0, 0, $vector, 1, $control, length $control, 0;
    call('sendmsg', fileno $server, $message, 0);
}

# Starts a child that accesses the mount, and succeeds once s3fs has reached its bucket. The child may hang for ever.
# When the bucket refuses s3fs, s3fs ends, but each of its waiting threads still answers one request. So the child sends
# more requests than s3fs has threads.
sub ask {
    my ($mount, $server) = @_;
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    close $server;
    call('prctl', 1, 9, 0, 0, 0);    # the child dies with its parent; a later change of user would undo this
    my $here = '.';
    my $how = pack 'Q3', O_DIRECTORY | $cloexec, 0, 0;
    for (1 .. 12) {
        my $folder = syscall $nr{openat2}, $mount, $here, $how, 24;
        POSIX::_exit(1) if $folder < 0;
        POSIX::close($folder);
    }
    POSIX::_exit(0);
}

# Opens the mount point, and makes the folders of its path that are missing. It refuses symbolic links in the path,
# because they could lead to places where no mount is allowed.
sub open_folder {
    my $path = '';
    my $fd;
    my $mode = 0755;
    umask 022;
    for my $part (grep { $_ ne '' } split m{/}, $arg{target}) {
        $path .= "/$part";
        my $made = syscall $nr{mkdirat}, $at_fdcwd, $path, $mode;
        $made == 0 or $!{EEXIST} or die "$path: $!\n";
        $fd = open_plain($path);
        die "$path: $!\n" if $fd < 0;
    }
    return $fd;
}

# Opens a folder without following any link on its path, including the magic links of /proc.
sub open_plain {
    my $path = shift;
    my $how = pack 'Q3', 010000000 | O_DIRECTORY | $cloexec, 0, 0x04 | 0x02;
    return syscall $nr{openat2}, $at_fdcwd, $path, $how, 24;
}

# Removes a mount at once, even if a process still uses it (lazy unmount). The sandbox may have moved the folder and put
# a link there, for example to a mount that hides a part of /proc. Such a link is not followed: the mount then stays
# where it is, and its mount pod ends.
sub unbind {
    my ($users, $mounts) = namespaces();
    enter($users, $new_users) if $users;
    enter($mounts, $new_mounts);
    become_root();
    my ($folder, $name) = $arg{target} =~ m{^(.*)/([^/]+)$};
    my $fd = open_plain($folder eq '' ? '/' : $folder);
    if ($fd >= 0) {
        call('fchdir', $fd);
        syscall($nr{umount2}, $name, 2 | 8) == 0 or $!{EINVAL} or $!{ENOENT} or die "umount $arg{target}: $!\n";
    }
    elsif (!($!{ELOOP} || $!{ENOENT} || $!{ENOTDIR})) { die "$folder: $!\n" }
    report('unbound');
}

sub become_root {
    call('setgroups', 0, 0);
    call('setresgid', 0, 0, 0);
    call('setresuid', 0, 0, 0);
}

sub namespace {
    my ($pid, $kind) = @_;
    open my $handle, '<', "/proc/$pid/ns/$kind" or die "$kind namespace: $!\n";
    return $handle;
}

sub enter {
    my ($namespace, $kind) = @_;
    call('setns', fileno $namespace, $kind);
}

sub report {
    my $text = shift =~ s/\s+/ /gr;
    syswrite STDOUT, "$text\n";
}

# Makes a system call. String arguments must be variables, not literals.
sub call {
    my ($name, @values) = @_;
    my $result = syscall $nr{$name}, @values;
    die "$name: $!\n" if $result < 0;
    return $result;
}
