# Makes the FUSE file system of a mount in the sandbox's user namespace, for hold-mount.pl. s3fs may not mount; it gets
# the descriptor that serves the file system.
package FuseMount;
use strict;
use warnings;
use POSIX ();

my $arg;

sub open_for {
    $arg = shift;
    Kernel::call('prctl', 36, 1, 0, 0, 0);    # s3fs becomes a child of its nearest subreaper when the runtime exits
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
    my $child = Kernel::handle('pidfd_open', $pid, 0);
    my $served = Kernel::handle('pidfd_getfd', fileno $child, $fuse + 0, 0);
    my $tree = Kernel::call('pidfd_getfd', fileno $child, $mount + 0, 0);
    close $finish;
    waitpid $pid, 0;
    my ($empty, $at_fdcwd) = ('', -100);
    Kernel::call('move_mount', $tree, $empty, $at_fdcwd, $target, 4);
    POSIX::close($tree);
    return $served;
}

sub make {
    Kernel::enter_users(Kernel::namespace($arg->{init}, 'user'));
    sysopen my $fuse, '/dev/fuse', 2 or die "/dev/fuse: $!\n";
    Kernel::enter_mounts(Kernel::namespace($arg->{init}, 'mnt'));
    Kernel::become_root();
    return $fuse, Kernel::fuse_mount($fuse);
}

# Only processes of the sandbox's user namespace can use the file system, so this process joins it.
sub become_inner_root {
    Kernel::enter_users(Kernel::namespace($arg->{init}, 'user'));
    Kernel::become_root();
}

# Moves descriptors to fixed numbers. They are first moved away, because one may have the target number of another.
sub move_to {
    my %wanted = @_;
    my %high = map { $_ => (fcntl($wanted{$_}, 0, 20) or die "fcntl: $!\n") } keys %wanted;
    for my $fd (keys %high) { POSIX::dup2($high{$fd}, $fd) // die "dup2: $!\n"; POSIX::close($high{$fd}) }
}

1;
