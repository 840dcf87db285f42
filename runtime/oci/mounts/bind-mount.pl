# Adds the mount of hold-mount.pl to a sandbox, or removes one from it. The sandbox's processes may run or be frozen. It
# works as the sandbox's own root on the sandbox's file tree, so links in the tree lead to nothing outside of it. It
# sends no request to the mount itself, because the mount may never answer.
#
# Arguments: `arch=… init=<pid> target=<path> action=prepare|bind|unbind [holder=<pid>] [direct=1]`.
use strict;
use warnings;

my %arg = map { split /=/, $_, 2 } @ARGV;
my ($at_fdcwd, $cloexec, $empty) = (-100, 02000000, '');

my ($shared) = map { "$_/../../mounts" } $0 =~ m{^(.*)/};
require "$shared/$_.pl" for qw(kernel mount-point);
Kernel::use_processor($arg{arch});
my $users = Kernel::namespace($arg{init}, 'user');
my $mounts = Kernel::namespace($arg{init}, 'mnt');
my $tree;
if ($arg{action} eq 'bind') {
    Kernel::enter_mounts(Kernel::namespace($arg{holder}, 'mnt'));
    my $bucket = '/mnt/bucket';
    $tree = Kernel::call('open_tree', $at_fdcwd, $bucket, 1 | $cloexec);
}
Kernel::enter_users($users);
Kernel::enter_mounts($mounts);
Kernel::become_root();
if ($arg{action} eq 'unbind') { MountPoint::detach($arg{target}) }
else {
    cover_fusermount() if $arg{direct};
    my $target = MountPoint::make($arg{target});
    Kernel::call('move_mount', $tree, $empty, $target, $empty, 4 | 0x40) if defined $tree;
}

# The image's own fusermount may not mount here. Where libfuse looks for it, this binds a replacement that needs no
# mount.
sub cover_fusermount {
    my $ours = '/.platform/agent/fuse/fusermount';
    my @ours = stat $ours or die "$ours: $!\n";
    for my $path (map { ("$_/fusermount", "$_/fusermount3") } qw(/bin /usr/bin /usr/local/bin)) {
        my @there = stat $path;
        next if !-f _ || "@there[0, 1]" eq "@ours[0, 1]";
        my $stand_in = Kernel::call('open_tree', $at_fdcwd, $ours, 1 | $cloexec);
        Kernel::call('move_mount', $stand_in, $empty, $at_fdcwd, $path, 4);
    }
}
