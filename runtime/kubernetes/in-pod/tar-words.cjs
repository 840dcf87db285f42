// How a tree is packed for the layer of an image.

/** Writes an archive of the files of a list, whose names end with NUL, to standard output. */
const tarWords = (folder, list) => [
  '/.platform/bin/tar',
  ...['--create', '--format=posix', '--numeric-owner', '--sparse', '--no-recursion', '--one-file-system'],
  ...['--xattrs', '--xattrs-include=user.*', '--xattrs-include=security.capability'],
  '--xattrs-include=system.posix_acl_*',
  '--pax-option=delete=atime,delete=ctime,exthdr.name=PaxHeaders',
  ...[`--directory=${folder}`, '--null', '--verbatim-files-from', `--files-from=${list}`],
];

module.exports = { tarWords };
