# SPDX-License-Identifier: Apache-2.0
# An image that runs fairlead in a cluster (deploy/kustomize) or from manifests. The program has two names:
# `fairlead`, and `kube-proxy`, so that a DaemonSet that starts /usr/local/bin/kube-proxy starts it too.
# The agent works on the node it runs on, so the container needs the node's network, cgroups and bpf file
# system:
#
#   docker run --network host --cgroupns host --user 0 \
#     --cap-drop ALL --cap-add BPF --cap-add NET_ADMIN --cap-add PERFMON --cap-add SYS_ADMIN \
#     -v /sys/fs/bpf:/sys/fs/bpf -v /sys/fs/cgroup:/sys/fs/cgroup -v /run/fairlead:/run/fairlead \
#     -v /run/netns:/run/netns:ro,rslave \
#     -v /etc/fairlead/manifests:/etc/fairlead/manifests:ro \
#     fairlead run --manifests /etc/fairlead/manifests
#
# BPF is for loading programs and creating maps, NET_ADMIN for network programs and attaching them to cgroups and devices,
# PERFMON for programs that read the kernel's own structs, SYS_ADMIN for entering the network namespaces of pods
# (/run/netns), where sockets are destroyed whose endpoint is gone; without it the rest works. Before Linux 5.11 maps count as locked memory: add
# `--ulimit memlock=-1`. The bpf file system must be mounted on the host. Capabilities are effective only for root here, so the user stays root.
#
# Other base images are possible (`--build-arg BASE=…`): BUILDER is a Debian with node in /usr/local/bin and npm,
# BASE one of the same release. scripts/image-build makes both without an image registry.
ARG BUILDER=docker.io/library/node:24-bookworm-slim
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BUILDER} AS builder
WORKDIR /src
# What changes least often comes first: tools and packages, native code, the rest.
COPY package.json package-lock.json .npmrc ./
COPY scripts/setup scripts/lib.sh scripts/
RUN scripts/setup --no-build
COPY scripts/build scripts/build-native scripts/
COPY native native
COPY bpf bpf
RUN scripts/build native bpf
COPY . .
RUN scripts/build ts
# dist contains code of these packages, so the image has their licences.
RUN npm prune --omit=dev \
  && mkdir -p /out/opt/fairlead/LICENSES/packages /out/usr/local/bin \
  && find node_modules -type f -iregex '.*/\(licen[cs]e\|notice\|copying\)[^/]*' \
    -exec cp --parents -t /out/opt/fairlead/LICENSES/packages {} + \
  && cp --parents -r LICENSE LICENSES package.json dist build/bpf/*.o build/native/fairlead.node \
    /out/opt/fairlead \
  && find /out/opt/fairlead/dist -name '*.map' -delete \
  && printf '#!/bin/sh\nexec /usr/local/bin/fairlead run "$@"\n' >/out/usr/local/bin/kube-proxy \
  && chmod 755 /out/usr/local/bin/kube-proxy \
  && ln -s /opt/fairlead/dist/main.js /out/usr/local/bin/fairlead

FROM ${BASE}
RUN apt-get update \
  && apt-get install -y --no-install-recommends libbpf1 libelf1 libstdc++6 zlib1g \
  && apt-get clean \
  && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old
COPY --from=builder /usr/local/bin/node /usr/local/bin/node
COPY --from=builder /out /
WORKDIR /opt/fairlead
ENTRYPOINT ["/usr/local/bin/fairlead"]
CMD ["--help"]
