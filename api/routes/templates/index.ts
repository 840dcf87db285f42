import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createTemplate } from './create.ts';
import { deleteTemplate } from './delete.ts';
import { deleteTemplateDocument } from './document-delete.ts';
import { getTemplateDocument } from './document-get.ts';
import { setTemplateDocument } from './document-set.ts';
import { getTemplate } from './get.ts';
import { cancelTemplateImport } from './import-cancel.ts';
import { importTemplate } from './import-direct.ts';
import { getTemplateImport } from './import-get.ts';
import { startTemplateImport } from './import-start.ts';
import { listTemplates } from './list.ts';
import { setTemplateStatus } from './set-status.ts';
import { shareTemplate } from './share.ts';
import { getTemplateStorageUsage } from './storage-usage.ts';
import { unshareTemplate } from './unshare.ts';
import { updateTemplate } from './update.ts';
import { validateTemplate } from './validate.ts';

/** The routes of templates. */
export const templateRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  listTemplates,
  createTemplate,
  getTemplate,
  updateTemplate,
  deleteTemplate,
  getTemplateDocument,
  setTemplateDocument,
  deleteTemplateDocument,
  setTemplateStatus,
  validateTemplate,
  shareTemplate,
  unshareTemplate,
  getTemplateStorageUsage,
  importTemplate,
  startTemplateImport,
  getTemplateImport,
  cancelTemplateImport,
];
