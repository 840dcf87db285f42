import { defineSearchAttributeKey, type SearchAttributePair, SearchAttributeType } from '@temporalio/common';
import type { LifePlan } from '../../domain/sandboxes/life-plan.ts';

/** Attributes by which operators search workflows. They contain only ids and statuses, never personal data. */
export const searchAttributes = {
  accountId: defineSearchAttributeKey('AccountId', SearchAttributeType.KEYWORD),
  projectId: defineSearchAttributeKey('ProjectId', SearchAttributeType.KEYWORD),
  userId: defineSearchAttributeKey('UserId', SearchAttributeType.KEYWORD),
  templateId: defineSearchAttributeKey('TemplateId', SearchAttributeType.KEYWORD),
  sandboxStatus: defineSearchAttributeKey('SandboxStatus', SearchAttributeType.KEYWORD),
  region: defineSearchAttributeKey('Region', SearchAttributeType.KEYWORD),
  hostId: defineSearchAttributeKey('HostId', SearchAttributeType.KEYWORD),
} as const;

/** The attributes of a sandbox's workflow. */
export function sandboxSearchAttributes(plan: LifePlan, status: string): SearchAttributePair[] {
  return [
    { key: searchAttributes.sandboxStatus, value: status },
    { key: searchAttributes.accountId, value: plan.accountId },
    { key: searchAttributes.userId, value: plan.userId },
    { key: searchAttributes.projectId, value: plan.projectId },
    { key: searchAttributes.templateId, value: plan.templateId },
    { key: searchAttributes.region, value: plan.region },
    { key: searchAttributes.hostId, value: plan.hostId },
  ];
}
