# The direct form of a mount, for hold-mount.pl: s3fs is the image's own program and runs in the sandbox, within all its
# walls. It may mount nothing; so the mount is made here, as the sandbox's root, and s3fs gets its descriptor.
package DirectS3fs;
use strict;
use warnings;
use POSIX ();

my %same = (move_mount => 429, fsopen => 430, fsconfig => 431, fsmount => 432, pidfd_open => 434, pidfd_getfd => 438);
my ($new_mounts, $new_users, $cloexec, $nosuid_nodev) = (0x20000, 0x10000000, 02000000, 6);
my $folder = '/.platform/agent/fuse';    # in the sandbox: `fusermount`, and an empty folder
my ($arg, %nr);

sub open_for {
    $arg = shift;
    %nr = (%same, $arg->{arch} eq 'arm64'
        ? (setns => 268, prctl => 167, memfd_create => 279, setgroups => 159, setresgid => 149, setresuid => 147)
        : (setns => 308, prctl => 157, memfd_create => 319, setgroups => 116, setresgid => 119, setresuid => 117));
    call('prctl', 36, 1, 0, 0, 0);    # the runtime leaves s3fs to its nearest subreaper
}

# Makes a file system of the sandbox's own user namespace and mounts it at `target` of this mount namespace.
# Returns the descriptor through which it is served.
sub mount_at {
    my $target = shift;
    pipe my $read, my $write or die $!;
    pipe my $wait, my $finish or die $!;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        close $finish;
        my ($fuse, $mount) = eval { make() };
        syswrite $write, $fuse ? fileno($fuse) . " $mount" : "error $@";
        sysread $wait, my $end, 1;
        kill 'KILL', $$;
    }
    close $write;
    sysread $read, my $said, 4096;
    my ($fuse, $mount) = ($said // '') =~ /^(\d+) (\d+)$/ or die $said;
    my $child = handle('pidfd_open', $pid, 0);
    my $served = handle('pidfd_getfd', fileno $child, $fuse + 0, 0);
    my $tree = call('pidfd_getfd', fileno $child, $mount + 0, 0);
    close $finish;
    waitpid $pid, 0;
    my ($empty, $at_fdcwd) = ('', -100);
    call('move_mount', $tree, $empty, $at_fdcwd, $target, 4);
    POSIX::close($tree);
    return $served;
}

sub make {
    enter('user', $new_users);
    sysopen my $fuse, '/dev/fuse', 2 or die "/dev/fuse: $!\n";
    enter('mnt', $new_mounts);
    become_root();
    my $type = 'fuse';
    my $fs = handle('fsopen', $type, 1);
    my @number = (rootmode => '40000', user_id => '0', group_id => '0');
    my @options = (source => 's3fs', subtype => 's3fs', fd => '' . fileno $fuse, @number);
    while (my ($key, $value) = splice @options, 0, 2) { call('fsconfig', fileno $fs, 1, $key, $value, 0) }
    my $others = 'allow_other';
    call('fsconfig', fileno $fs, 0, $others, 0, 0);
    call('fsconfig', fileno $fs, 6, 0, 0, 0);
    # No Perl handle: to make one would ask the file system, which nobody serves yet.
    return $fuse, call('fsmount', fileno $fs, 1, $nosuid_nodev);
}

# The file system answers only those whom the sandbox knows.
sub become_inner_root {
    enter('user', $new_users);
    become_root();
}

# A file of memory that has no name, which the sandbox's root may read.
sub credentials {
    my $text = shift;
    my $name = 'credentials';
    my $memory = handle('memfd_create', $name, 1);
    chmod 0600, $memory or die "credentials: $!\n";
    chown $arg->{owner}, $arg->{owner}, $memory or die "credentials: $!\n";
    syswrite($memory, $text) == length $text or die "credentials: $!\n";
    return $memory;
}

# Has the container's runtime start s3fs in the sandbox. Returns its process on the host.
sub start {
    my ($credentials, $fuse, $output, @options) = @_;
    my $pid_file = "/mnt/s3fs-$$.pid";
    my @runtime = ($arg->{runtime}, '--root', '/mnt/run', 'exec', '--detach', '--pid-file', $pid_file);
    my @env = ("PATH=$folder:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 'HOME=/root', 'LC_ALL=C');
    my @setting = map { ('--env', $_) } @env, 'PLATFORM_FUSE_FD=4';
    my @s3fs = ($arg->{s3fs}, $arg->{source}, "$folder/bucket", '-f', map { ('-o', $_) } 'auto_unmount', @options);
    pipe my $input, my $nobody or die $!;    # never the host's /dev/null: the sandbox's root gets these
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(PIPE HUP INT TERM);
        call('prctl', 1, 9, 0, 0, 0);
        my $shim = namespace($arg->{shim}, 'mnt');
        call('setns', fileno $shim, $new_mounts);
        move_to(0 => $input, 1 => $output, 2 => $output, 3 => $credentials, 4 => $fuse);
        exec { $runtime[0] } @runtime, '--preserve-fds', 2, @setting, '--cwd', '/', $arg->{id}, @s3fs or POSIX::_exit(127);
    }
    waitpid $pid, 0;
    my $seen = "/proc/$arg->{shim}/root$pid_file";
    return undef if !open my $in, '<', $seen;
    my $s3fs = <$in>;
    unlink $seen;
    return $s3fs;
}

# First out of the way, for one may lie where another belongs.
sub move_to {
    my %wanted = @_;
    my %high = map { $_ => (fcntl($wanted{$_}, 0, 20) or die "fcntl: $!\n") } keys %wanted;
    for my $fd (keys %high) { POSIX::dup2($high{$fd}, $fd) // die "dup2: $!\n"; POSIX::close($high{$fd}) }
}

sub become_root {
    call('setgroups', 0, 0);
    call('setresgid', 0, 0, 0);
    call('setresuid', 0, 0, 0);
}

sub enter {
    my ($kind, $flag) = @_;
    my $namespace = namespace($arg->{init}, $kind);
    call('setns', fileno $namespace, $flag);
}

sub namespace {
    my ($pid, $kind) = @_;
    open my $handle, '<', "/proc/$pid/ns/$kind" or die "$kind namespace: $!\n";
    return $handle;
}

sub handle {
    my $fd = call(@_);
    open my $handle, '+<&=', $fd or die "$_[0]: $!\n";
    return $handle;
}

# Arguments that are texts must be variables, never literals.
sub call {
    my ($name, @values) = @_;
    my $result = syscall $nr{$name}, @values;
    die "$name: $!\n" if $result < 0;
    return $result;
}

1;
