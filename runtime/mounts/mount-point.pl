# The place of a mount in the file tree of a sandbox, whose processes may change the tree at any moment. Symbolic links
# on the path and the magic links of /proc are refused, because they could lead to places where mounts are forbidden.
package MountPoint;
use strict;
use warnings;
use Errno;
use Fcntl qw(O_DIRECTORY);

my ($at_fdcwd, $cloexec, $only_path) = (-100, 02000000, 010000000);
my ($no_symlinks, $no_magic_links) = (0x04, 0x02);

# Opens the folder at a path, and makes the missing parts of the path. Returns a bare descriptor.
sub make {
    my $target = shift;
    my $path = '';
    my $fd;
    my $mode = 0755;
    umask 022;
    for my $part (grep { $_ ne '' } split m{/}, $target) {
        $path .= "/$part";
        my $made = Kernel::attempt('mkdirat', $at_fdcwd, $path, $mode);
        $made == 0 or $!{EEXIST} or die "$path: $!\n";
        $fd = open_plain($path);
        die "$path: $!\n" if $fd < 0;
    }
    return $fd;
}

# Detaches the mount at a path at once, even if a process still uses it. The sandbox may have moved the folder and put a
# link there: following that link could remove the mounts that cover /proc. In that case the mount stays, without its
# bucket.
sub detach {
    my $target = shift;
    my ($folder, $name) = $target =~ m{^(.*)/([^/]+)$};
    my $fd = open_plain($folder eq '' ? '/' : $folder);
    return if $fd < 0 && ($!{ELOOP} || $!{ENOENT} || $!{ENOTDIR});
    die "$folder: $!\n" if $fd < 0;
    Kernel::call('fchdir', $fd);
    Kernel::attempt('umount2', $name, 2 | 8) == 0 or $!{EINVAL} or $!{ENOENT} or die "umount $target: $!\n";
}

sub open_plain {
    my $path = shift;
    my $how = pack 'Q3', $only_path | O_DIRECTORY | $cloexec, 0, $no_symlinks | $no_magic_links;
    return Kernel::attempt('openat2', $at_fdcwd, $path, $how, 24);
}

1;
