import { expect, test } from '@jest/globals';
import { mayReadProject, placeIn } from '../../../domain/templates/image.ts';
import { parseImageReference } from '../../../domain/templates/image-reference.ts';
import { checkTemplateName, whyNoTemplateName } from '../../../domain/templates/name.ts';

test.each(['abcd', 'web-server', 'a1_b2-c3', 'x'.repeat(32), 'test1', 'tpl_web', 'base'])(
  'a template may be called %s',
  (name) => {
    expect(checkTemplateName(name)).toBe(name);
  },
);

test.each([
  ['abc', 'must have 4 to 32 characters'],
  ['x'.repeat(33), 'must have 4 to 32 characters'],
  ['Webserver', 'must have only a-z, 0-9, - and _'],
  ['web server', 'must have only a-z, 0-9, - and _'],
  ['wéb-server', 'must have only a-z, 0-9, - and _'],
  ['1web', 'must not start with a digit'],
  ['-web', 'must start with a letter and end with a letter or digit'],
  ['_web', 'must start with a letter and end with a letter or digit'],
  ['web-', 'must start with a letter and end with a letter or digit'],
  ['web_', 'must start with a letter and end with a letter or digit'],
  ...['a--b', 'a__b', 'a-_b', 'a_-b'].map((name) => [name, 'must not have two of - and _ next to each other']),
  ['tpl-web', 'must not start with tpl-'],
  ...['admin', 'root', 'ROOT', 'Public', 'kubernetes', 'localhost', 'platform', 'registry'].map((name) => [
    name,
    'is a reserved word',
  ]),
])('a template may not be called %s: %s', (name, reason) => {
  expect(whyNoTemplateName(name!)).toBe(reason);
  expect(() => checkTemplateName(name!, 'new_name')).toThrow(expect.objectContaining({ code: 'invalid_name' }));
});

const digest = `sha256:${'a'.repeat(64)}`;

test.each([
  ['python', 'registry-1.docker.io', 'library/python', 'latest', null],
  ['ada/app:1.2', 'registry-1.docker.io', 'ada/app', '1.2', null],
  ['docker.io/library/python:3.13', 'registry-1.docker.io', 'library/python', '3.13', null],
  ['docker://ghcr.io/a/b', 'ghcr.io', 'a/b', 'latest', null],
  [`localhost:5000/a@${digest}`, 'localhost:5000', 'a', null, digest],
  [`registry.example.com/p/a:1@${digest}`, 'registry.example.com', 'p/a', '1', digest],
  ['[::1]:5000/a/b', '[::1]:5000', 'a/b', 'latest', null],
])('the image reference %s', (text, registry, repository, tag, sum) => {
  expect(parseImageReference(text)).toEqual({ registry, repository, tag, digest: sum });
});

test.each([
  '',
  'a b',
  'UPPER/case',
  'a//b',
  'a:b:c',
  'http://x/y',
  'a@sha256:12',
  'host:99999/a',
  '../a',
  `a/${'b'.repeat(600)}`,
])('no image reference: %s', (text) => {
  expect(parseImageReference(text)).toBeNull();
});

test('only an image below the path of the platform’s own registry has a place there', () => {
  const place = (text: string, prefix = '') =>
    placeIn({ address: 'r.example:5000', prefix }, parseImageReference(text)!);
  expect(place('r.example:5000/usr-a/web:2')).toEqual({ project: 'usr-a', repository: 'web', tag: '2', digest: null });
  expect(place('r.example:5000/boxes/usr-a/web', 'boxes/')).toMatchObject({ project: 'usr-a', repository: 'web' });
  expect(place('r.example:5000/other/usr-a/web', 'boxes/')).toBeNull();
  expect(place('r.example:5001/usr-a/web')).toBeNull();
  expect(place('r.example:5000/web')).toBeNull();
});

test('a caller can read the images of their own project, of the account, and public ones; an operator can read all', () => {
  const caller = { accountId: 'acc-a', userId: 'usr-a', role: 'user' } as const;
  const readable = ['usr-a', 'acc-a', 'public-acc-b', 'usr-b', 'acc-b', 'usr-a2', ''].filter((project) =>
    mayReadProject(caller, project),
  );
  expect(readable).toEqual(['usr-a', 'acc-a', 'public-acc-b']);
  expect(mayReadProject({ ...caller, role: 'admin' }, 'usr-b')).toBe(true);
});
