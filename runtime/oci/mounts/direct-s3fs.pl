# The direct form of a mount, for hold-mount.pl: s3fs is the image's own program and runs in the sandbox with all of its
# restrictions. It gets the descriptor of the mount that fuse-mount.pl made.
package DirectS3fs;
use strict;
use warnings;
use POSIX ();

my $folder = '/.platform/agent/fuse';    # in the sandbox: `fusermount`, and an empty folder

# A file in memory without a name, readable for the sandbox's root.
sub credentials {
    my ($arg, $text) = @_;
    my $name = 'credentials';
    my $memory = Kernel::handle('memfd_create', $name, 1);
    chmod 0600, $memory or die "credentials: $!\n";
    chown $arg->{owner}, $arg->{owner}, $memory or die "credentials: $!\n";
    syswrite($memory, $text) == length $text or die "credentials: $!\n";
    return $memory;
}

# Uses the container's runtime to start s3fs in the sandbox. Returns its host process number.
sub start {
    my ($arg, $credentials, $fuse, $output, @options) = @_;
    my $pid_file = "/mnt/s3fs-$$.pid";
    my @runtime = ($arg->{runtime}, '--root', '/mnt/run', 'exec', '--detach', '--pid-file', $pid_file);
    my @env = ("PATH=$folder:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 'HOME=/root', 'LC_ALL=C');
    my @setting = map { ('--env', $_) } @env, 'PLATFORM_FUSE_FD=4';
    my @s3fs = ($arg->{s3fs}, $arg->{source}, "$folder/bucket", '-f', map { ('-o', $_) } 'auto_unmount', @options);
    pipe my $input, my $closed or die $!;    # not /dev/null of the host, because the sandbox gets these
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(PIPE HUP INT TERM);
        Kernel::call('prctl', 1, 9, 0, 0, 0);
        my $shim = Kernel::namespace($arg->{shim}, 'mnt');
        # The runtime identifies the container's process by its start time, so it must use the time namespace of the
        # process that created it.
        my $time = -e '/proc/self/ns/time' && Kernel::namespace($arg->{shim}, 'time_for_children');
        Kernel::call('setns', fileno $time, 0x80) if $time;
        Kernel::call('setns', fileno $shim, 0x20000);
        FuseMount::move_to(0 => $input, 1 => $output, 2 => $output, 3 => $credentials, 4 => $fuse);
        exec { $runtime[0] } @runtime, '--preserve-fds', 2, @setting, '--cwd', '/', $arg->{id}, @s3fs or POSIX::_exit(127);
    }
    waitpid $pid, 0;
    my $seen = "/proc/$arg->{shim}/root$pid_file";
    return undef if !open my $in, '<', $seen;
    my $s3fs = <$in>;
    unlink $seen;
    return $s3fs;
}

1;
