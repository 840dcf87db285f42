const requestLine = /^(?<method>[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) (?<target>\/[\x21-\x7e]{0,2047}) HTTP\/1\.[01]\r\n/;

/**
 * The request line of a request that Node did not parse because of its method. Node does not parse unknown methods, but
 * the rest of such a request is usually well formed. Null for all other errors of a client.
 */
export function unparsedRequestLine(error: {
  code?: string;
  rawPacket?: unknown;
}): { method: string; target: string } | null {
  if (error.code !== 'HPE_INVALID_METHOD' || !Buffer.isBuffer(error.rawPacket)) return null;
  const line = requestLine.exec(error.rawPacket.toString('latin1', 0, 4096));
  return line ? { method: line.groups!.method!, target: line.groups!.target! } : null;
}
