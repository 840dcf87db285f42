import { Migration } from '@mikro-orm/migrations';

/**
 * Other machines may reach a host at `last_hop_address` instead of by routes into its sandboxes' network. Certificates
 * for these connections are requested and issued through a table. Revoked identities stay revoked.
 */
export class Migration20261227LastHop extends Migration {
  override up(): void {
    this.addSql('alter table hosts add column last_hop_address text');
    this.addSql(`
      create table last_hop_certificates (
        certificate_id uuid primary key default gen_random_uuid(),
        role text not null check (role in ('host', 'gateway')),
        name text not null check (length(name) between 1 and 128),
        request text not null check (length(request) <= 4096),
        proof text not null check (length(proof) <= 128),
        requested_at timestamptz(3) not null default now(),
        certificate text,
        expires_at timestamptz(3),
        refusal text
      )`);
    this.addSql('create index last_hop_certificates_requested on last_hop_certificates (requested_at)');
    this.addSql(`
      create table last_hop_revocations (
        role text not null check (role in ('host', 'gateway')),
        name text not null check (length(name) between 1 and 128),
        revoked_at timestamptz(3) not null default now(),
        primary key (role, name)
      )`);
  }
}
