#!/usr/bin/perl
# Unpacks a layer of an image, a tar archive on standard input, over the layers below it.
#
# Arguments, as `key=value`: arch; folder: the tree; maxFiles, maxBytes: the limits of the tree, counting each name and
# each byte that is not in a hole. The last line of standard output is `<files> <bytes>`.
#
# The archive is untrusted. The tree becomes the root of this process before the first byte is read, so links, `..` and
# absolute names cannot lead out of it. Exits with 3 and a message if the archive is invalid.
use strict;
use warnings;
no warnings 'recursion';
use Errno;
use Fcntl qw(:mode :seek O_WRONLY O_CREAT O_EXCL O_NOFOLLOW);

my %arg = map { split /=/, $_, 2 } @ARGV;
my %nr = $arg{arch} eq 'arm64'
    ? (mknodat => 33, fchownat => 54, utimensat => 88, lsetxattr => 6)
    : (mknodat => 259, fchownat => 260, utimensat => 280, lsetxattr => 189);
my ($at_fdcwd, $no_follow, $chunk, $max_special, $max_parts) = (-100, 0x100, 1 << 20, 4 << 20, 1 << 20);
my ($buffer, $place, $files, $bytes) = ('', 0, 0, 0);
# The names in this layer, with their parent folders; the times of folders, which are set at the end.
my (%own, %folder_time);

if (!eval { main(); 1 }) {
    my $reason = ref $@ ? ${ $@ } : $@;
    print STDERR ref $@ ? "the layer has $reason\n" : $reason;
    exit(ref $@ ? 3 : 1);
}

sub main {
    umask 0;
    chdir $arg{folder} or die "$arg{folder}: $!\n";
    chroot '.' or die "chroot: $!\n";
    chdir '/' or die "chdir: $!\n";
    while (my $entry = next_entry()) { unpack_entry($entry) }
    # The remaining bytes are not entries, but are part of the digest.
    while (fill()) { $place = length $buffer }
    for my $folder (sort { $b cmp $a } keys %folder_time) { set_time($folder, $folder_time{$folder}) }
    print "$files $bytes\n";
}

sub refuse { my $reason = shift; die \$reason }

# The archive.

