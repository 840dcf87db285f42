# Adds the mount of hold-mount.pl to a sandbox, or removes one from it. The sandbox's processes may run or be frozen. It
# works as the sandbox's own root on the sandbox's file tree, so links in the tree lead to nothing outside of it. It
# sends no request to the mount itself, because the mount may never answer.
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

# Makes the missing parts of the path. A link in the path is refused, because it could lead to a place where mounts are
# forbidden.
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

# Opens a folder if the path to it contains no symbolic or magic link.
sub open_plain {
    my $path = shift;
    my $how = pack 'Q3', 010000000 | O_DIRECTORY | $cloexec, 0, 0x04 | 0x02;
    return syscall $nr{openat2}, $at_fdcwd, $path, $how, 24;
}

# The image's own fusermount may not mount here. Where libfuse looks for it, this binds a replacement that needs no
# mount.
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

# Detaches the mount at once, even if it is in use. Its folder may have been moved, and there may be a link in its
# place: following that link would remove the mounts that cover /proc. In that case the mount stays, without its bucket.
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
