const names: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', arm64: 'arm64' };

/** The architecture of images that run on this machine, as images name it. */
export const ownArchitecture = names[process.arch] ?? process.arch;
