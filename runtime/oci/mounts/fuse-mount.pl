# Makes the FUSE file system of a mount in the sandbox's user namespace, for hold-mount.pl. s3fs may not mount; it gets
# the descriptor that serves the file system.
package FuseMount;
use strict;
use warnings;
use POSIX ();

my %same = (move_mount => 429, fsopen => 430, fsconfig => 431, fsmount => 432, pidfd_open => 434, pidfd_getfd => 438);
my ($new_mounts, $new_users, $nosuid_nodev) = (0x20000, 0x10000000, 6);
my ($arg, %nr);

sub open_for {
    $arg = shift;
    %nr = (%same, $arg->{arch} eq 'arm64'
        ? (setns => 268, unshare => 97, mount => 40, umount2 => 39, prctl => 167, memfd_create => 279, setgroups => 159, setresgid => 149, setresuid => 147)
        : (setns => 308, unshare => 272, mount => 165, umount2 => 166, prctl => 157, memfd_create => 319, setgroups => 116, setresgid => 119, setresuid => 117));
    call('prctl', 36, 1, 0, 0, 0);    # s3fs becomes a child of its nearest subreaper when the runtime exits
}

# Makes a file system of the sandbox's own user namespace and mounts it at `target` of this mount namespace. Returns the
# descriptor that serves it.
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
    # A bare descriptor. A Perl handle would send a request to the file system, and s3fs does not serve it yet.
    return $fuse, call('fsmount', fileno $fs, 1, $nosuid_nodev);
}

# Only processes of the sandbox's user namespace can use the file system, so this process joins it.
sub become_inner_root {
    enter('user', $new_users);
    become_root();
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

# Moves descriptors to fixed numbers. They are first moved away, because one may have the target number of another.
sub move_to {
    my %wanted = @_;
    my %high = map { $_ => (fcntl($wanted{$_}, 0, 20) or die "fcntl: $!\n") } keys %wanted;
    for my $fd (keys %high) { POSIX::dup2($high{$fd}, $fd) // die "dup2: $!\n"; POSIX::close($high{$fd}) }
}

sub handle {
    my $fd = call(@_);
    open my $handle, '+<&=', $fd or die "$_[0]: $!\n";
    return $handle;
}

# Text arguments must be variables, never literals.
sub call {
    my ($name, @values) = @_;
    my $result = syscall $nr{$name}, @values;
    die "$name: $!\n" if $result < 0;
    return $result;
}

1;
