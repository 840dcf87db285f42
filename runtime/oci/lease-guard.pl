#!/usr/bin/perl
# Freezes all sandboxes of a host when the host's lease was not renewed in time, or when their writes are about to use
# the platform's reserve on the disk. It works in every state of the host worker: killed, stopped, hanging or without
# network. It never thaws sandboxes. The worker thaws them when it has its lease and the disk has space.
#
# Arguments: the lease's file, the file and the text that freeze the group of all sandboxes, the folder of their disks,
# the number of the system call statfs, the group's memory.stat, the folders of control groups that the guard moves to.
# The lease's file contains the time at which the lease ends, in seconds since the machine booted, and the number of the
# disk's bytes that must stay free. The guard exits when the file is gone.
use strict;
use warnings;
use Fcntl qw(:flock);

my ($lease, $freezer, $frozen, $folder, $statfs, $memory, @groups) = @ARGV;
my ($longest_pause, $shortest_pause, $bytes_per_second) = (0.25, 0.02, 4e9);
$0 = "lease-guard $lease";
$SIG{HUP} = $SIG{INT} = 'IGNORE';

open my $lock, '>>', "$lease.lock" or die "$lease.lock: $!";
exit 0 unless flock $lock, LOCK_EX | LOCK_NB;    # another guards already
for my $group (@groups) { write_file("$group/cgroup.procs", '0') or warn "join $group: $!\n" }

while (my ($until, $floor) = words($lease)) {
    my ($now) = words('/proc/uptime');
    my $left = free_bytes() - ($floor // 0);
    # Written data counts even if it is not on the disk yet. It is only read when it can matter.
    $left -= unwritten_bytes() if $left < $bytes_per_second;
    if (($now > $until || $left < 0) && ((words($freezer))[0] // '') ne $frozen) {
        write_file($freezer, $frozen) or $!{ENOENT} or warn "freeze: $!\n";
    }
    # The next check comes before the fastest disk could have used up the remaining space.
    my $pause = $left / $bytes_per_second;
    $pause = $longest_pause if $pause > $longest_pause;
    $pause = $shortest_pause if $pause < $shortest_pause;
    select undef, undef, undef, $pause;
}

# The free bytes, without those that the file system reserves for root.
sub free_bytes {
    my $answer = "\0" x 256;
    return 9e18 if syscall($statfs + 0, $folder, $answer) != 0;
    my (undef, $block, undef, undef, $available) = unpack 'q5', $answer;
    return $block * $available;
}

sub unwritten_bytes {
    open my $in, '<', $memory or return 0;
    my $sum = 0;
    while (<$in>) { $sum += $1 if /^(?:total_dirty|total_writeback|file_dirty|file_writeback) (\d+)$/ }
    return $sum;
}

sub words {
    open my $in, '<', shift or return;
    return split ' ', scalar(<$in>) // '';
}

sub write_file {
    my ($path, $text) = @_;
    open my $out, '>', $path or return 0;
    return defined syswrite $out, $text;
}
