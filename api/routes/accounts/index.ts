import type { Api, ApiDependencies } from '../../dependencies.ts';
import { listAccounts, setAccountStatus } from './accounts.ts';
import { createApiKey, deleteApiKey, getApiKey, listApiKeys, setApiKeyStatus, updateApiKey } from './api-keys.ts';
import { listAuditLog } from './audit-events.ts';
import {
  clearEmailChangeRequests,
  confirmEmailChange,
  getEmailChangeStatus,
  requestEmailChange,
} from './email-change.ts';
import {
  bulkDeleteNotifications,
  bulkMarkNotificationsRead,
  bulkMarkNotificationsUnread,
  deleteAll,
  deleteNotification,
  getNotification,
  listNotifications,
  markAllRead,
  markNotificationRead,
  markNotificationUnread,
} from './notifications.ts';
import { finishOidcSignIn, listIdentityProviders, startOidcSignIn } from './oidc/sign-in.ts';
import { getProfile, updateAccount, updateProfile } from './profile.ts';
import { addSandboxToProject, evictSandboxFromProject, listProjectSandboxes } from './project-sandboxes.ts';
import { createProject, deleteProject, getProject, listProjects, updateProject } from './projects.ts';
import { endSession, getSession, startSession } from './sign-in/browser-session.ts';
import {
  changePassword,
  forgotPassword,
  requestPasswordReset,
  resetPassword,
  resetUserPassword,
} from './sign-in/new-password.ts';
import { signInWithPassword, signOut } from './sign-in/with-password.ts';
import { createUser, deleteUser, getUser, listAccountUsers, updateUser } from './users.ts';

/** Routes of accounts, their users, sign-in, keys and projects. */
export const accountRoutes: readonly ((api: Api, deps: ApiDependencies) => void)[] = [
  createProject,
  listProjects,
  getProject,
  updateProject,
  deleteProject,
  listProjectSandboxes,
  addSandboxToProject,
  evictSandboxFromProject,
  createApiKey,
  listApiKeys,
  getApiKey,
  updateApiKey,
  setApiKeyStatus,
  deleteApiKey,
  listNotifications,
  getNotification,
  markNotificationRead,
  markNotificationUnread,
  markAllRead,
  bulkMarkNotificationsRead,
  bulkMarkNotificationsUnread,
  deleteNotification,
  deleteAll,
  bulkDeleteNotifications,
  signInWithPassword,
  signOut,
  startSession,
  getSession,
  endSession,
  forgotPassword,
  resetPassword,
  listIdentityProviders,
  startOidcSignIn,
  finishOidcSignIn,
  getProfile,
  updateProfile,
  listAccountUsers,
  createUser,
  getUser,
  updateUser,
  deleteUser,
  changePassword,
  requestPasswordReset,
  resetUserPassword,
  updateAccount,
  requestEmailChange,
  getEmailChangeStatus,
  clearEmailChangeRequests,
  confirmEmailChange,
  listAuditLog,
  listAccounts,
  setAccountStatus,
];
