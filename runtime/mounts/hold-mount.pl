# Holds one bucket for one sandbox: the parent of one s3fs, in a mount namespace of its own, where the mount, the file
# with the credentials and the buffers are on nobody else's tree. All of it goes when the sandbox's processes have gone,
# whether or not a host worker is there to see to it.
#
# Started with `key=value` arguments, none secret (bucket-mount.ts); the credentials come on standard input, in the form
# of an AWS credentials file, or of s3fs's own for a direct mount (`runtime=`; direct-s3fs.pl). On standard output:
# `ready <minor number of the mount>` or `error <what s3fs said>`.
use strict;
use warnings;
use FindBin ();
use POSIX ();

my %arg = map { split /=/, $_, 2 } @ARGV;
my $staging = '/mnt';
my $buffers = "$staging/disk/storage";
my %nr = (
    pidfd_open => 434,
    $arg{arch} eq 'arm64' ? (unshare => 97, mount => 40, prctl => 167) : (unshare => 272, mount => 165, prctl => 157),
);
my ($nosuid, $nodev, $noexec, $bind, $private) = (2, 4, 8, 4096, 1 << 18 | 1 << 14);
my $tail_bytes = 4096;

my ($s3fs, $asker, $ready, $credentials);
my $is_direct = exists $arg{runtime};
my $said = '';
$SIG{PIPE} = $SIG{HUP} = $SIG{INT} = 'IGNORE';
$SIG{TERM} = sub { end(); exit 0 };

open my $report, '>&', \*STDOUT or die $!;
open STDOUT, '>&', \*STDERR or die $!;
if (!eval { hold(); 1 }) { report("error $@") }
end();
report("error $said") unless $ready;

sub hold {
    open my $sandbox, '<&=', handle('pidfd_open', syscall $nr{pidfd_open}, $arg{init} + 0, 0) or die $!;
    join_group($_) for split /:/, $arg{cgroups};
    prepare();
    my $output = $is_direct ? start_direct() : start();
    $asker = ask();
    my $grace_seconds;
    while (1) {
        my $readable = '';
        vec($readable, fileno $_, 1) = 1 for $output, $sandbox;
        my $found = select $readable, undef, undef, $asker ? 0.02 : $grace_seconds;
        return if $found > 0 && vec $readable, fileno $sandbox, 1;    # it is readable once the sandbox's init has ended
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
        else { $grace_seconds = 1 }    # what it says until its end tells why; mostly it ends by itself
    }
}

sub prepare {
    system_call('unshare', 0x20000);
    mount('none', '/', '', $private);
    mount('storage', $staging, 'tmpfs', $nosuid | $nodev | $noexec, 'size=256k,mode=0700');
    mkdir "$staging/$_" or die "$_: $!\n" for qw(bucket disk home home/.aws);
    prepare_s3fs() unless $is_direct;
}

sub prepare_s3fs {
    # What is written is kept until it has been sent: on the sandbox's own disk, beside what the sandbox sees of it.
    mount(disk(), "$staging/disk", 'ext4', $nosuid | $nodev | $noexec);
    mkdir $buffers, 0700 or $!{EEXIST} or die "$buffers: $!\n";
    umask 077;
    $credentials = "$staging/home/.aws/credentials";
    open my $out, '>', $credentials or die "credentials: $!\n";
    print {$out} do { local $/; <STDIN> };
    close $out or die "credentials: $!\n";
    open STDIN, '<', '/dev/null' or die $!;
    mount("$staging/home", (getpwuid $<)[7], '', $bind);    # where s3fs looks for it
}

sub start_direct {
    require "$FindBin::Bin/direct-s3fs.pl";
    DirectS3fs::open_for(\%arg);
    $credentials = DirectS3fs::credentials(do { local $/; <STDIN> });
    chmod 0711, $staging or die "$staging: $!\n";    # the sandbox's root asks the mount; nothing secret lies here
    my $fuse = DirectS3fs::mount_at("$staging/bucket");
    pipe my $read, my $write or die $!;
    my @owner = ('allow_other', 'uid=0', 'gid=0', 'umask=0000');
    $s3fs = DirectS3fs::start($credentials, $fuse, $write, 'passwd_file=/proc/self/fd/3', @owner, connection());
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

sub start {
    pipe my $read, my $write or die $!;
    $s3fs = fork // die "fork: $!\n";
    return $read if $s3fs;
    $SIG{$_} = 'DEFAULT' for qw(PIPE HUP INT TERM);
    open STDOUT, '>&', $write and open STDERR, '>&', $write or die $!;
    # The firewall knows s3fs by its group.
    $( = $arg{gid};
    $) = "$arg{gid} $arg{gid}";
    system_call('prctl', 1, 9, 0, 0, 0);    # it dies with its parent
    umask 0;
    exec { 's3fs' } 's3fs', $arg{source}, "$staging/bucket", '-f', map { ('-o', $_) } options() or warn "s3fs: $!\n";
    POSIX::_exit(127);
}

sub options {
    my @owner = ('allow_other', "uid=$arg{owner}", "gid=$arg{owner}", 'umask=0000', 'nosuid', 'nodev');
    return @owner, "tmpdir=$buffers", connection();
}

sub connection {
    my @patience = ('connect_timeout=10', 'readwrite_timeout=30', 'retries=3');
    my @memory = ('stat_cache_expire=10', 'max_stat_cache_size=20000');
    my @options = (@patience, @memory, "url=$arg{url}", 'sigv4');
    push @options, "endpoint=$arg{region}" if $arg{region};
    push @options, 'use_path_request_style' if $arg{pathStyle};
    return @options;
}

sub end {
    for my $pid (grep { $_ } $s3fs, $asker) { kill 'KILL', $pid; waitpid $pid, 0 }
}

# A child asks the mount, which answers once s3fs has reached its bucket; it may never. One that was refused ends, but
# each of its threads that waits for a request answers one more: so it is asked more often than it has threads.
sub ask {
    my $pid = fork // die "fork: $!\n";
    return $pid if $pid;
    $SIG{TERM} = 'DEFAULT';
    system_call('prctl', 1, 9, 0, 0, 0);
    DirectS3fs::become_inner_root() if $is_direct;
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
    my $text = shift =~ s/\s+/ /gr;
    syswrite $report, "$text\n";
    close $report;
}

# Service managers end what is in the host worker's groups.
sub join_group {
    my $folder = shift;
    open my $out, '>', "$folder/cgroup.procs" or die "$folder: $!\n";
    syswrite $out, '0' or die "$folder: $!\n";
}

sub mount {
    my ($source, $target, $type, $flags, $data) = (@_, '');
    system_call('mount', $source, $target, $type, $flags, $data);
}

# Arguments that are texts must be variables, never literals.
sub system_call {
    my ($name, @values) = @_;
    syscall($nr{$name}, @values) == 0 or die "$name: $!\n";
}

sub handle {
    my ($what, $fd) = @_;
    die "$what: $!\n" if $fd < 0;
    return $fd;
}
