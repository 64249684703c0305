// SPDX-License-Identifier: Apache-2.0
// The projected objects a planner remembers: replaced one by one, read by every build.
import { flatText } from '../lib/compact.ts';
import { compareText } from '../lib/names.ts';
import { projectSlice } from '../model/endpoints/slice.ts';
import { projectNode } from '../model/node/node.ts';
import { refText } from '../model/object-ref.ts';
import { projectService } from '../model/service/service.ts';
import { projectServiceCidr } from '../model/service/service-cidr.ts';
import { createSharing, type Sharing } from '../model/sharing.ts';
import type {
  EndpointSlice,
  Node,
  ObjectChange,
  ObjectRef,
  Projection,
  Rejection,
  Service,
} from '../model/types.ts';
import { frontendKeysOf } from './decide/frontends.ts';
import { type NodeContext, nodeContextOf } from './decide/node-context.ts';
import { createFrontendOwners, type FrontendOwners } from './decide/ownership.ts';
import { exposedService, type NodeLabels } from './exposure/exposure.ts';
import type { PlanSettings, ServiceKey } from './types.ts';
import { createVersions, type Judged } from './versions.ts';

export interface ModelStore {
  readonly services: ReadonlyMap<ServiceKey, Service>;
  readonly slices: SliceIndex;
  readonly owners: FrontendOwners;
  readonly rejections: RejectionBook;
  /** Adds the Services to build again to `touched`; returns true if a Node or ServiceCIDR was among the changes. */
  readonly take: (changes: readonly ObjectChange[], touched: Set<ServiceKey>) => boolean;
  readonly nodeContext: () => NodeContext;
}

export interface ModelOptions {
  /** Since the epoch, for rejections. */
  readonly nowMs?: () => number;
  /** Called with all changes of one `take`, and those of them that do not count: earlier versions do. */
  readonly onJudged?: (
    changes: readonly ObjectChange[],
    refused: ReadonlySet<ObjectChange>,
  ) => void;
}

export function createModelStore(
  settings: PlanSettings,
  { nowMs, onJudged }: ModelOptions = {},
): ModelStore {
  const services = new Map<ServiceKey, Service>();
  const nodes = new Map<string, Node>();
  const serviceCidrs = new Map<string, readonly string[]>();
  const slices = createSliceIndex();
  const sharing = createSharing();
  const rejections = createRejectionBook();
  const owners = createFrontendOwners((key) => services.get(key));
  const versions = createVersions(nowMs);
  const refused = new Set<ObjectChange>();
  const nodeLabels = (): NodeLabels => nodes.get(settings.nodeName)?.labels;

  const keysOf = (service: Service, own: NodeLabels): readonly string[] =>
    frontendKeysOf(exposedService(service, own), settings.allowExternalIps);

  /** @param counted some version of the object counts: it does until a good one comes, or none */
  const projected = <T>(change: ObjectChange, project: Project<T>, counted: boolean): Judged<T> => {
    const key = refText(change.ref);
    if (change.type === 'remove') versions.forget(key);
    const judged: Judged<T> =
      change.type === 'put'
        ? versions.judge(
            key,
            withUnknown(project(change.ref, change.object, sharing), change),
            counted,
          )
        : { value: undefined, rejections: [], keep: false };
    rejections.set('model', change.ref, judged.rejections);
    if (judged.keep) refused.add(change);
    return judged;
  };

  const takeNamed = <T>(into: Map<string, T>, change: ObjectChange, project: Project<T>): void => {
    const { name } = change.ref;
    const { value, keep } = projected(change, project, into.has(name));
    if (!keep) put(into, name, value);
  };

  /** What the node exposes, it asks for. */
  const takeNode = (change: ObjectChange): void => {
    const before = nodeLabels();
    takeNamed(nodes, change, projectNode);
    if (before === nodeLabels()) return;
    for (const [key, service] of services) {
      if (service.exposure?.nodes === undefined) continue;
      owners.release(key, keysOf(service, before));
      owners.add(key, keysOf(service, nodeLabels()));
    }
  };

  const takeService = (change: ObjectChange): ServiceKey => {
    const key = flatText(change.ref.namespace, '/', change.ref.name);
    const before = services.get(key);
    const { value: after, keep } = projected(change, projectService, before !== undefined);
    if (keep) return key;
    if (before !== undefined) owners.release(key, keysOf(before, nodeLabels()));
    if (after === undefined) {
      services.delete(key);
      rejections.set('plan', change.ref, []);
    } else {
      services.set(key, after);
      owners.add(key, keysOf(after, nodeLabels()));
    }
    return key;
  };

  const takeSlice = (change: ObjectChange): readonly ServiceKey[] => {
    const { value, keep } = projected(change, projectSlice, slices.has(change.ref));
    return keep ? [] : slices.set(change.ref, value);
  };

  const takeOne = (change: ObjectChange, touched: Set<ServiceKey>): boolean => {
    switch (change.ref.kind) {
      case 'Service':
        touched.add(takeService(change));
        return false;
      case 'EndpointSlice':
        for (const key of takeSlice(change)) touched.add(key);
        return false;
      case 'Node':
        takeNode(change);
        return true;
      case 'ServiceCIDR':
        takeNamed(serviceCidrs, change, projectServiceCidr);
        return true;
      default:
        // A source may deliver kinds that the plan does not use.
        return false;
    }
  };

  return {
    services,
    slices,
    owners,
    rejections,
    take: (changes, touched) => {
      let isNodeWide = false;
      for (const change of changes) isNodeWide = takeOne(change, touched) || isNodeWide;
      onJudged?.(changes, refused);
      refused.clear();
      return isNodeWide;
    },
    nodeContext: () => nodeContextOf(settings, nodes, serviceCidrs.values()),
  };
}

