# SPDX-License-Identifier: Apache-2.0
# An image that runs fairlead in a cluster (deploy/) or from manifests; docs/install/image.md describes it. The program has two names:
# `fairlead`, and `kube-proxy`, so that a DaemonSet that starts /usr/local/bin/kube-proxy starts it too.
#
#   docker build -t fairlead:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t registry.example/fairlead:0.1.0 --push .
#
# NODE is a Debian with Node in /usr/local/bin and npm: everything is compiled in it, for other processors with a cross
# compiler, so that nothing is emulated. RUNTIME has the Node of the image's processor. scripts/image/build makes both without an
# image registry.
ARG NODE=docker.io/library/node:24-bookworm-slim
ARG RUNTIME=${NODE}

FROM --platform=$TARGETPLATFORM ${RUNTIME} AS runtime

# What changes least often comes first: tools and packages, the BPF objects, the rest.
FROM --platform=$BUILDPLATFORM ${NODE} AS tools
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
COPY scripts/setup scripts/lib.sh scripts/
RUN scripts/setup --no-build

# The same for every processor.
FROM tools AS built
COPY scripts/build scripts/
COPY bpf bpf
RUN scripts/build bpf
COPY . .
RUN scripts/build ts

FROM tools AS files
ARG TARGETARCH
COPY scripts/image/root scripts/image/architecture.sh scripts/image/
RUN scripts/image/root "${TARGETARCH:-$(dpkg --print-architecture)}" /out
COPY scripts/build-native scripts/
COPY scripts/image/addon scripts/image/
COPY native native
RUN scripts/image/addon "${TARGETARCH:-$(dpkg --print-architecture)}" /out
COPY --from=runtime /usr/local/bin/node /node/bin/node
COPY --from=runtime /usr/local/LICENSE /node/LICENSE
COPY . .
COPY --from=built /src/dist dist
COPY --from=built /src/build/bpf build/bpf
RUN scripts/image/program "${TARGETARCH:-$(dpkg --print-architecture)}" /node /out

FROM scratch
COPY --from=files /out /
ARG VERSION=0.1.0
ARG REVISION=
ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin
LABEL org.opencontainers.image.title="fairlead" \
  org.opencontainers.image.description="A Kubernetes Service proxy that takes kube-proxy's place, by eBPF or iptables" \
  org.opencontainers.image.licenses="Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
WORKDIR /opt/fairlead
# tini is process 1: it passes signals on, before Node can take them, too, and reaps orphans. A program that is ended by
# SIGTERM or SIGINT counts as stopped: the container exits with 0.
ENTRYPOINT ["/usr/bin/tini", "-s", "-e", "143", "-e", "130", "--", "/usr/local/bin/fairlead"]
CMD ["--help"]
