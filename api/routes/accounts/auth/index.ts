import { forgotPassword } from './forgot-password.ts';
import { finishOidcSignIn } from './oidc-callback.ts';
import { startOidcSignIn } from './oidc-start.ts';
import { resetPassword } from './reset-password.ts';
import { signInWithPassword } from './sign-in.ts';
import { signOut } from './sign-out.ts';

/** Routes to sign in, to sign out, and to set a new password. */
export const authRoutes = [
  signInWithPassword,
  signOut,
  forgotPassword,
  resetPassword,
  startOidcSignIn,
  finishOidcSignIn,
];
