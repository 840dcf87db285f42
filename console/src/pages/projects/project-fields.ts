/** Operations whose replies a change of a project makes old. */
export const changes = ['listProjects', 'getProject', 'listSandboxes', 'getSandbox'] as const;

export const help = {
  name: 'As you like. Unique among the projects of its owner.',
  description: 'Shown on the page of the project.',
  is_default: 'New sandboxes go there if they name no project.',
};

export const labels = { is_default: 'Default project' };
