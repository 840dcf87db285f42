/** What the forms of users have in common. */
export const labels = {
  email: 'E-mail',
  username: 'User name',
  display_name: 'Name',
  is_root_user: 'Root user',
};

export const help = {
  display_name: 'As others see it.',
  description: '',
  role: 'An admin operates the platform, across accounts.',
  is_root_user: 'Sees and manages everything in the account: users, their sandboxes and keys, quotas and billing.',
};

/** Operations whose replies a change of a user makes old; the user can be the one who is signed in. */
export const changes = ['listUsers', 'getUser', 'getSession', 'getProfile'] as const;
