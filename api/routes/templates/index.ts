import type { Api, ApiDependencies } from '../../dependencies.ts';
import { createTemplate } from './create.ts';
import { deleteTemplate } from './delete.ts';
import { deleteTemplateDocument, getTemplateDocument, setTemplateDocument } from './document.ts';
import { importTemplate } from './import-direct.ts';
import {
  cancelImportJob,
  cancelTemplateImport,
  getImportJob,
  getTemplateImport,
  listImportJobs,
  startTemplateImport,
} from './imports.ts';
import { getTemplate, listTemplates } from './read.ts';
import { shareTemplate, unshareTemplate } from './sharing.ts';
import { setTemplateStatus, validateTemplate } from './status.ts';
import { getTemplateStorageUsage } from './storage-usage.ts';
import { updateTemplate } from './update.ts';

/** The routes of templates and of the imports of their images. */
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
  listImportJobs,
  getImportJob,
  cancelImportJob,
];
