# SPDX-License-Identifier: Apache-2.0
# What the scripts of the Dockerfile know of an architecture; sourced with Debian's name of it.

architecture=${1-}
case $architecture in
  amd64) triplet=x86_64-linux-gnu ;;
  arm64) triplet=aarch64-linux-gnu ;;
  *) complain 2 "there is no image for '$architecture': use amd64 or arm64" ;;
esac
