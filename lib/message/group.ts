import { CeleryOutboxError } from '../errors';
import { Canvas, requireCanvases, type Callbacks, type EndMark } from './canvas';
import type { CanvasResult, Expansion, Frozen, IdSource } from './canvas';
import type { EncodedJson } from './json';
import type { CelerySignature, StoredOptions } from './stored-options';

/**
 * Tasks that run side by side. Groups among them are flattened. An empty group sends nothing.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK for a member that is no canvas
 */
export function group(members: readonly Canvas[]): Group {
  return new Group(requireCanvases(members, 'group'));
}

/** A value, made by {@link group}. */
export class Group extends Canvas {
  /** @internal */
  constructor(readonly members: readonly Canvas[]) {
    super();
  }

  /** @internal */
  get endings(): number {
    return this.members.reduce((sum, member) => sum + member.endings, 0);
  }

  /** @internal */
  withCallbacks({ link, link_error }: Callbacks): Canvas {
    if (link !== undefined) {
      throw new CeleryOutboxError(
        'ERR_CELERY_OUTBOX_INVALID_TASK',
        'A group has no single result to link a task to: use chord(group, task)',
      );
    }
    return link_error === undefined ? this : this.map((member) => member.withCallbacks({ link_error }));
  }

  /** @internal */
  startingWith(options: StoredOptions): Canvas {
    return this.map((member) => member.startingWith(options));
  }

  /** @internal */
  withLeadingArg(arg: EncodedJson): Canvas {
    return this.map((member) => member.withLeadingArg(arg));
  }

  /** @internal */
  toCelery(): CelerySignature {
    return groupSignature(
      this.members.map((member) => member.toCelery()),
      {},
    );
  }

  /** @internal */
  freeze(end: EndMark, ids: IdSource): Frozen {
    const { groupId, groupIndex, chord } = end;
    const id = groupId ?? end.taskId ?? ids.newId();
    const members = freezeMembers(this.members, { groupId, chord }, ids);
    const options = {
      task_id: id,
      ...(groupId === undefined ? {} : { group_id: groupId }),
      ...(groupIndex === undefined ? {} : { group_index: groupIndex }),
      ...(chord === undefined ? {} : { chord }),
    };
    return {
      signature: groupSignature(
        members.map((member) => member.signature),
        { ...options, ...lineage(ids) },
      ),
      result: resultOf(id, members),
    };
  }

  /** @internal */
  expand(end: EndMark, ids: IdSource): Expansion {
    const id = end.taskId ?? ids.newId();
    // No group_index: Celery 5.2 gives it to plain groups only when a worker sends them.
    const members = flatten(this.members).map((member) => member.expand({ groupId: id }, ids));
    return { tasks: members.flatMap((member) => member.tasks), result: resultOf(id, members) };
  }

  private map(change: (member: Canvas) => Canvas): Group {
    return new Group(this.members.map(change));
  }
}

export function groupSignature(
  tasks: readonly CelerySignature[],
  options: Readonly<Record<string, unknown>>,
): CelerySignature {
  return {
    task: 'celery.group',
    args: [],
    kwargs: { tasks },
    options,
    subtask_type: 'group',
    immutable: false,
  };
}

/** Freezes the members of a group or of the header of a chord, each with its index. */
export function freezeMembers(members: readonly Canvas[], end: EndMark, ids: IdSource): Frozen[] {
  return flattenAsCelery(members).map((member, groupIndex) => member.freeze({ ...end, groupIndex }, ids));
}

/** What Celery writes into the options of a group inside another message, also when there is nothing to say. */
export function lineage({ rootId }: IdSource): { root_id: string | null; parent_id: null } {
  return { root_id: rootId ?? null, parent_id: null };
}

function flatten(members: readonly Canvas[]): Canvas[] {
  return members.flatMap((member) => (member instanceof Group ? flatten(member.members) : [member]));
}

/**
 * As Celery does where it numbers the members: those of a nested group come out reversed, and so do their results.
 * All versions do, so a canvas gives the same from Node as from Python.
 */
export function flattenAsCelery(members: readonly Canvas[]): Canvas[] {
  return members.flatMap((member) =>
    member instanceof Group ? flattenAsCelery(member.members.toReversed()) : [member],
  );
}

function resultOf(groupId: string, members: readonly { readonly result: CanvasResult }[]): CanvasResult {
  return { groupId, taskIds: members.flatMap((member) => member.result.taskIds) };
}
