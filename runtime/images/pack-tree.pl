#!/usr/bin/perl
# Writes a tree of files as the tar archive of an image's layer to standard output.
#
# Arguments, as `key=value`: arch; folder: the tree; changes: 1 if the tree is the upper layer of an overlay, whose
# marks are converted to those of images; disk: a file with an ext4 file system that contains the tree, in which
# `folder` is then found; maxFiles. Exits with 3 and a message if the tree contains something that an image cannot hold.
#
# It is started in its own mount namespace. The tree is untrusted: nothing in it is followed or executed, names are
# bytes, and all sizes are bounded.
use strict;
use warnings;
use Errno;
use Fcntl qw(:mode :seek O_RDONLY O_RDWR O_NOFOLLOW O_NONBLOCK);

my %arg = map { split /=/, $_, 2 } @ARGV;
my %nr = $arg{arch} eq 'arm64'
    ? (mount => 40, lgetxattr => 9, llistxattr => 12)
    : (mount => 165, lgetxattr => 192, llistxattr => 195);
# Longer names cannot be unpacked by path.
my ($max_path, $max_parts, $chunk) = (3800, 1 << 20, 1 << 20);
# The largest numbers in the fields of a header.
my ($max_size, $max_id) = (8**11 - 1, 8**7 - 1);
my ($files, %first_name) = (0);
binmode STDOUT;
$SIG{PIPE} = 'DEFAULT';

if (!eval { main(); 1 }) {
    print STDERR ref $@ ? ${ $@ } : $@;
    exit(ref $@ ? 3 : 1);
}

sub refuse { my $reason = shift; die \$reason }

