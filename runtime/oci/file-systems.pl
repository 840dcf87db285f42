# Makes file systems of a sandbox, and reads and writes the host's files. `shim.pl` requires this file, and
# `../mounts/kernel.pl` before it.
use strict;
use warnings;
use Errno;
use Fcntl qw(:seek O_RDONLY O_RDWR O_WRONLY O_CREAT);

my ($nosuid, $noexec, $idmap) = (2, 8, 0x100000);
my ($at_fdcwd, $cloexec) = (-100, 02000000);

sub open_tree {
    my ($path, $attributes, $ids) = @_;
    my ($change, $empty) = (pack('Q4', $attributes | ($ids ? $idmap : 0), 0, 0, $ids ? fileno $ids : 0), '');
    my $tree = handle("open $path", Kernel::attempt('open_tree', $at_fdcwd, $path, 1 | $cloexec));
    Kernel::attempt('mount_setattr', fileno $tree, $empty, 0x1000, $change, 32) == 0 or die "mount_setattr $path: $!";
    return $tree;
}

# Sizes of tmpfs are in pages (`nr_blocks`), because each file takes at least one, and kernels for ARM64 may have pages of
# 16 or 64 KiB.
sub new_fs { return handle('fsmount', Kernel::new_fs(@_)) }

sub attach {
    my ($tree, $target) = @_;
    my $empty = '';
    Kernel::attempt('move_mount', fileno $tree, $empty, $at_fdcwd, $target, 4) == 0 or die "mount at $target: $!";
}

sub handle {
    my ($what, $fd) = @_;
    die "$what: $!" if $fd < 0;
    open my $handle, '<&=', $fd or die "$what: $!";
    return $handle;
}

# A loop device, and its name. It detaches itself after its last use. It uses direct I/O, because otherwise the host's
# page cache would hold all data twice. A fresh disk switches to direct I/O when the container starts, because switching
# earlier would require to write it out first.
sub attach_loop {
    my ($file, $label, $is_direct) = @_;
    sysopen my $control, '/dev/loop-control', O_RDWR or die "loop-control: $!";
    for (1 .. 100) {
        my $number = ioctl $control, 0x4C82, 0 or die "no free loop device: $!";
        my $name = 'loop' . ($number + 0);
        sysopen my $loop, "/dev/$name", O_RDWR or die "$name: $!";
        my ($autoclear, $direct_io) = (4, $is_direct ? 16 : 0);
        my $info = pack 'Q5 L4 a64 a64 a32 Q2', (0) x 8, $autoclear | $direct_io, $label, '', '', 0, 0;
        my $config = pack('L2', fileno $file, 4096) . $info . pack 'Q8', (0) x 8;
        if (ioctl $loop, 0x4C0A, $config) { return ($loop, $name) }
        die "$name: $!" unless $!{EBUSY};
    }
    die "all loop devices are taken at once\n";
}

sub unmount {
    my $path = shift;
    for (1 .. 100) { return if Kernel::attempt('umount2', $path, 0) == 0 || !$!{EBUSY}; pause(0.01) }
    warn "$path stays busy\n";
}

# The sandbox gets its own devices, because on the host's devices a watcher inside could observe other sandboxes. They
# belong to the host's root, so no process inside can change their modes.
sub make_devices {
    my ($dev, $id) = @_;
    my @owner = (uid => "$id", gid => "$id");    # the values must be strings
    my @size = (nr_blocks => '16', nr_inodes => '256', mode => '0755');
    attach(new_fs('tmpfs', $nosuid | $noexec, source => 'tmpfs', @size, @owner), $dev);
    my %numbers = (null => [1, 3], zero => [1, 5], full => [1, 7], random => [1, 8], urandom => [1, 9], tty => [5, 0]);
    my ($character_device, $free) = (0020000, umask 0);
    while (my ($name, $number) = each %numbers) {
        my $path = "$dev/$name";
        Kernel::attempt('mknodat', $at_fdcwd, $path, $character_device | 0666, $number->[0] << 8 | $number->[1]) == 0
            or die "make $name: $!";
    }
    umask $free;
    my %links = (fd => '/proc/self/fd', core => '/proc/kcore', ptmx => 'pts/ptmx');
    my $at = 0;
    $links{$_} = '/proc/self/fd/' . $at++ for qw(stdin stdout stderr);
    symlink $links{$_}, "$dev/$_" or die "$_: $!" for keys %links;
    for my $folder (qw(pts shm mqueue)) { mkdir "$dev/$folder" or die "$folder: $!" }
}

# Makes a user namespace in a child process with the user id `owner`. The kernel also charges some resources inside to
# the owner (inotify instances, message queues, pending signals). If root were the owner, all sandboxes and the host
# would share those limits.
sub user_namespace {
    my ($owner, $map) = @_;
    pipe my $ready, my $tell or die $!;
    pipe my $wait, my $finish or die $!;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        close $finish;
        # Only the owner changes and the privileges stay, because hosts may forbid other users to make user namespaces.
        my $owned = !$owner || Kernel::attempt('prctl', 28, 4, 0, 0, 0) == 0 && ($> = $owner) == $owner;
        syswrite $tell, $owned && Kernel::attempt('unshare', 0x10000000) == 0 ? 'y' : 'n';
        sysread $wait, my $end, 1;
        kill 'KILL', $$;
    }
    close $tell;
    sysread $ready, my $answer, 1;
    die "no user namespace\n" if ($answer // '') ne 'y';
    for my $file ('uid_map', 'gid_map') { write_file("/proc/$pid/$file", $map) }
    open my $ids, '<', "/proc/$pid/ns/user" or die "user namespace: $!";
    close $finish;
    waitpid $pid, 0;
    return $ids;
}

sub copy_sparse {
    my ($source, $target) = @_;
    my ($seek_data, $seek_hole) = (3, 4);
    sysopen my $in, $source, O_RDONLY or die "$source: $!";
    sysopen my $out, "$target.new", O_WRONLY | O_CREAT, 0600 or die "$target: $!";
    truncate $out, 0 and truncate $out, -s $in or die "$target: $!";
    my $end = 0;
    while (defined(my $at = sysseek $in, $end, $seek_data)) {
        $end = sysseek $in, $at, $seek_hole;
        sysseek $in, $at, SEEK_SET;
        sysseek $out, $at, SEEK_SET;
        for (my $left = $end - $at; $left > 0;) {
            my $length = sysread $in, my $block, $left > 262144 ? 262144 : $left or die "$source: $!";
            syswrite($out, $block) == $length or die "$target: $!";
            $left -= $length;
        }
    }
    die "$source: $!" unless $!{ENXIO};
    rename_durably($out, "$target.new", $target);
}

# Writes a file of this folder, and then its name, to the host's disk, so that after a power cut it is complete or
# absent.
sub rename_durably {
    my ($file, $from, $to) = @_;
    Kernel::attempt('fsync', fileno $file) == 0 or die "sync $from: $!";
    rename $from, $to or die "$to: $!";
    sysopen my $folder, '.', O_RDONLY or die "open folder: $!";
    Kernel::attempt('fsync', fileno $folder) == 0 or die "sync folder: $!";
}

sub read_file {
    my $path = shift;
    open my $in, '<', $path or die "$path: $!";
    read($in, my $text, 1 << 20);
    return $text // '';
}

sub write_file {
    my ($path, $text) = @_;
    open my $out, '>', $path or die "$path: $!";
    defined syswrite $out, $text or die "$path: $!";
    close $out or die "$path: $!";
}

sub pause { select undef, undef, undef, shift }

1;
