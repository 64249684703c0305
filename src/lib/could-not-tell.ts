// SPDX-License-Identifier: Apache-2.0
// Thrown by an attempt of `fairlead probe` that could not be made. Whatever else an attempt throws means no.

export class CouldNotTell extends Error {}
