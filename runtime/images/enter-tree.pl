#!/usr/bin/perl
# enter-tree.pl TREE PROGRAM ARGS…
# Executes PROGRAM in TREE as a root with few capabilities: it may own files there, but cannot mount, make devices, load
# modules, or leave TREE. It runs untrusted programs: the installers of packages.
use strict;
use warnings;
use POSIX ();

my %prctl = (x86_64 => 157, aarch64 => 167);
my $prctl = $prctl{(POSIX::uname())[4]} // die "this processor is not known\n";
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID; apt fetches packages as another user.
my %kept = map { $_ => 1 } 0, 1, 3, 4, 5, 6, 7;

my ($tree, @words) = @ARGV;
chroot $tree or die "chroot $tree: $!\n";
chdir '/' or die "chdir: $!\n";
open my $file, '<', '/proc/sys/kernel/cap_last_cap' or die "capabilities: $!\n";
my $last = <$file>;
close $file;
for my $capability (0 .. $last) {
    next if $kept{$capability};
    syscall($prctl, 24, $capability, 0, 0, 0) == 0 or die "drop capability $capability: $!\n";
}
syscall($prctl, 38, 1, 0, 0, 0) == 0 or die "no new privileges: $!\n";
exec @words or die "$words[0]: $!\n";
