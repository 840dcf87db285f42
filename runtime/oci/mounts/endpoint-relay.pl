# Connects one isolated s3fs to its endpoint, and to nothing else, for hold-mount.pl. The relay listens in a network
# namespace that has only a loopback interface. It connects from the host's namespace, as a user without rights and in
# the group that the firewall restricts to the operator's ranges. It copies bytes unread. For each connection it
# resolves the name again and checks the address that it connects to, so changing DNS answers cannot bypass the check.
package EndpointRelay;
use strict;
use warnings;
use Errno;
use Fcntl qw(F_SETFL O_NONBLOCK);
use POSIX ();
use Socket qw(:DEFAULT IPPROTO_IPV6 IPV6_V6ONLY SOL_SOCKET SO_REUSEADDR SOMAXCONN SHUT_WR inet_pton inet_ntop getaddrinfo);

my $connection_limit = 64;
my ($lookup_seconds, $connect_seconds, $block_bytes) = (10, 5, 65536);
my ($arg, $holder);

# Starts the relay and checks the endpoint once. Announces the relay's process as soon as it exists. Returns the result
# of the check: `opened` or `public`, then `reached`, `unreachable`, `closed` (an address that may not be connected to)
# or `unresolved`.
sub start {
    ($arg, my $network_file, my $relay) = @_;
    $holder = $$;
    pipe my $read, my $write or die $!;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(PIPE HUP INT TERM);
        close $read;
        eval { serve($network_file, $write); 1 } or syswrite $write, "error $@";
        POSIX::_exit(1);
    }
    $$relay = $pid;
    close $write;
    my $found = '';
    1 while sysread $read, $found, 4096, length $found;
    return $found;
}

sub serve {
    my ($network_file, $report) = @_;
    for my $group (split /:/, $arg->{relayGroups}) { WalledS3fs::write_file("$group/cgroup.procs", '0') }
    my @listeners = listen_apart($network_file);
    become_nobody();
    syswrite $report, check();
    close $report;
    my $open = 0;
    while (1) {
        my $readable = '';
        vec($readable, fileno $_, 1) = 1 for @listeners;
        my $found = select my $ready = $readable, undef, undef, $open ? 1 : undef;
        while ($open && waitpid(-1, POSIX::WNOHANG()) > 0) { $open -= 1 }
        next if $found <= 0;
        while ($open >= $connection_limit) { waitpid(-1, 0) > 0 ? $open -= 1 : ($open = 0) }
        for my $listener (grep { vec $ready, fileno $_, 1 } @listeners) {
            accept my $client, $listener or next;
            my $pid = fork // next;
            if ($pid) { $open += 1; next }
            Kernel::call('prctl', 1, 9, 0, 0, 0);
            close $_ for @listeners;
            my $server = connect_to_endpoint();
            exchange($client, $server) if ref $server;
            POSIX::_exit(0);
        }
    }
}

# Makes the network namespace and listens there. If the endpoint is a literal address, the address is added to the
# namespace's loopback interface, because s3fs connects to it. A name resolves to 127.0.0.1 by the hosts file of s3fs.
sub listen_apart {
    my $network_file = shift;
    open my $host, '<', '/proc/self/ns/net' or die "network: $!\n";
    Kernel::call('unshare', 0x40000000);
    my ($ipv6) = map { inet_pton(AF_INET6, $_) ? $_ : () } $arg->{host};
    my $ipv4 = $ipv6 && $ipv6 =~ /^::ffff:/i ? inside_of($ipv6) : $arg->{host};
    my @lines = ('link set dev lo up');
    push @lines, "address add $ipv4/32 dev lo" if inet_pton(AF_INET, $ipv4) && $ipv4 !~ /^(127\.|0\.0\.0\.0$)/;
    push @lines, "address add $ipv6/128 dev lo nodad" if $ipv6 && $ipv4 eq $ipv6 && $ipv6 !~ /^::1?$/;
    open my $ip, '|-', 'ip', '-batch', '-' or die "ip: $!\n";
    print {$ip} map { "$_\n" } @lines;
    close $ip or die "the addresses of the relay were refused\n";
    open my $file, '>', $network_file or die "$network_file: $!\n";
    close $file;
    my ($own, $none) = ('/proc/self/ns/net', '');
    Kernel::call('mount', $own, $network_file, $none, 4096, $none);
    my @listeners = listener(AF_INET, pack_sockaddr_in($arg->{port}, INADDR_ANY));
    push @listeners, listener(AF_INET6, pack_sockaddr_in6($arg->{port}, Socket::IN6ADDR_ANY)) if $ipv6;
    Kernel::call('setns', fileno $host, 0x40000000);
    return @listeners;
}

sub listener {
    my ($family, $address) = @_;
    socket my $socket, $family, SOCK_STREAM, 0 or die "socket: $!\n";
    setsockopt $socket, IPPROTO_IPV6, IPV6_V6ONLY, 1 if $family == AF_INET6;
    bind $socket, $address and listen $socket, SOMAXCONN or die "listen: $!\n";
    return $socket;
}

sub become_nobody {
    my ($user, $group) = ($arg->{owner} + 65534, $arg->{gid});
    Kernel::call('setgroups', 0, 0);
    Kernel::call('setresgid', $group, $group, $group);
    Kernel::call('setresuid', $user, $user, $user);
    # The process dies with its parent. The setting comes after the change of user, which would clear it.
    Kernel::call('prctl', 1, 9, 0, 0, 0);
    POSIX::_exit(0) if getppid() != $holder;
    Kernel::call('prctl', 38, 1, 0, 0, 0);    # no new privileges
    Kernel::call('prctl', 4, 0, 0, 0, 0);     # must not be read or traced
}

