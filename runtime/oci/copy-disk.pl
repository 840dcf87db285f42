#!/usr/bin/perl
# Copies the disk of a sandbox at one moment, while the sandbox's processes are frozen.
#
# Arguments, as `key=value`: arch; folder: the mounted disk; disk: its file; target: the copy; warmBytes; seconds; thaw:
# files of the freezers, separated by colons, or empty if the sandbox is to stay frozen; thawText; groups.
#
# While the sandbox runs, the program writes the kernel's dirty pages to the disk, reads the file into the page cache,
# and prints `ready`. The host worker freezes the sandbox and answers with a line. Then the sandbox's last writes go to
# the disk. The kernel drops exactly those pages from the cache, so most of the copy comes from memory. The program
# thaws the sandbox and prints `copied <bytes>`.
#
# The copy is consistent: no process of the sandbox runs, no dirty pages are left, and the device counts no write
# between the begin and the end of the copy. Otherwise the copy is repeated.
#
# It is a separate process, so that the sandbox continues even if the host worker dies. The end of standard input thaws
# the sandbox, and so do an error, a signal and the time limit.
use strict;
use warnings;
use Errno;
use Fcntl qw(:seek O_RDONLY O_WRONLY O_CREAT O_TRUNC O_DIRECTORY O_NOFOLLOW);

my %arg = map { split /=/, $_, 2 } @ARGV;
my ($syncfs, $chunk, $tries) = ($arg{arch} eq 'arm64' ? 267 : 306, 1 << 20, 5);
$SIG{PIPE} = $SIG{HUP} = $SIG{INT} = 'IGNORE';
$SIG{TERM} = sub { die "stopped\n" };
$SIG{ALRM} = sub { die "the disk could not be copied in $arg{seconds} seconds\n" };
for my $group (split /:/, $arg{groups}) {
    eval { write_file("$group/cgroup.procs", '0'); 1 } or warn "join $group: $@";
}
$| = 1;

my $copied = eval { copy() };
my $reason = $@;
thaw();
if (!defined $copied) { print STDERR $reason; exit 1 }
print "copied $copied\n";

sub copy {
    sysopen my $mounted, $arg{folder}, O_RDONLY | O_DIRECTORY or die "$arg{folder}: $!\n";
    sysopen my $in, $arg{disk}, O_RDONLY | O_NOFOLLOW or die "$arg{disk}: $!\n";
    sysopen my $out, $arg{target}, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600 or die "$arg{target}: $!\n";
    truncate $out, -s $in or die "$arg{target}: $!\n";
    bring_to_disk($mounted);
    my $left = $arg{warmBytes};
    each_part($in, sub { ($left -= length ${ $_[1] }) > 0 });
    bring_to_disk($mounted);
    print "ready\n";
    defined(readline STDIN) or die "the host worker is gone\n";
    alarm $arg{seconds};
    for (1 .. $tries) {
        bring_to_disk($mounted);
        my ($before, $bytes) = (writes($mounted), 0);
        # A file system that shares blocks between files (XFS, Btrfs) needs no copy.
        if (!ioctl $out, 0x40049409, fileno $in) {
            each_part($in, sub {
                my ($at, $part) = @_;
                sysseek $out, $at, SEEK_SET;
                (syswrite($out, ${$part}) // -1) == length ${$part} or die "$arg{target}: $!\n";
                $bytes += length ${$part};
                return 1;
            });
        }
        return $bytes if writes($mounted) == $before;
    }
    die "the disk did not come to rest\n";
}

# Calls back with the offset and the content of every part of a file that is not a hole, until the callback returns
# false.
sub each_part {
    my ($in, $act) = @_;
    my ($seek_data, $seek_hole, $end) = (3, 4, 0);
    while (defined(my $at = sysseek $in, $end, $seek_data)) {
        $end = sysseek $in, $at, $seek_hole;
        sysseek $in, $at, SEEK_SET;
        for (my $place = $at + 0; $place < $end;) {
            my $wanted = $end - $place < $chunk ? $end - $place : $chunk;
            my $length = sysread $in, my $part, $wanted or die "$arg{disk}: $!\n";
            $act->($place, \$part) or return;
            $place += $length;
        }
    }
    die "$arg{disk}: $!\n" unless $!{ENXIO};
}

sub bring_to_disk {
    my $mounted = shift;
    syscall($syncfs, fileno $mounted) == 0 or die "sync: $!\n";
}

# The number of writes that the device of the disk has completed.
sub writes {
    my $device = (stat shift)[0];
    my ($major, $minor) = ($device >> 8 & 0xfff, $device & 0xff | $device >> 12 & 0xfff00);
    open my $in, '<', "/sys/dev/block/$major:$minor/stat" or die "device: $!\n";
    return (split ' ', readline $in)[4];
}

sub thaw {
    for my $file (split /:/, $arg{thaw}) {
        eval { write_file($file, $arg{thawText}); 1 } or $!{ENOENT} or $!{ENODEV} or warn "thaw: $@";
    }
}

sub write_file {
    my ($path, $text) = @_;
    open my $out, '>', $path or die "$path: $!\n";
    defined syswrite $out, $text or die "$path: $!\n";
}