# The next entry, with the extended headers before it. Undefined at the end of the archive.
sub next_entry {
    my (%record, $long_name, $long_link);
    while (1) {
        my $header = take(512, 1) // return;
        return if $header !~ /[^\0]/;
        my %entry = read_header($header);
        if ($entry{type} eq 'x') { %record = (%record, records_of(special(\%entry))) }
        elsif ($entry{type} eq 'g') { special(\%entry) }
        elsif ($entry{type} eq 'L') { $long_name = special(\%entry) =~ s/\0.*//sr }
        elsif ($entry{type} eq 'K') { $long_link = special(\%entry) =~ s/\0.*//sr }
        else {
            # For a sparse file, GNU tar writes another name into the header, for tools that do not support sparse
            # files.
            $entry{name} = $record{'GNU.sparse.name'} // $record{path} // $long_name // $entry{name};
            $entry{link} = $record{linkpath} // $long_link // $entry{link};
            for my $key ('size', 'uid', 'gid') {
                my $value = $record{$key} // next;
                refuse("a $key that is no number") if $value !~ /^\d{1,18}$/;
                $entry{$key} = $value;
            }
            $entry{time} = int $record{mtime} if ($record{mtime} // '') =~ /^-?\d{1,15}(?:\.\d*)?$/;
            $entry{records} = \%record;
            return \%entry;
        }
    }
}

sub read_header {
    my $header = shift;
    my ($name, $mode, $uid, $gid, $size, $time, $sum, $type, $link, $magic, $major, $minor, $prefix) =
        unpack 'Z100 a8 a8 a8 a12 a12 a8 a1 Z100 a8 x64 a8 a8 Z155', $header;
    substr $header, 148, 8, ' ' x 8;
    refuse('no tar archive in it') if number($sum) != unpack '%32C*', $header;
    $name = "$prefix/$name" if $magic =~ /^ustar\0/ && length $prefix;
    return (name => $name, mode => number($mode) & 07777, uid => number($uid), gid => number($gid),
        size => number($size), time => number($time), type => $type, link => $link,
        device => [number($major), number($minor)]);
}

sub number {
    my $field = shift;
    # Numbers that do not fit into octal digits are binary, marked by the highest bit. The next bit is the sign.
    if (ord($field) & 0x80) {
        my ($first, @digits) = unpack 'C*', $field;
        my $value = $first & 0x7f;
        for my $digit (@digits) {
            refuse('a number that is too large') if $value >= 2**48;
            $value = $value * 256 + $digit;
        }
        return $value;
    }
    return $field =~ /^[ \0]*([0-7]+)[ \0]*/ ? oct $1 : 0;
}

sub special {
    my $entry = shift;
    refuse('a header that is too large') if $entry->{size} > $max_special;
    my $text = take($entry->{size});
    skip(-$entry->{size} % 512);
    return $text;
}

sub records_of {
    my $text = shift;
    my (%record, $at);
    for ($at = 0; $at < length $text;) {
        my ($length) = substr($text, $at, 20) =~ /^(\d{1,8}) / or last;
        refuse('a header that cannot be read') if $length < 5 || $at + $length > length $text;
        my ($key, $value) = substr($text, $at, $length) =~ /^\d+ ([^=]+)=(.*)\n\z/s or refuse('a header that cannot be read');
        $record{$key} = $value;
        $at += $length;
    }
    return %record;
}

# Returns this many bytes. Returns nothing if `may_end` is true and the archive has ended.
sub take {
    my ($length, $may_end) = @_;
    while (length($buffer) - $place < $length) {
        next if fill();
        return undef if $may_end && length($buffer) == $place;
        refuse('no end: it was cut off');
    }
    my $text = substr $buffer, $place, $length;
    $place += $length;
    return $text;
}

sub fill {
    substr $buffer, 0, $place, '';
    $place = 0;
    my $read = sysread STDIN, $buffer, $chunk, length $buffer;
    die "read: $!\n" if !defined $read;
    return $read;
}

sub skip {
    my $length = shift;
    while ($length > 0) {
        my $part = $length < $chunk ? $length : $chunk;
        take($part);
        $length -= $part;
    }
}

# Some tools omit the padding of the last file's last block.
sub skip_padding {
    my $length = -$_[0] % 512;
    1 while length($buffer) - $place < $length && fill();
    my $there = length($buffer) - $place;
    $place += $there < $length ? $there : $length;
}

# The tree.

sub unpack_entry {
    my $entry = shift;
    refuse("more than $arg{maxFiles} files") if ++$files > $arg{maxFiles};
    my $name = clean($entry->{name});
    my ($above, $last) = $name =~ m{^(?:(.*)/)?([^/]*)$}s;
    $above //= '';
    if ($last =~ /^\.wh\.(.*)$/s) {
        skip($entry->{size} + -$entry->{size} % 512);
        return delete_below($above, $1);
    }
    my $type = $entry->{type};
    refuse('an entry of an unknown kind: ' . ord $type) if $type !~ /^[0\0 1-7]$/;
    my $has_content = $type =~ /^[0\0 7]$/;
    # Old archives mark a folder only by the slash at the end of its name.
    if ($has_content && $entry->{name} =~ m{/$}) { ($type, $has_content) = ('5', 0) }
    if ($name eq '') {
        refuse('a root that is no folder') if $type ne '5';
        skip($entry->{size} + -$entry->{size} % 512);
        return set_attributes('.', $entry, 1);
    }
    make_folders($above);
    note_own($name);
    make_way($name, $type eq '5');
    skip($entry->{size} + -$entry->{size} % 512) if !$has_content;
    if ($has_content) { return unpack_file($name, $entry) }
    if ($type eq '1') { return make_hard_link($name, $entry->{link}) }
    if ($type eq '2') {
        refuse('a link without a target: ' . shown($name)) if $entry->{link} eq '';
        symlink $entry->{link}, $name or failed($name);
    }
    elsif ($type eq '5') { mkdir $name, 0700 or $!{EEXIST} or failed($name) }
    else {
        my %format = (3 => S_IFCHR, 4 => S_IFBLK, 6 => S_IFIFO);
        my ($major, $minor) = @{ $entry->{device} };
        my $device = $type eq '6' ? 0 : ($minor & 0xff) | ($major & 0xfff) << 8 | ($minor & ~0xff) << 12;
        my $mode = $format{$type} | $entry->{mode};
        syscall($nr{mknodat}, $at_fdcwd, $name, $mode, $device) == 0 or failed($name);
    }
    return set_attributes($name, $entry, $type eq '5', $type eq '2');
}

# A name below the root, without `.`, empty parts and `..`. A name that leads out of the root is refused.
sub clean {
    my $name = shift;
    my @parts;
    refuse('a name that cannot be') if $name =~ /\0/;
    for my $part (split m{/}, $name) {
        next if $part eq '' || $part eq '.';
        if ($part eq '..') { @parts or refuse('a name that leads out of it: ' . shown($name)); pop @parts; next }
        push @parts, $part;
    }
    my $clean = join '/', @parts;
    refuse('a path that is too long: ' . shown($clean)) if length $clean > 4000;
    return $clean;
}

sub note_own {
    my $name = shift;
    while ($name ne '' && !$own{$name}) {
        $own{$name} = 1;
        $name = $name =~ m{^(.*)/}s ? $1 : '';
    }
}

# Makes parent folders that no entry has described yet.
sub make_folders {
    my $name = shift;
    return if $name eq '' || -d $name;
    make_folders($name =~ m{^(.*)/}s ? $1 : '');
    refuse("more than $arg{maxFiles} files") if ++$files > $arg{maxFiles};
    return if mkdir $name, 0755;
    refuse('a name below one that is no folder: ' . shown($name)) if $!{EEXIST} || $!{ENOTDIR} || $!{ELOOP};
    failed($name);
}

# An entry replaces an earlier file of its name. A folder keeps the contents of an earlier folder.
sub make_way {
    my ($name, $is_folder) = @_;
    my @stat = lstat $name or return;
    return if $is_folder && S_ISDIR($stat[2]);
    remove($name);
}

sub remove {
    my $name = shift;
    delete $folder_time{$name};
    return if unlink $name;
    return if $!{ENOENT};
    failed($name) if !$!{EISDIR} && !$!{EPERM};
    opendir my $handle, $name or failed($name);
    my @entries = grep { $_ ne '.' && $_ ne '..' } readdir $handle;
    closedir $handle;
    remove("$name/$_") for @entries;
    rmdir $name or failed($name);
}

# Deletes an entry, or hides the contents of a folder in the layers below. Entries of this layer stay.
sub delete_below {
    my ($folder, $what) = @_;
    my $start = $folder eq '' ? '' : "$folder/";
    if ($what eq '.wh..opq') { return empty($folder eq '' ? '.' : $folder, $start) }
    return if $what =~ /^\.wh\./;
    refuse('a deletion of nothing: ' . shown($folder)) if $what eq '' || $what eq '.' || $what eq '..';
    remove("$start$what") if !$own{"$start$what"} && lstat "$start$what";
}

sub empty {
    my ($folder, $start) = @_;
    opendir my $handle, $folder or return;
    my @entries = grep { $_ ne '.' && $_ ne '..' } readdir $handle;
    closedir $handle;
    for my $name (map { "$start$_" } @entries) {
        if (!$own{$name}) { remove($name) }
        elsif (!-l $name && -d _) { empty($name, "$name/") }
    }
}

sub make_hard_link {
    my ($name, $target) = @_;
    my $cleaned = clean($target);
    my @stat = lstat $cleaned;
    refuse('a hard link to nothing: ' . shown($name)) if !@stat;
    refuse('a hard link to a folder: ' . shown($name)) if S_ISDIR($stat[2]);
    link $cleaned, $name or failed($name);
}

sub unpack_file {
    my ($name, $entry) = @_;
    my $record = $entry->{records};
    sysopen my $out, $name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600 or failed($name);
    if (defined $record->{'GNU.sparse.major'}) { unpack_sparse($out, $name, $entry) }
    elsif (grep { /^GNU\.sparse\./ } keys %{$record}) { refuse('a sparse file of an old kind: ' . shown($name)) }
    else {
        write_part($out, $entry->{size}, $name);
        skip_padding($entry->{size});
    }
    close $out or failed($name);
    return set_attributes($name, $entry);
}

# The map of the parts comes first: a count, then the offset and length of each part, one number per line.
sub unpack_sparse {
    my ($out, $name, $entry) = @_;
    my $size = $entry->{records}{'GNU.sparse.realsize'} // '';
    refuse('a sparse file that cannot be read: ' . shown($name))
        if $size !~ /^\d{1,16}$/ || "$entry->{records}{'GNU.sparse.major'}.$entry->{records}{'GNU.sparse.minor'}" ne '1.0';
    my ($left, $map, @numbers) = ($entry->{size}, '');
    do {
        refuse('a sparse file that cannot be read: ' . shown($name)) if $left < 512 || length $map > 48 << 20;
        $map .= take(512);
        $left -= 512;
        while ($map =~ s/^(\d{1,16})\n//) { push @numbers, $1 }
        refuse('a sparse file with too many parts: ' . shown($name)) if @numbers && $numbers[0] > $max_parts;
    } until (@numbers && @numbers > 2 * $numbers[0]);
    truncate $out, $size or refuse('a file that is too large: ' . shown($name));
    my (undef, @parts) = @numbers[0 .. 2 * $numbers[0]];
    my $end = 0;
    while (my ($at, $length) = splice @parts, 0, 2) {
        refuse('a sparse file that cannot be read: ' . shown($name))
            if $at < $end || $at + $length > $size || $length > $left;
        sysseek $out, $at, SEEK_SET or failed($name);
        write_part($out, $length, $name);
        ($left, $end) = ($left - $length, $at + $length);
    }
    skip($left);
    skip_padding($entry->{size});
}

sub write_part {
    my ($out, $length, $name) = @_;
    $bytes += $length;
    refuse("more than $arg{maxBytes} bytes") if $bytes > $arg{maxBytes};
    while ($length > 0) {
        fill() || refuse('no end: it was cut off') if $place == length $buffer;
        my $there = length($buffer) - $place;
        my $part = $there < $length ? $there : $length;
        my $written = syswrite $out, $buffer, $part, $place;
        failed($name) if !$written;
        $place += $written;
        $length -= $written;
    }
}

sub set_attributes {
    my ($name, $entry, $is_folder, $is_link) = @_;
    my ($uid, $gid) = @{$entry}{ 'uid', 'gid' };
    refuse('an owner that cannot be: ' . shown($name)) if $uid > 0xfffffffe || $gid > 0xfffffffe;
    syscall($nr{fchownat}, $at_fdcwd, $name, $uid + 0, $gid + 0, $no_follow) == 0 or failed($name);
    # The mode is set after the owner, because changing the owner clears the set-user-id bits.
    if (!$is_link) { chmod $entry->{mode}, $name or failed($name) }
    set_extended($name, $entry->{records});
    if ($is_folder) { $folder_time{$name} = $entry->{time} }
    else { set_time($name, $entry->{time}) }
}

# The marks of overlays are not part of an image.
sub set_extended {
    my ($name, $record) = @_;
    for my $key (sort keys %{$record}) {
        my ($attribute) = $key =~ /^SCHILY\.xattr\.((?:user\.|security\.capability$|system\.posix_acl_).*)$/s or next;
        my $value = $record->{$key};
        next if syscall($nr{lsetxattr}, $name, $attribute, $value, length $value, 0) == 0;
        next if $!{ENOTSUP} || $!{EPERM};
        refuse('an attribute that cannot be set: ' . shown("$name $attribute")) if $!{EINVAL} || $!{ERANGE} || $!{E2BIG};
        failed($name);
    }
}

sub set_time {
    my ($name, $time) = @_;
    my $times = pack 'q4', $time, 0, $time, 0;
    syscall($nr{utimensat}, $at_fdcwd, $name, $times, $no_follow) == 0 or failed($name);
}

# Errors that are caused by a name are the archive's fault. Other errors are this machine's fault.
sub failed {
    my $name = shown(shift);
    refuse("a name that cannot be: $name") if $!{ENAMETOOLONG} || $!{ELOOP} || $!{ENOTDIR};
    die "$name: $!\n";
}

sub shown {
    my $name = shift;
    $name =~ s/([^\x20-\x7e]|\\)/sprintf '\\x%02x', ord $1/ge;
    return length $name > 200 ? substr($name, 0, 197) . '...' : $name;
}
