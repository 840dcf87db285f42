# System calls of the programs that make sandboxes and their mounts. A program requires this file from its folder before it
# joins a namespace, because afterwards names lead to files of the sandbox.
package Kernel;
use strict;
use warnings;

my ($new_mounts, $new_users, $nosuid_nodev) = (0x20000, 0x10000000, 6);
my %nr;

# Numbers above 400 are the same on all processors.
sub use_processor {
    my $arch = shift;
    %nr = (
        open_tree => 428, move_mount => 429, fsopen => 430, fsconfig => 431, fsmount => 432, pidfd_open => 434,
        openat2 => 437, pidfd_getfd => 438, mount_setattr => 442,
        $arch eq 'arm64'
        ? (setns => 268, unshare => 97, mount => 40, umount2 => 39, prctl => 167, memfd_create => 279, setgroups => 159,
            setresgid => 149, setresuid => 147, mkdirat => 34, fchdir => 50, sendmsg => 211, sched_setattr => 274,
            fsync => 82, mknodat => 33)
        : (setns => 308, unshare => 272, mount => 165, umount2 => 166, prctl => 157, memfd_create => 319, setgroups => 116,
            setresgid => 119, setresuid => 117, mkdirat => 258, fchdir => 81, sendmsg => 46, sched_setattr => 314,
            fsync => 74, mknodat => 259),
    );
}

# Makes a system call.
sub call {
    my ($name, @values) = @_;
    my $result = attempt($name, @values);
    die "$name: $!\n" if $result < 0;
    return $result;
}

# As `call`, but returns -1 after a failure.
sub attempt {
    my ($name, @values) = @_;
    return syscall $nr{$name}, @values;
}

sub handle {
    my $fd = call(@_);
    open my $handle, '+<&=', $fd or die "$_[0]: $!\n";
    return $handle;
}

sub namespace {
    my ($pid, $kind) = @_;
    open my $handle, '<', "/proc/$pid/ns/$kind" or die "$kind namespace: $!\n";
    return $handle;
}

sub enter_users { call('setns', fileno shift, $new_users) }

sub enter_mounts { call('setns', fileno shift, $new_mounts) }

sub become_root {
    call('setgroups', 0, 0);
    call('setresgid', 0, 0, 0);
    call('setresuid', 0, 0, 0);
}

# Makes a file system with options, whose value is undefined for a flag. Returns its mount as a bare descriptor.
sub new_fs {
    my ($type, $attributes, @options) = @_;
    my $fs = handle('fsopen', $type, 1);
    while (my ($key, $value) = splice @options, 0, 2) {
        my @setting = defined $value ? (1, $key, $value) : (0, $key, 0);
        attempt('fsconfig', fileno $fs, @setting, 0) == 0 or die "$type $key: $!\n";
    }
    attempt('fsconfig', fileno $fs, 6, 0, 0, 0) == 0 or die "mount $type: $!\n";
    return call('fsmount', fileno $fs, 1, $attributes);
}

# Makes the file system that `fuse` serves, in the current user namespace. The descriptor stays bare, because a Perl handle
# would send a request to the file system, and s3fs does not serve it yet.
sub fuse_mount {
    my $fuse = shift;
    my @number = (rootmode => '40000', user_id => '0', group_id => '0');
    my @options = (source => 's3fs', subtype => 's3fs', fd => '' . fileno $fuse, @number, allow_other => undef);
    return new_fs('fuse', $nosuid_nodev, @options);
}

1;
