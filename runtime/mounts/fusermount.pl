#!/usr/bin/perl
# libfuse runs this program as `fusermount` beside the host's s3fs. hold-mount.pl has already made the mount and left
# its descriptor open in s3fs and its children. So this program only sends the descriptor over libfuse's socket. It
# loads no module, because the root folder of s3fs contains none, not even strict.pm.
## no critic (RequireUseStrict)
exit 0 if grep { /^-[a-z]*u/ } @ARGV;
my ($byte, $sol_socket, $scm_rights) = ("\0", 1, 1);
my $vector = pack 'P Q', $byte, 1;
my $control = pack 'Q l l l x4', 20, $sol_socket, $scm_rights, $ENV{PLATFORM_FUSE_FD};
my $message = pack 'Q L x4 P Q P Q l x4', 0, 0, $vector, 1, $control, length $control, 0;
my $sendmsg = $ENV{PLATFORM_ARCH} eq 'arm64' ? 211 : 46;
syscall($sendmsg, $ENV{_FUSE_COMMFD} + 0, $message, 0) == 1 or die "the descriptor could not be sent: $!\n";
