// SPDX-License-Identifier: Apache-2.0

// Prints the seccomp profile that containerd gives a container whose seccompProfile is RuntimeDefault. stdin: the
// container's config.json of the OCI runtime specification, on whose capabilities the profile depends.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	var spec specs.Spec
	check(json.NewDecoder(os.Stdin).Decode(&spec))
	check(json.NewEncoder(os.Stdout).Encode(seccomp.DefaultProfile(&spec)))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
