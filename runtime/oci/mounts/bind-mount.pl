# Puts the mount that hold-mount.pl holds into a sandbox, or takes one out, whether or not the sandbox's processes run.
# Works as the sandbox's own root on the sandbox's tree, so that nothing there leads anywhere else, and asks the mount
# itself nothing, for it may never answer.
#
# Arguments: `arch=… init=<pid> target=<path> action=prepare|bind|unbind [holder=<pid>] [direct=1]`.
use strict;
use warnings;
use Errno;
use Fcntl qw(O_DIRECTORY);

my %arg = map { split /=/, $_, 2 } @ARGV;
my %nr = (
    open_tree => 428, move_mount => 429, openat2 => 437,
    $arg{arch} eq 'arm64'
    ? (setns => 268, umount2 => 39, setgroups => 159, setresgid => 149, setresuid => 147, mkdirat => 34, fchdir => 50)
    : (setns => 308, umount2 => 166, setgroups => 116, setresgid => 119, setresuid => 117, mkdirat => 258, fchdir => 81),
);
my ($new_mounts, $new_users) = (0x20000, 0x10000000);
my ($at_fdcwd, $cloexec, $empty) = (-100, 02000000, '');

my $users = namespace($arg{init}, 'user');
my $mounts = namespace($arg{init}, 'mnt');
my $tree;
if ($arg{action} eq 'bind') {
    my $holder = namespace($arg{holder}, 'mnt');
    call('setns', fileno $holder, $new_mounts);
    my $bucket = '/mnt/bucket';
    $tree = call('open_tree', $at_fdcwd, $bucket, 1 | $cloexec);
}
call('setns', fileno $users, $new_users);
call('setns', fileno $mounts, $new_mounts);
call('setgroups', 0, 0);
call('setresgid', 0, 0, 0);
call('setresuid', 0, 0, 0);
if ($arg{action} eq 'unbind') { unbind() }
else {
    cover_fusermount() if $arg{direct};
    my $target = open_folder();
    call('move_mount', $tree, $empty, $target, $empty, 4 | 0x40) if defined $tree;
}

# Makes what is missing of the path. A link in it is refused: it could lead to where nothing may be mounted.
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

# A folder with no link, magic or other, on the way to it.
sub open_plain {
    my $path = shift;
    my $how = pack 'Q3', 010000000 | O_DIRECTORY | $cloexec, 0, 0x04 | 0x02;
    return syscall $nr{openat2}, $at_fdcwd, $path, $how, 24;
}

# The image's own fusermount may mount nothing here. Where libfuse looks for it, it finds one that needs not.
sub cover_fusermount {
    my $ours = '/.platform/agent/fuse/fusermount';
    my @ours = stat $ours or die "$ours: $!\n";
    for my $path (map { ("$_/fusermount", "$_/fusermount3") } qw(/bin /usr/bin /usr/local/bin)) {
        my @there = stat $path;
        next if !-f _ || "@there[0, 1]" eq "@ours[0, 1]";
        my $stand_in = call('open_tree', $at_fdcwd, $ours, 1 | $cloexec);
        call('move_mount', $stand_in, $empty, $at_fdcwd, $path, 4);
    }
}

# Lets go of it at once, also where something still uses it. Its folder may have been moved, and a link be in its place:
# followed, it would have what covers /proc taken away. Then the mount is left where it is, without its bucket.
sub unbind {
    my ($folder, $name) = $arg{target} =~ m{^(.*)/([^/]+)$};
    my $fd = open_plain($folder eq '' ? '/' : $folder);
    return if $fd < 0 && ($!{ELOOP} || $!{ENOENT} || $!{ENOTDIR});
    die "$folder: $!\n" if $fd < 0;
    call('fchdir', $fd);
    syscall($nr{umount2}, $name, 2 | 8) == 0 or $!{EINVAL} or $!{ENOENT} or die "umount $arg{target}: $!\n";
}

sub namespace {
    my ($pid, $kind) = @_;
    open my $handle, '<', "/proc/$pid/ns/$kind" or die "$kind namespace: $!\n";
    return $handle;
}

sub call {
    my ($name, @values) = @_;
    my $result = syscall $nr{$name}, @values;
    die "$name: $!\n" if $result < 0;
    return $result;
}