sub check {
    my ($wrong, @addresses) = addresses();
    my $is_opened = grep { in_ranges($_, $arg->{allowed}) } @addresses;
    my $where = $is_opened ? 'opened' : 'public';
    return "$where $wrong" if $wrong;
    return "$where " . (ref connect_to_endpoint() ? 'reached' : 'unreachable');
}

# A socket, or the reason why there is none. An address of the platform's own services, or of a sandbox, counts as
# unreachable, so that a caller cannot learn which ports of the platform are open.
sub connect_to_endpoint {
    my ($wrong, @addresses) = addresses();
    return $wrong if $wrong;
    for my $address (grep { !is_own_service($_) && !in_ranges($_, $arg->{never}) } @addresses) {
        my $socket = connect_in_time($address);
        return $socket if $socket;
    }
    return 'unreachable';
}

sub connect_in_time {
    my $address = shift;
    my $ipv6 = length $address == 16;
    socket my $socket, $ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0 or return undef;
    fcntl $socket, F_SETFL, O_NONBLOCK or return undef;
    my $peer = $ipv6 ? pack_sockaddr_in6($arg->{port}, $address) : pack_sockaddr_in($arg->{port}, $address);
    if (!connect $socket, $peer) {
        return undef unless $!{EINPROGRESS};
        vec(my $writable = '', fileno $socket, 1) = 1;
        return undef if select(undef, $writable, undef, $connect_seconds) <= 0;
        return undef if unpack('i', getsockopt $socket, SOL_SOCKET, Socket::SO_ERROR()) != 0;
    }
    return $socket;
}

# The packed addresses of the endpoint. IPv4 comes first because it is faster. An IPv4 address in an IPv6 form counts as
# IPv4.
sub addresses {
    local $SIG{ALRM} = 'DEFAULT';
    alarm $lookup_seconds;
    my ($error, @found) = getaddrinfo($arg->{host}, $arg->{port}, { socktype => SOCK_STREAM });
    alarm 0;
    return 'unresolved' if $error || !@found;
    my %seen;
    my @addresses = grep { !$seen{$_}++ } map { plain($_) } @found;
    return 'closed', @addresses if grep { !is_open($_) } @addresses;
    return '', sort { length $a <=> length $b } @addresses;
}

sub plain {
    my $found = shift;
    return (unpack_sockaddr_in($found->{addr}))[1] if $found->{family} == AF_INET;
    my $address = (unpack_sockaddr_in6($found->{addr}))[1];
    return substr($address, 0, 12) eq "\0" x 10 . "\xff\xff" ? substr $address, 12 : $address;
}

sub inside_of { return inet_ntop(AF_INET, substr inet_pton(AF_INET6, shift), 12) }

# The same rules as in domain/outbound-addresses.ts, which also supplies the ranges.
sub is_open {
    my $address = shift;
    return 1 if in_ranges($address, $arg->{allowed});
    return 0 if is_local($address) || in_ranges($address, $arg->{closed});
    return length $address == 4 || in_ranges($address, $arg->{publicIpv6});
}

sub in_ranges {
    my ($address, $ranges) = @_;
    for my $range (split /,/, $ranges // '') {
        my ($base, $bits) = split m{/}, $range;
        my $packed = inet_pton($base =~ /:/ ? AF_INET6 : AF_INET, $base) // next;
        next if length $packed != length $address;
        return 1 if substr(unpack('B*', $packed), 0, $bits) eq substr unpack('B*', $address), 0, $bits;
    }
    return 0;
}

sub is_own_service {
    my $address = shift;
    for my $service (split /,/, $arg->{ownServices} // '') {
        my ($host, $port) = $service =~ /^\[?(.*?)\]?:(\d+)$/ or next;
        next if $port != $arg->{port};
        return 1 if $host eq 'local' ? is_local($address) : in_ranges($address, $host . ($host =~ /:/ ? '/128' : '/32'));
    }
    return 0;
}

# An address can be bound only if it belongs to this machine.
sub is_local {
    my $address = shift;
    my $ipv6 = length $address == 16;
    socket my $socket, $ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0 or return 0;
    return bind $socket, $ipv6 ? pack_sockaddr_in6(0, $address) : pack_sockaddr_in(0, $address);
}

# Copies in both directions until both have ended.
sub exchange {
    my @sides = @_;
    my @waiting = ('', '');
    my @ended = (0, 0);
    fcntl $_, F_SETFL, O_NONBLOCK for @sides;
    while (grep { !$_ } @ended) {
        my ($readable, $writable) = ('', '');
        for my $from (0, 1) {
            my $to = 1 - $from;
            if (length $waiting[$from]) { vec($writable, fileno $sides[$to], 1) = 1 }
            elsif (!$ended[$from]) { vec($readable, fileno $sides[$from], 1) = 1 }
        }
        select $readable, $writable, undef, undef;
        for my $from (0, 1) {
            my $to = 1 - $from;
            if (length $waiting[$from] && vec $writable, fileno $sides[$to], 1) {
                my $sent = syswrite $sides[$to], $waiting[$from];
                return if !defined $sent && !$!{EAGAIN};
                substr($waiting[$from], 0, $sent // 0) = '';
            }
            elsif (!length $waiting[$from] && !$ended[$from] && vec $readable, fileno $sides[$from], 1) {
                my $got = sysread $sides[$from], $waiting[$from], $block_bytes;
                next if !defined $got && $!{EAGAIN};
                return if !defined $got;
                if ($got == 0) { $ended[$from] = 1; shutdown $sides[$to], SHUT_WR }
            }
        }
    }
}

1;
