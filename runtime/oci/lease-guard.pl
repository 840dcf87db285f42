#!/usr/bin/perl
# Makes all sandboxes of a host stand still when the host's lease was not renewed in time, whatever has become of the
# host worker: killed, stopped, hanging or cut off. It never lets them go on; the worker does, once it has its lease.
#
# Arguments: the lease's file, the file and the text that freeze the group of all sandboxes, the folders of control
# groups it moves to. The file says until when, in seconds since the machine booted; the guard ends when it is gone.
use strict;
use warnings;
use Fcntl qw(:flock);

my ($lease, $freezer, $frozen, @groups) = @ARGV;
$0 = "lease-guard $lease";
$SIG{HUP} = $SIG{INT} = 'IGNORE';

open my $lock, '>>', "$lease.lock" or die "$lease.lock: $!";
exit 0 unless flock $lock, LOCK_EX | LOCK_NB;    # another guards already
for my $group (@groups) { write_file("$group/cgroup.procs", '0') or warn "join $group: $!\n" }

while (defined(my $until = first_word($lease))) {
    my $now = first_word('/proc/uptime');
    if ($now > $until && (first_word($freezer) // '') ne $frozen) {
        write_file($freezer, $frozen) or $!{ENOENT} or warn "freeze: $!\n";
    }
    select undef, undef, undef, 0.25;
}

sub first_word {
    open my $in, '<', shift or return undef;
    my ($word) = split ' ', scalar(<$in>) // '';
    return $word;
}

sub write_file {
    my ($path, $text) = @_;
    open my $out, '>', $path or return 0;
    return defined syswrite $out, $text;
}
