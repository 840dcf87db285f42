import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';

/** What operators can search workflows by. Ids and states only, never personal data. */
export const searchAttributes = {
  accountId: defineSearchAttributeKey('AccountId', SearchAttributeType.KEYWORD),
  projectId: defineSearchAttributeKey('ProjectId', SearchAttributeType.KEYWORD),
  userId: defineSearchAttributeKey('UserId', SearchAttributeType.KEYWORD),
  templateId: defineSearchAttributeKey('TemplateId', SearchAttributeType.KEYWORD),
  sandboxStatus: defineSearchAttributeKey('SandboxStatus', SearchAttributeType.KEYWORD),
  region: defineSearchAttributeKey('Region', SearchAttributeType.KEYWORD),
  hostId: defineSearchAttributeKey('HostId', SearchAttributeType.KEYWORD),
} as const;
