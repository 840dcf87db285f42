// The tar entry with which a layer of an image deletes a file of a lower layer (whiteout).

/** @param {Buffer} name the path of the file relative to the root */
function createDeletion(name) {
  const at = name.lastIndexOf('/') + 1;
  const path = Buffer.concat([name.subarray(0, at), Buffer.from('.wh.'), name.subarray(at)]);
  const isPlain = path.length <= 100 && path.every((byte) => byte >= 0x20 && byte < 0x7f);
  if (isPlain) return header(path, '0', 0);
  const rest = Buffer.concat([Buffer.from(' path='), path, Buffer.from('\n')]);
  let length = rest.length;
  while (`${length}`.length + rest.length !== length) length = `${length}`.length + rest.length;
  const record = Buffer.concat([Buffer.from(`${length}`), rest, Buffer.alloc(-length & 511)]);
  return Buffer.concat([header(Buffer.from('PaxHeaders'), 'x', length), record, header(path.subarray(0, 100), '0', 0)]);
}

function header(name, type, size) {
  const bytes = Buffer.alloc(512);
  name.copy(bytes);
  const octal = (value, at, digits) => bytes.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  for (const at of [100, 108, 116]) octal(at === 100 ? 0o644 : 0, at, 7);
  octal(size, 124, 11);
  octal(0, 136, 11);
  bytes.write('        ', 148, 'latin1');
  bytes.write(type, 156, 'latin1');
  bytes.write('ustar\x0000', 257, 'latin1');
  const sum = bytes.reduce((all, byte) => all + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return bytes;
}

module.exports = { createDeletion };
