import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { Loading } from '../components/loaded.tsx';
import { type PageSearch, parseSearch, stringifySearch } from '../components/page-search.ts';
import { Frame } from './frame.tsx';
import { NotFound } from './not-found.tsx';
import { PageProblem } from './page-problem.tsx';
import { SignedIn } from './signed-in.tsx';

const root = createRootRoute({
  validateSearch: (search: PageSearch) => search,
  notFoundComponent: NotFound,
});

/** Pages of people who are signed in. */
const signedIn = createRoute({
  getParentRoute: () => root,
  id: 'signed-in',
  component: () => (
    <SignedIn>
      <Frame />
    </SignedIn>
  ),
});

type LoadPage = () => Promise<{ Page: () => React.ReactNode }>;

const page = <const Path extends string>(path: Path, load: LoadPage) =>
  createRoute({ getParentRoute: () => signedIn, path, component: lazyRouteComponent(load, 'Page') });

/** Pages behind the links in mails. */
const open = <const Path extends string>(path: Path, load: LoadPage) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load, 'Page') });

const routeTree = root.addChildren([
  signedIn.addChildren([
    page('/', () => import('../pages/overview/overview.tsx')),
    page('/sandboxes', () => import('../pages/sandboxes/sandbox-list.tsx')),
    page('/sandboxes/new', () => import('../pages/sandboxes/new-sandbox.tsx')),
    page('/sandboxes/$sandboxId', () => import('../pages/sandboxes/sandbox.tsx')),
    page('/sandboxes/$sandboxId/$part', () => import('../pages/sandboxes/sandbox.tsx')),
    page('/templates', () => import('../pages/templates/template-list.tsx')),
    page('/templates/new', () => import('../pages/templates/new-template.tsx')),
    page('/templates/imports', () => import('../pages/templates/import-list.tsx')),
    page('/templates/$templateId', () => import('../pages/templates/template.tsx')),
    page('/projects', () => import('../pages/projects/project-list.tsx')),
    page('/projects/$projectId', () => import('../pages/projects/project.tsx')),
    page('/keys', () => import('../pages/keys/keys.tsx')),
    page('/webhooks', () => import('../pages/webhooks/webhook-list.tsx')),
    page('/webhooks/$endpointId', () => import('../pages/webhooks/webhook.tsx')),
    page('/usage', () => import('../pages/usage/usage.tsx')),
    page('/quotas', () => import('../pages/quotas/quotas.tsx')),
    page('/billing', () => import('../pages/billing/billing.tsx')),
    page('/billing/invoices/$invoiceId', () => import('../pages/billing/invoice.tsx')),
    page('/users', () => import('../pages/users/user-list.tsx')),
    page('/users/$userId', () => import('../pages/users/user.tsx')),
    page('/audit', () => import('../pages/audit/audit-log.tsx')),
    page('/notifications', () => import('../pages/notifications/notifications.tsx')),
    page('/profile', () => import('../pages/profile/profile.tsx')),
    page('/admin/accounts', () => import('../pages/admin/accounts.tsx')),
    page('/admin/hosts', () => import('../pages/admin/hosts.tsx')),
    page('/admin/workers', () => import('../pages/admin/workers.tsx')),
    page('/admin/dead-letters', () => import('../pages/admin/dead-letters.tsx')),
    page('/admin/comparison', () => import('../pages/admin/comparison.tsx')),
  ]),
  open('/sign-in', () => import('../pages/sign-in/sign-in.tsx')),
  open('/forgot-password', () => import('../pages/sign-in/forgot-password.tsx')),
  open('/reset-password', () => import('../pages/sign-in/reset-password.tsx')),
  open('/confirm-email-change', () => import('../pages/sign-in/confirm-email-change.tsx')),
]);

export const router = createRouter({
  routeTree,
  basepath: new URL(document.baseURI).pathname.replace(/\/$/, ''),
  parseSearch,
  stringifySearch,
  defaultPreload: 'intent',
  defaultPendingComponent: Loading,
  defaultErrorComponent: PageProblem,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
