# SPDX-License-Identifier: Apache-2.0
# An image for hosts that run fairlead from manifests. The agent works on the node it runs on, so the
# container needs the node's network, cgroups and bpf file system:
#
#   docker run --network host --cgroupns host --user 0 \
#     --cap-drop ALL --cap-add BPF --cap-add NET_ADMIN --cap-add PERFMON \
#     -v /sys/fs/bpf:/sys/fs/bpf -v /sys/fs/cgroup:/sys/fs/cgroup -v /run/fairlead:/run/fairlead \
#     -v /etc/fairlead/manifests:/etc/fairlead/manifests:ro \
#     fairlead run --manifests /etc/fairlead/manifests
#
# BPF loads programs and makes maps; NET_ADMIN lets them be network programs and attaches them to
# cgroups. PERFMON is needed before Linux 6.12; from there on it only spares the programs the kernel's
# barriers against wrong guesses of the processor, which double the time of choosing a backend. Before
# 5.11 maps are locked memory: add `--ulimit memlock=-1`. The bpf file system must be mounted on the host:
# mounting it would take SYS_ADMIN. Capabilities only count for root here, so the user stays root.

FROM node:24-bookworm AS builder
WORKDIR /src
# Tools first: they change less often than sources.
COPY package.json package-lock.json .npmrc ./
COPY scripts ./scripts
RUN scripts/setup --no-build
COPY bpf ./bpf
COPY native ./native
COPY src ./src
COPY tsconfig.json ./
RUN scripts/build && npm prune --omit=dev

FROM node:24-bookworm-slim
RUN apt-get update \
  && apt-get install -y --no-install-recommends libbpf1 libelf1 zlib1g \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/fairlead
COPY --from=builder /src/package.json ./
COPY --from=builder /src/node_modules ./node_modules
COPY --from=builder /src/dist ./dist
COPY --from=builder /src/build/bpf ./build/bpf
COPY --from=builder /src/build/native/fairlead.node ./build/native/fairlead.node
COPY LICENSE ./
COPY LICENSES ./LICENSES
ENTRYPOINT ["node", "/opt/fairlead/dist/main.js"]
CMD ["--help"]