sub main {
    chdir(mount_disk() // '/') or die "mount: $!\n";
    chdir $arg{folder} or die "$arg{folder}: $!\n";
    add('./');
    put("\0" x 1024);
    close STDOUT or die "write: $!\n";
}

# A loop device that detaches itself when this process, and with it the mount namespace, ends. The mount replays the
# journal, which is safe because the file is a copy.
sub mount_disk {
    return undef if !$arg{disk};
    my ($read_only, $nosuid, $nodev, $noexec) = (1, 2, 4, 8);
    sysopen my $disk, $arg{disk}, O_RDWR | O_NOFOLLOW or die "$arg{disk}: $!\n";
    sysopen my $control, '/dev/loop-control', O_RDWR or die "loop-control: $!\n";
    for (1 .. 100) {
        my $number = ioctl $control, 0x4C82, 0 or die "no free loop device: $!\n";
        my $device = '/dev/loop' . ($number + 0);
        sysopen my $loop, $device, O_RDWR or die "$device: $!\n";
        my $info = pack 'Q5 L4 a64 a64 a32 Q2', (0) x 8, 4, 'build', '', '', 0, 0;
        my $config = pack('L2', fileno $disk, 4096) . $info . pack 'Q8', (0) x 8;
        if (!ioctl $loop, 0x4C0A, $config) { die "$device: $!\n" unless $!{EBUSY}; next }
        my ($target, $type, $options) = ('/mnt', 'ext4', '');
        my $flags = $read_only | $nosuid | $nodev | $noexec;
        syscall($nr{mount}, $device, $target, $type, $flags, $options) == 0 or die "mount the disk: $!\n";
        return $target;
    }
    die "all loop devices are taken at once\n";
}

# Names are relative to the current folder, and names of folders end with a slash. The loop avoids recursion, because a
# tree may be deep.
sub add {
    my @left = @_;
    while (defined(my $name = pop @left)) {
        my @stat = lstat $name or die shown($name) . ": $!\n";
        my $mode = $stat[2];
        if (S_ISDIR($mode)) {
            add_folder($name, \@stat);
            push @left, entries($name);
        }
        elsif (S_ISREG($mode)) { add_file($name, \@stat) }
        elsif (S_ISLNK($mode)) { add_link($name, \@stat) }
        elsif (S_ISFIFO($mode)) { put_header({ name => $name, type => '6' }, \@stat, 1) }
        elsif (S_ISCHR($mode) && $stat[6] == 0) { add_deletion($name, \@stat) }
        elsif (!$arg{changes} && (S_ISCHR($mode) || S_ISBLK($mode))) { add_device($name, \@stat) }
        # Sockets belong to processes, which an image does not contain. An upper layer has no other devices.
    }
}

# The entries in reverse order, so that the order is always the same.
sub entries {
    my $folder = shift;
    my $start = $folder eq './' ? '' : $folder;
    opendir my $handle, $folder or die shown($folder) . ": $!\n";
    my @found;
    while (defined(my $entry = readdir $handle)) {
        next if $entry eq '.' || $entry eq '..';
        refuse("more than $arg{maxFiles} files") if ++$files > $arg{maxFiles};
        refuse('a name that begins with .wh., which images keep for themselves: ' . shown("$start$entry"))
            if $entry =~ /^\.wh\./;
        refuse('a path that is too long: ' . shown("$start$entry")) if length "$start$entry" > $max_path;
        push @found, "$start$entry";
    }
    return map { !-l $_ && -d _ ? "$_/" : $_ } sort { $b cmp $a } @found;
}

sub add_folder {
    my ($name, $stat) = @_;
    my $marks = put_header({ name => $name, type => '5' }, $stat, 1);
    put_header({ name => "$name.wh..wh..opq", type => '0', size => 0 }, $stat) if $marks->{opaque};
}

sub add_deletion {
    my ($name, $stat) = @_;
    my ($folder, $last) = $name =~ m{^(.*/)?([^/]+)$}s;
    put_header({ name => ($folder // '') . ".wh.$last", type => '0', size => 0 }, $stat) if $arg{changes};
}

sub add_link {
    my ($name, $stat) = @_;
    my $link = readlink($name) // die shown($name) . ": $!\n";
    put_header({ name => $name, type => '2', link => $link }, $stat, 1);
}

sub add_device {
    my ($name, $stat) = @_;
    my $device = $stat->[6];
    my @numbers = ($device >> 8 & 0xfff, $device & 0xff | $device >> 12 & 0xfff00);
    put_header({ name => $name, type => S_ISCHR($stat->[2]) ? '3' : '4', device => \@numbers }, $stat, 1);
}

sub add_file {
    my ($name, $stat) = @_;
    if ($stat->[3] > 1) {
        my $inode = "$stat->[0]:$stat->[1]";
        if (defined(my $first = $first_name{$inode})) {
            put_header({ name => $name, type => '1', link => $first }, $stat);
            return;
        }
        $first_name{$inode} = $name;
    }
    sysopen my $in, $name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK or die shown($name) . ": $!\n";
    my $size = $stat->[7];
    my $parts = $stat->[12] * 512 < $size ? parts_of($in, $name) : undef;
    if (!$parts) {
        put_header({ name => $name, type => '0', size => $size }, $stat, 1);
        put_part($in, 0, $size, $name);
        pad($size);
        return;
    }
    my $map = join "\n", scalar @{$parts}, (map { @{$_} } @{$parts}), '';
    $map .= "\0" x (-length($map) % 512);
    my $bytes = length $map;
    $bytes += $_->[1] for @{$parts};
    my %sparse = ('GNU.sparse.major' => 1, 'GNU.sparse.minor' => 0, 'GNU.sparse.name' => $name,
        'GNU.sparse.realsize' => $size);
    put_header({ name => $name, type => '0', size => $bytes, records => \%sparse }, $stat, 1);
    put($map);
    put_part($in, @{$_}, $name) for @{$parts};
    pad($bytes);
}

# Offsets and lengths of the parts with data. The last part is empty if the file ends with a hole.
sub parts_of {
    my ($in, $name) = @_;
    my ($seek_data, $seek_hole, $end, @parts) = (3, 4, 0);
    while (defined(my $at = sysseek $in, $end, $seek_data)) {
        $end = sysseek $in, $at, $seek_hole;
        push @parts, [$at + 0, $end - $at];
        refuse('a file with too many holes: ' . shown($name)) if @parts > $max_parts;
    }
    die shown($name) . ": $!\n" unless $!{ENXIO};
    my $size = -s $in;
    push @parts, [$size, 0] if !@parts || $parts[-1][0] + $parts[-1][1] < $size;
    return \@parts;
}

sub put_part {
    my ($in, $at, $length, $name) = @_;
    sysseek $in, $at, SEEK_SET;
    while ($length > 0) {
        my $read = sysread $in, my $part, $length < $chunk ? $length : $chunk;
        die shown($name) . ': ' . ($! || 'shorter than it was') . "\n" if !$read;
        put($part);
        $length -= $read;
    }
}

# Writes the header of an entry, after an extended header for everything that ustar cannot represent.
sub put_header {
    my ($entry, $stat, $has_attributes) = @_;
    my %record = %{ $entry->{records} // {} };
    my $marks = $has_attributes ? add_attributes(\%record, $entry->{name}) : {};
    my ($name, $link, $size) = ($entry->{name}, $entry->{link} // '', $entry->{size} // 0);
    my ($uid, $gid) = @{$stat}[4, 5];
    # Times before 1970 become 1970, because ustar has no sign.
    my $time = $stat->[9] < 0 ? 0 : $stat->[9];
    $record{path} = $name if length $name > 100 || $name =~ /[^\x20-\x7e]/;
    $record{linkpath} = $link if length $link > 100 || $link =~ /[^\x20-\x7e]/;
    $record{size} = $size if $size > $max_size;
    $record{uid} = $uid if $uid > $max_id;
    $record{gid} = $gid if $gid > $max_id;
    $record{mtime} = $time if $time > $max_size;
    if (%record) {
        my $text = join '', map { record($_, $record{$_}) } sort keys %record;
        put(ustar({ name => 'PaxHeaders/0', type => 'x', size => length $text }, 0644, 0, 0, 0));
        put($text);
        pad(length $text);
    }
    put(ustar({ %{$entry}, name => substr($name, 0, 100), link => substr($link, 0, 100),
        size => $size > $max_size ? 0 : $size }, $stat->[2] & 07777,
        $uid > $max_id ? 0 : $uid, $gid > $max_id ? 0 : $gid, $time > $max_size ? 0 : $time));
    return $marks;
}

sub ustar {
    my ($entry, $mode, $uid, $gid, $time) = @_;
    my ($major, $minor) = @{ $entry->{device} // [0, 0] };
    my $header = pack 'a100 a8 a8 a8 a12 a12 A8 a1 a100 a6 a2 a32 a32 a8 a8 a155 a12', $entry->{name},
        (map { sprintf '%07o', $_ } $mode, $uid, $gid), (map { sprintf '%011o', $_ } $entry->{size} // 0, $time), '',
        $entry->{type}, $entry->{link} // '', 'ustar', '00', '', '', (map { sprintf '%07o', $_ } $major, $minor), '', '';
    substr $header, 148, 8, sprintf "%06o\0 ", unpack '%32C*', $header;
    return $header;
}

# `<length> <key>=<value>
# `. The length includes its own digits.
sub record {
    my ($key, $value) = @_;
    my $rest = length(" $key=$value\n");
    my $length = $rest + length $rest;
    $length = $rest + length $length if length($length) != length $rest;
    return "$length $key=$value\n";
}

# Writes the attributes of the file, and the overlay's marks on it.
sub add_attributes {
    my ($record, $name) = @_;
    my $list = "\0" x 65536;
    my $length = syscall $nr{llistxattr}, $name, $list, length $list;
    if ($length < 0) { return {} if $!{ENOTSUP}; die shown($name) . ": attributes: $!\n" }
    my %marks;
    for my $key (split /\0/, substr $list, 0, $length) {
        if ($key eq 'trusted.overlay.opaque') { $marks{opaque} = 1 if $arg{changes}; next }
        next unless $key =~ /^(?:user\.|security\.capability$|system\.posix_acl_)/;
        refuse('an attribute whose name has the sign =: ' . shown($name)) if $key =~ /=/;
        my $value = "\0" x 65536;
        my $size = syscall $nr{lgetxattr}, $name, $key, $value, length $value;
        die shown($name) . ": $key: $!\n" if $size < 0;
        $record->{"SCHILY.xattr.$key"} = substr $value, 0, $size;
    }
    return \%marks;
}

sub pad { put("\0" x (-$_[0] % 512)) }

sub put {
    my $text = shift;
    while (length $text) {
        my $written = syswrite(STDOUT, $text) // die "write: $!\n";
        return if $written == length $text;
        substr $text, 0, $written, '';
    }
}

# A name for a message, because names may contain any bytes.
sub shown {
    my $name = shift;
    $name =~ s/([^\x20-\x7e]|\\)/sprintf '\\x%02x', ord $1/ge;
    return length $name > 200 ? substr($name, 0, 197) . '...' : $name;
}