type Project<T> = (ref: ObjectRef, object: unknown, sharing: Sharing) => Projection<T>;

/** A version with a field that its kind does not have is refused as one with a bad value; a first one only warns. */
function withUnknown<T>(
  { value, rejections }: Projection<T>,
  { ref: object, unknownFields = [] }: ObjectChange & { readonly type: 'put' },
): Projection<T> {
  const unknown = unknownFields.map((field) => ({
    ...{ object, field, reason: 'unknown field', isWarning: true },
  }));
  return { value, rejections: [...rejections, ...unknown] };
}

function put<T>(into: Map<string, T>, name: string, value: T | undefined): void {
  if (value === undefined) into.delete(name);
  else into.set(name, value);
}

interface RejectionBook {
  /** Replaces the rejections of one object by one step: its projection, or the build of its plan. */
  readonly set: (source: 'model' | 'plan', ref: ObjectRef, list: readonly Rejection[]) => void;
  /** The same list (===) until something changes. */
  readonly list: () => readonly Rejection[];
}

const compareRefs = (a: ObjectRef, b: ObjectRef): number =>
  compareText(a.kind, b.kind) ||
  compareText(a.namespace, b.namespace) ||
  compareText(a.name, b.name);

/** Projection's rejections of an object come before those of the build. */
export function orderRejections(lists: Iterable<readonly Rejection[]>): readonly Rejection[] {
  return [...lists].flat().sort((a, b) => compareRefs(a.object, b.object));
}

function createRejectionBook(): RejectionBook {
  const books = {
    model: new Map<string, readonly Rejection[]>(),
    plan: new Map<string, readonly Rejection[]>(),
  };
  let listed: readonly Rejection[] | undefined = [];
  return {
    set: (source, { kind, namespace, name }, list) => {
      const book = books[source];
      if (list.length === 0 && book.size === 0) return;
      const key = `${kind} ${namespace}/${name}`;
      if (list.length === 0 ? book.delete(key) : book.set(key, list)) listed = undefined;
    },
    list: () => {
      listed ??= orderRejections([...books.model.values(), ...books.plan.values()]);
      return listed;
    },
  };
}

// EndpointSlices by the Service they belong to. Keyed by the slice's own namespace and name, so that a slice
// whose service-name label changes leaves its old Service (kube-proxy keeps a stale copy).
interface SliceIndex {
  /** Puts, replaces or (undefined) removes one slice; returns the Services it touches. */
  readonly set: (ref: ObjectRef, slice: EndpointSlice | undefined) => readonly ServiceKey[];
  readonly has: (ref: ObjectRef) => boolean;
  /** The slices of the Service, sorted by name. They may arrive before the Service does. */
  readonly of: (key: ServiceKey) => readonly EndpointSlice[];
}

const NO_SLICES: readonly EndpointSlice[] = Object.freeze([]);

function createSliceIndex(): SliceIndex {
  const bySlice = new Map<string, EndpointSlice>();
  const byService = new Map<ServiceKey, EndpointSlice[]>();

  const leave = (slice: EndpointSlice): void => {
    const siblings = (byService.get(slice.service) ?? []).filter((other) => other !== slice);
    if (siblings.length === 0) byService.delete(slice.service);
    else byService.set(slice.service, siblings);
  };

  const join = (slice: EndpointSlice): void => {
    const siblings = byService.get(slice.service);
    if (siblings === undefined) {
      byService.set(slice.service, [slice]);
      return;
    }
    const at = siblings.findIndex((other) => compareText(other.name, slice.name) > 0);
    siblings.splice(at < 0 ? siblings.length : at, 0, slice);
  };

  return {
    set: (ref, slice) => {
      const key = flatText(ref.namespace, '/', ref.name);
      const before = bySlice.get(key);
      if (before !== undefined) leave(before);
      if (slice === undefined) {
        bySlice.delete(key);
      } else {
        bySlice.set(key, slice);
        join(slice);
      }
      return [before, slice].flatMap((touched) => (touched === undefined ? [] : touched.service));
    },
    has: ({ namespace, name }) => bySlice.has(flatText(namespace, '/', name)),
    of: (key) => byService.get(key) ?? NO_SLICES,
  };
}
