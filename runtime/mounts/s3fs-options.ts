import type { MountCredentials } from '../../domain/sandboxes/object-storage.ts';
import type { StorageTarget } from '../../domain/sandboxes/storage-endpoint.ts';

/**
 * The options of s3fs for its endpoint and for the owner of its files: the sandbox's root. All users of the sandbox can
 * read them.
 */
export function s3fsOptions(target: StorageTarget): string[] {
  return [
    ...['allow_other', 'uid=0', 'gid=0', 'umask=0000'],
    ...['connect_timeout=10', 'readwrite_timeout=30', 'retries=3'],
    ...['stat_cache_expire=10', 'max_stat_cache_size=20000'],
    ...[`url=${target.url}`, 'sigv4'],
    ...(target.region === null ? [] : [`endpoint=${target.region}`]),
    ...(target.pathStyle ? ['use_path_request_style'] : []),
  ];
}

/** The credentials in the format of an AWS credentials file. */
export function credentialsFile({ accessKey, secretKey, sessionToken }: MountCredentials): string {
  const token = sessionToken === null ? '' : `aws_session_token=${sessionToken}\n`;
  return `[default]\naws_access_key_id=${accessKey}\naws_secret_access_key=${secretKey}\n${token}`;
}
