# Holds one bucket for one sandbox. It is the parent of one s3fs, in its own mount namespace. Only that namespace
# contains the mount, the file with the credentials, and the buffers. All of them end when the sandbox's processes have
# ended, even without a host worker.
#
# Started with `key=value` arguments that are not secret (bucket-mount.ts). Standard input, separated by NUL: the
# credentials in the form of an AWS credentials file, or of s3fs's own format for a direct mount; then the configuration
# of s3fs's container, which is empty for a direct mount (`id=`; direct-s3fs.pl). Standard output: `endpoint <the result
# of endpoint-relay.pl>`, then `ready <minor number of the mount>` or `error <the output of s3fs>`.
use strict;
use warnings;
use POSIX ();

my %arg = map { split /=/, $_, 2 } @ARGV;
my $staging = '/mnt';
my $buffers = "$staging/disk/storage";
my ($nosuid, $nodev, $noexec, $private) = (2, 4, 8, 1 << 18 | 1 << 14);
my $tail_bytes = 4096;

my ($s3fs, $relay, $asker, $ready, $credentials);
my $is_direct = exists $arg{id};
my $said = '';
$SIG{PIPE} = $SIG{HUP} = $SIG{INT} = 'IGNORE';
$SIG{TERM} = sub { end(); exit 0 };

open my $report, '>&', \*STDOUT or die $!;
open STDOUT, '>&', \*STDERR or die $!;
my ($folder) = $0 =~ m{^(.*)/};
require "$folder/$_.pl" for qw(../../mounts/kernel fuse-mount direct-s3fs isolated-s3fs endpoint-relay);
Kernel::use_processor($arg{arch});
FuseMount::open_for(\%arg);
if (!eval { hold(); 1 }) { report("error $@") }
end();
report("error $said") unless $ready;

sub hold {
    open my $sandbox, '<&=', Kernel::call('pidfd_open', $arg{init} + 0, 0) or die $!;
    join_group($_) for split /:/, $arg{cgroups};
    prepare();
    my $output = $is_direct ? start_direct() : start_isolated() // return;
    $asker = ask();
    my $grace_seconds;
    while (1) {
        my $readable = '';
        vec($readable, fileno $_, 1) = 1 for $output, $sandbox;
        my $found = select $readable, undef, undef, $asker ? 0.02 : $grace_seconds;
        return if $found > 0 && vec $readable, fileno $sandbox, 1;    # readable after the end of the sandbox's init
        if ($found > 0 && vec $readable, fileno $output, 1) {
            return if !sysread $output, my $text, 4096;
            $said = substr $said . $text, -$tail_bytes;
        }
        if ($found == 0 && defined $grace_seconds) {
            kill 'TERM', $s3fs if $s3fs;
            undef $grace_seconds;
        }
        next if !$asker || waitpid($asker, POSIX::WNOHANG()) != $asker;
        undef $asker;
        my $minor = $? == 0 ? minor() : undef;
        if (defined $minor) {
            forget_credentials();
            $ready = 1;
            report("ready $minor");
        }
        else { $grace_seconds = 1 }    # its output explains the failure; mostly it ends by itself
    }
}

sub prepare {
    Kernel::call('unshare', 0x20000);
    mount('none', '/', '', $private);
    mount('storage', $staging, 'tmpfs', $nosuid | $nodev | $noexec, 'nr_blocks=64,mode=0711');
    mkdir "$staging/$_" or die "$_: $!\n" for qw(bucket disk);
}

# s3fs buffers written data until it is uploaded. The buffer is on the sandbox's own disk, outside the sandbox's root.
sub prepare_buffers {
    mount(disk(), "$staging/disk", 'ext4', $nosuid | $nodev | $noexec);
    mkdir $buffers, 0700 or $!{EEXIST} or die "$buffers: $!\n";
    chown $arg{owner}, $arg{owner}, $buffers or die "$buffers: $!\n";
}

sub start_direct {
    $credentials = DirectS3fs::credentials(\%arg, do { local $/; <STDIN> } =~ s/\0.*//sr);
    my $fuse = FuseMount::mount_at("$staging/bucket");
    pipe my $read, my $write or die $!;
    my @options = split /\n/, $arg{options};
    $s3fs = DirectS3fs::start(\%arg, $credentials, $fuse, $write, 'passwd_file=/proc/self/fd/3', @options);
    return $read;
}

sub start_isolated {
    my ($secret, $config) = split /\0/, do { local $/; <STDIN> };
    open STDIN, '<', '/dev/null' or die $!;
    WalledS3fs::make_groups(\%arg);
    my $found = EndpointRelay::start(\%arg, "$staging/network", \$relay);
    tell_line("endpoint $found");
    return undef unless $found =~ / reached$/;
    prepare_buffers();
    $credentials = WalledS3fs::prepare(\%arg, $staging, $secret, $config);
    my $fuse = FuseMount::mount_at("$staging/bucket");
    pipe my $read, my $write or die $!;
    $s3fs = WalledS3fs::start(\%arg, $staging, $fuse, $write);
    return $read;
}

sub forget_credentials {
    if ($is_direct) { truncate $credentials, 0 or die "credentials: $!\n" }
    else { unlink $credentials or die "credentials: $!\n" }
}

sub disk {
    open my $in, '<', "/proc/$arg{shim}/mountinfo" or die "shim: $!\n";
    while (<$in>) { return $1 if m{ $staging/disk .* - ext4 (/dev/loop\d+) } }
    die "the sandbox has no disk\n";
}

sub end {
    WalledS3fs::release(\%arg, $s3fs, $relay) unless $is_direct;
    for my $pid (grep { $_ } $s3fs, $relay, $asker) { kill 'KILL', $pid; waitpid $pid, 0 }
    WalledS3fs::remove_groups(\%arg) unless $is_direct;
}

# A child reads from the mount, which answers when s3fs has reached its bucket, or never. An s3fs that was refused ends,
# but each of its waiting threads still answers one request. So the child sends more requests than s3fs has threads.
sub ask {
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    $SIG{TERM} = 'DEFAULT';
    FuseMount::become_inner_root();
    Kernel::call('prctl', 1, 9, 0, 0, 0);    # dies with its parent; a later change of user would clear this
    until (minor()) { POSIX::_exit(1) if !-e "/proc/$s3fs/exe"; select undef, undef, undef, 0.005 }
    for (1 .. 12) { opendir my $folder, "$staging/bucket" or POSIX::_exit(1) }
    POSIX::_exit(0);
}

sub minor {
    open my $in, '<', '/proc/self/mountinfo' or die $!;
    while (<$in>) { return $1 if m{^\d+ \d+ \d+:(\d+) \S+ $staging/bucket .* - fuse} }
    return undef;
}

sub report {
    tell_line(shift);
    close $report;
}

sub tell_line {
    my $text = shift =~ s/\s+/ /gr;
    syswrite $report, "$text\n";
}

# Leaves the host worker's groups, because service managers end all processes in them.
sub join_group {
    my $folder = shift;
    open my $out, '>', "$folder/cgroup.procs" or die "$folder: $!\n";
    syswrite $out, '0' or die "$folder: $!\n";
}

sub mount {
    my ($source, $target, $type, $flags, $data) = (@_, '');
    Kernel::call('mount', $source, $target, $type, $flags, $data);
}
