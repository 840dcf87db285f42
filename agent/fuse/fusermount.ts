import type koffi from 'koffi';

/**
 * The `fusermount` that libfuse in a sandbox runs. The host has already made the mount, and s3fs and its children
 * inherit the mount's descriptor. This program passes the descriptor on over a socket, as libfuse expects. It has no
 * imports, because files of the image could change how Node loads a module without a file extension.
 */
const { _FUSE_COMMFD: socket, PLATFORM_FUSE_FD: fuse } = process.env;
const isUnmount = process.argv.slice(2).some((word) => /^-[a-z]*u/.test(word));
if (!isUnmount) {
  if (!socket || !fuse) throw new Error('this fusermount only serves mounts of object storage');
  sendDescriptor(Number(socket), Number(fuse));
}

function sendDescriptor(to: number, descriptor: number): void {
  const addon = { exports: {} as typeof koffi };
  process.dlopen(addon as NodeJS.Module, '/.platform/agent/native/koffi.node');
  const ffi = addon.exports;
  ffi.struct('iovec', { base: 'void *', length: 'size_t' });
  const message = { name: 'void *', nameLength: 'uint32_t', vectors: 'iovec *', vectorCount: 'size_t' };
  ffi.struct('msghdr', { ...message, control: 'void *', controlLength: 'size_t', flags: 'int' });
  const sendmsg = ffi.load(null).func('long sendmsg(int, msghdr *, int)');
  const [solSocket, scmRights] = [1, 1];
  const control = Buffer.alloc(24);
  control.writeBigUInt64LE(20n, 0);
  control.writeInt32LE(solSocket, 8);
  control.writeInt32LE(scmRights, 12);
  control.writeInt32LE(descriptor, 16);
  const text = { base: Buffer.alloc(1), length: 1 };
  const header = { name: null, nameLength: 0, vectors: [text], vectorCount: 1 };
  const sent = sendmsg(to, { ...header, control, controlLength: control.length, flags: 0 }, 0);
  if (sent !== 1) throw new Error(`the descriptor could not be handed over: errno ${ffi.errno()}`);
}
