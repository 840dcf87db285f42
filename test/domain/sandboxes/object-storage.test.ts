import { isOutboundAddressAllowed } from '../../../domain/outbound-addresses.ts';
import { checkMountPoint } from '../../../domain/sandboxes/object-storage.ts';
import { readStorageTarget } from '../../../domain/sandboxes/storage-endpoint.ts';
import { open, seal } from '../../../platform/config/sealed-box.ts';

const target = (uri: string, region: string | null, endpoint: string | null = null) =>
  readStorageTarget({ uri, region, endpoint });

test('a bucket is in the path at a custom endpoint, and in the host name elsewhere', () => {
  expect(target('s3://data/a//b/', 'eu-west-1', 'https://minio.example.com:9000')).toEqual({
    bucket: 'data',
    path: '/a/b',
    url: 'https://minio.example.com:9000',
    pathStyle: true,
    region: 'eu-west-1',
    host: 'minio.example.com',
    port: 9000,
  });
  expect(target('s3://data', 'eu-west-1')).toMatchObject({
    path: '/',
    url: 'https://s3.eu-west-1.amazonaws.com',
    pathStyle: false,
    host: 'data.s3.eu-west-1.amazonaws.com',
    port: 443,
  });
  expect(target('s3://with.dots', 'cn-north-1')).toMatchObject({
    pathStyle: true,
    host: 's3.cn-north-1.amazonaws.com.cn',
  });
  const oss = { url: 'https://oss-cn-hangzhou.aliyuncs.com', pathStyle: false };
  expect(target('oss://data/x', 'cn-hangzhou')).toMatchObject(oss);
  expect(target('oss://data/x', 'oss-cn-hangzhou')).toMatchObject(oss);
  expect(target('oss://data', null, 'http://oss.example.com')).toMatchObject({
    host: 'data.oss.example.com',
    port: 80,
  });
});

test.each([
  ['8.8.8.8', true],
  ['2606:4700::1111', true],
  ['127.0.0.1', false],
  ['127.9.9.9', false],
  ['10.1.2.3', false],
  ['172.31.0.1', false],
  ['192.168.0.1', false],
  ['100.64.0.1', false],
  ['169.254.169.254', false],
  ['0.0.0.0', false],
  ['224.0.0.1', false],
  ['::1', false],
  ['::', false],
  ['fe80::1', false],
  ['fd00:ec2::254', false],
  ['::ffff:127.0.0.1', false],
  ['::ffff:8.8.8.8', true],
  ['64:ff9b::7f00:1', false],
  ['2002:7f00:1::', false],
  ['not an address', false],
])('%s: may be connected to: %s', (address, allowed) => {
  expect(isOutboundAddressAllowed(address, [])).toBe(allowed);
});

test('an operator opens ranges, and no other addresses', () => {
  const ranges = ['127.0.0.0/8', 'fd00::/8'];
  expect(['127.0.0.1', '::ffff:127.0.0.1', 'fd00::1'].map((each) => isOutboundAddressAllowed(each, ranges))).toEqual([
    true,
    true,
    true,
  ]);
  expect(['10.0.0.1', '::1'].map((each) => isOutboundAddressAllowed(each, ranges))).toEqual([false, false]);
});

test('a mount point is normalized, and never leads out of the user’s folders', () => {
  expect(checkMountPoint('//mnt///data/')).toEqual({ path: '/mnt/data' });
  expect(checkMountPoint('/devices')).toEqual({ path: '/devices' });
  for (const taken of [
    '/',
    '/proc',
    '/proc/self',
    '/sys/fs',
    '/dev/shm',
    '/.platform/bin',
    '/run',
    '/run/platform/x',
  ]) {
    expect(checkMountPoint(taken)).toEqual({ reason: expect.any(String) });
  }
  for (const wrong of ['data', '', '/a/../b', '/a/./b', '/a b', '/a\n', '/a\\b']) {
    expect(checkMountPoint(wrong)).toEqual({ reason: expect.any(String) });
  }
});

test('a sealed value opens only with its key and for its purpose', () => {
  const key = Buffer.alloc(32, 1);
  const sealed = seal(key, 'sbx-1', { secret: 'x' });
  expect(Buffer.from(sealed, 'base64').toString('latin1')).not.toContain('secret');
  expect(open(key, 'sbx-1', sealed)).toEqual({ secret: 'x' });
  expect(() => open(key, 'sbx-2', sealed)).toThrow();
  expect(() => open(Buffer.alloc(32, 2), 'sbx-1', sealed)).toThrow();
  const changed = Buffer.from(sealed, 'base64');
  changed[20]! ^= 1;
  expect(() => open(key, 'sbx-1', changed.toString('base64'))).toThrow();
});
