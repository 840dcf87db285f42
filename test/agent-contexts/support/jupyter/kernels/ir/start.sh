#!/bin/sh
# Starts the R of the tree R_TREE, which sees neither this script nor the connection file.
file=$(mktemp "$R_TREE/tmp/connection.XXXXXX")
cat "$1" >"$file"
exec /usr/sbin/chroot "$R_TREE" R --slave -e 'IRkernel::main()' --args "/tmp/$(basename "$file")"
