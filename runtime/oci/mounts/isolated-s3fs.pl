# The usual form of a mount, for hold-mount.pl: the host's s3fs in its own container (s3fs-container.ts). Its network
# namespace contains only the relay to its endpoint, and its memory and processor use is charged to the sandbox.
package WalledS3fs;
use strict;
use warnings;
use Errno;
use POSIX ();

# Prepares the files of the container's configuration below `staging`. Returns the file for the credentials.
sub prepare {
    my ($arg, $staging, $credentials, $config) = @_;
    my $owner = $arg->{owner};
    write_file("$staging/config.json", $config);
    write_file("$staging/hosts", "127.0.0.1 localhost $arg->{host}\n");
    mkdir "$staging/$_" or die "$_: $!\n" for qw(root certificates hidden home home/.aws);
    mount($arg->{root}, "$staging/root");
    # Distributions have the machine's certificates in different folders.
    write_file("$staging/certificates/ca-certificates.crt", '');
    mount($arg->{certificates}, "$staging/certificates/ca-certificates.crt") if $arg->{certificates};
    my $file = "$staging/home/.aws/credentials";
    write_file($file, $credentials);
    for my $each ("$staging/home", "$staging/home/.aws", $file) { chown $owner, $owner, $each or die "$each: $!\n" }
    chmod 0400, $file or die "$file: $!\n";
    chmod 0711, $staging or die "$staging: $!\n";    # the container's root user must pass through this folder
    if ($arg->{hide}) { mount("$staging/hidden", $arg->{hide}) }
    return $file;
}

# Returns the host process number of s3fs.
sub start {
    my ($arg, $staging, $fuse, $output) = @_;
    pipe my $input, my $closed or die $!;
    # The runtime's errors, such as a wrong configuration or a missing s3fs, go to the same pipe as the errors of s3fs.
    my @runtime = ($arg->{runtime}, '--root', "$staging/run");
    my @create = ('create', '--bundle', $staging, '--pid-file', "$staging/s3fs.pid", '--preserve-fds', 1, 's3fs');
    run($input, $output, $fuse, $arg->{oomScore}, @runtime, @create) == 0 or return undef;
    open my $in, '<', "$staging/s3fs.pid" or die "s3fs: $!\n";
    my ($pid) = <$in> =~ /(\d+)/;
    # The runtime uses one path for all hierarchies. Memory and processor use is counted below the sandbox's own group.
    for my $group (split /:/, $arg->{charged}) { write_file("$group/cgroup.procs", $pid) }
    run($input, $output, $fuse, undef, @runtime, 'start', 's3fs');
    return $pid;
}

sub make_groups {
    my $arg = shift;
    for my $group (split /:/, $arg->{madeGroups}) { make_folder($group) }
    for (split /,/, $arg->{limits}) { my ($file, $value) = split /=/; write_file($file, $value) }
}

sub make_folder {
    my $folder = shift;
    return if -d $folder;
    make_folder($folder =~ s{/[^/]+$}{}r);
    mkdir $folder or $!{EEXIST} or die "$folder: $!\n";
}

# On version 1, even a killed process stays in a frozen group. So the processes of a paused sandbox are moved out to
# die.
sub release {
    my ($arg, @pids) = @_;
    return unless $arg->{freezerRoot};
    for my $pid (grep { $_ } @pids) { eval { write_file("$arg->{freezerRoot}/cgroup.procs", $pid) } }
}

sub remove_groups {
    my $arg = shift;
    for my $folder (split /:/, $arg->{allGroups}) {
        for (1 .. 100) { last if !-d $folder || rmdir $folder || !$!{EBUSY}; select undef, undef, undef, 0.01 }
        rmdir $folder =~ s{/[^/]+$}{}r if $folder =~ m{/storage/[^/]+/[^/]+$};
    }
}

sub run {
    my ($input, $output, $fuse, $oom_score, @words) = @_;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(PIPE HUP INT TERM);
        eval {
            Kernel::call('prctl', 1, 9, 0, 0, 0);
            write_file('/proc/self/oom_score_adj', $oom_score) if defined $oom_score;
            FuseMount::move_to(0 => $input, 1 => $output, 2 => $output, 3 => $fuse);
            1;
        } and exec { $words[0] } @words;
        warn "$words[0]: $@ $!\n";
        POSIX::_exit(127);
    }
    waitpid $pid, 0;
    return $?;
}

sub mount {
    my ($source, $target) = @_;
    my ($bind_recursively, $none) = (4096 | 16384, '');
    Kernel::call('mount', $source, $target, $none, $bind_recursively, $none);
}

sub write_file {
    my ($path, $text) = @_;
    open my $out, '>', $path or die "$path: $!\n";
    defined syswrite $out, $text or die "$path: $!\n";
    close $out or die "$path: $!\n";
}

1;
