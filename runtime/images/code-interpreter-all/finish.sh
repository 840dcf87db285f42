# Run in the tree, after the script of code-interpreter: each of the languages must be there and have its kernel.
R --version >/dev/null
deno --version >/dev/null
java -version 2>/dev/null
test -e /usr/local/share/jupyter/kernels/java/kernel.json
mkdir -p /usr/local/share/jupyter/kernels/ir
R --slave -e 'IRkernel::installspec(user = FALSE, prefix = "/usr/local")' >/dev/null
test -e /usr/local/share/jupyter/kernels/ir/kernel.json
