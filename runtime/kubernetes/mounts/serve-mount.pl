#!/usr/bin/perl
# The first process of a mount pod. It waits until the node's mount helper (join-pod.pl) sends the descriptor of a FUSE
# mount, and starts s3fs, which serves the mount. The arguments are those of s3fs.
#
# The helper connects to a socket once and receives the output of s3fs. The output is not written to the container's
# log, because it quotes answers of the storage. One byte from the helper means that the mount is in its place. Before
# this byte, the end of the connection ends s3fs; after it, s3fs runs until the mount is gone. This script loads no Perl
# module, because the image has none.
## no critic (RequireUseStrict)
my $path = '/run/platform/mount';
my ($unix, $stream, $sol_socket, $scm_rights, $no_wait) = (1, 1, 1, 1, 1);
my $is_arm = -e '/lib/ld-linux-aarch64.so.1';
my $limit_bytes = 65536;
$SIG{PIPE} = 'IGNORE';

socket my $listener, $unix, $stream, 0 or die "socket: $!\n";
bind $listener, pack 'S Z108', $unix, $path or die "$path: $!\n";
listen $listener, 1 or die "listen: $!\n";
accept my $helper, $listener or die "accept: $!\n";
close $listener;
my $fuse = descriptor();
pipe my $output, my $write or die "pipe: $!\n";
my $s3fs = fork;
die "fork: $!\n" if !defined $s3fs;
if (!$s3fs) {
    close $_ for $helper, $output;
    open STDOUT, '>&', $write;
    open STDERR, '>&', $write;
    %ENV = (PATH => '/usr/bin', HOME => '/root', LC_ALL => 'C', PLATFORM_FUSE_FD => $fuse, PLATFORM_ARCH => $is_arm ? 'arm64' : 'x64');
    open my $words, '<', '/etc/s3fs-options' or die "options: $!\n";
    chomp(my @own = <$words>);
    exec { 's3fs' } 's3fs', @ARGV, @own or die "s3fs: $!\n";
}
close $write;
# Only s3fs keeps the descriptor. When s3fs ends, the kernel closes the FUSE connection, and no process waits for s3fs.
open my $own, '+<&=', $fuse or die "fuse: $!\n";
close $own;

my ($is_placed, $is_over) = (0, 0);
while (!$is_over) {
    my $readable = '';
    vec($readable, fileno $output, 1) = 1;
    vec($readable, fileno $helper, 1) = 1 if $helper;
    next if select($readable, undef, undef, undef) < 0;
    if (vec $readable, fileno $output, 1) {
        my $got = sysread $output, my $said, 4096;
        if (!$got) { $is_over = 1 }
        elsif ($helper && $limit_bytes > 0) { syswrite $helper, $said; $limit_bytes -= $got }
    }
    elsif ($helper && vec $readable, fileno $helper, 1) {
        $is_placed = sysread $helper, my $word, 1;
        kill 'KILL', $s3fs if !$is_placed;
        close $helper;
        undef $helper;
    }
}
# Waits for the end of s3fs and of the processes that it has left.
1 while waitpid(-1, 0) > 0;
exit($is_placed ? 0 : 1);

# Waits for the descriptor of the mount and returns its number.
sub descriptor {
    my $byte = "\0";
    my $control = "\0" x 24;
    substr $control, 0, 1, "\0";
    my $vector = pack 'P Q', $byte, 1;
    my $message = pack 'Q L x4 P Q P Q l x4', 0, 0, $vector, 1, $control, length $control, 0;
    my $recvmsg = $is_arm ? 212 : 47;
    # A helper that fails, for example at the mount point, closes the connection without a descriptor.
    exit 1 if syscall($recvmsg, fileno $helper, $message, 0) != 1;
    my ($length, $level, $type, $number) = unpack 'Q l l l', $control;
    die "no descriptor\n" if $length != 20 || $level != $sol_socket || $type != $scm_rights;
    return $number;
}
