import type { EncodedJson } from '../json';
import {
  copied,
  Draft,
  type DraftFields,
  type DraftOptions,
  type DraftResult,
  merged,
  type Place,
} from './draft';
import type { Sending } from './sending';

/** Tasks that run side by side. */
export class GroupDraft extends Draft {
  constructor(
    public tasks: Draft[],
    options: DraftOptions = {},
  ) {
    super(options);
  }

  get endings(): number {
    return this.tasks.reduce((sum, task) => sum + task.endings, 0);
  }

  /** The only member, if there is just one: in a chain it stands for the group. */
  unrolled(): Draft {
    const [only, ...others] = this.tasks;
    return only !== undefined && others.length === 0 ? only : this;
  }

  /** Members are shared, and so is the list of them, which freezing either of the two replaces for both. */
  clone(given: DraftOptions = {}): GroupDraft {
    this.tasks = [...this.tasks];
    return new GroupDraft(this.tasks, copied(merged(this.options, given)));
  }

  freeze(
    { id: givenId, groupId, groupIndex, chord, rootId, parentId }: Place,
    sending: Sending,
  ): DraftResult {
    const { options } = this;
    // Celery drops an id that is given for a group at the end of a chain.
    const id = (options['task_id'] ??= groupId ?? givenId ?? sending.newId()) as string;
    if (groupId !== undefined) options['group_id'] = groupId;
    if (chord !== undefined && chord !== null) options['chord'] = chord;
    if (groupIndex !== undefined) options['group_index'] = groupIndex;
    // Written also when there is nothing to say.
    const root = firstSet(options, 'root_id', rootId);
    const parent = firstSet(options, 'parent_id', parentId);
    const frozen = flattened(this.tasks);
    const members = frozen.map((task, index) =>
      task.freeze({ groupId, groupIndex: index, chord, rootId: root, parentId: parent }, sending),
    );
    this.tasks.splice(0, this.tasks.length, ...frozen);
    return { groupId: id, members };
  }

  send(given: DraftOptions, sending: Sending): DraftResult {
    if (this.tasks.length === 0) return this.freeze({}, sending);
    const { task_id, add_to_parent: _, chord: body, ...options } = { ...this.options, ...given };
    const groupId = (task_id as string | undefined) ?? sending.newId();
    const rootId = (options['root_id'] ?? undefined) as string | undefined;
    // No group_index: Celery 5.2 gives it to plain groups only when a worker sends them.
    const members = unnested(this.tasks).map((task) => {
      const result = task.freeze({ groupId, rootId }, sending);
      return { task, result, chord: body ?? task.options['chord'] ?? null };
    });
    const sendAll = (): void => {
      for (const { task, chord } of members) {
        task.send({ ...options, group_id: groupId, chord, add_to_parent: false }, sending);
      }
    };
    if (members.at(-1)?.chord === null) sendAll();
    else sending.inHeader(groupId, sum(members), sendAll);
    const results = members.map(({ result }) => result);
    const [only, ...others] = results;
    const isGroup = only !== undefined && 'groupId' in only && others.length === 0;
    return isGroup ? only : { groupId, members: results };
  }

  addErrback(errback: unknown): void {
    for (const task of this.tasks) task.addErrback(errback);
  }

  prepend(arg: EncodedJson): void {
    for (const task of this.tasks) task.prepend(arg);
  }

  fields(): DraftFields {
    const kwargs = { tasks: this.tasks };
    return { task: 'celery.group', args: [], kwargs, subtask_type: 'group', immutable: false };
  }
}

function firstSet(options: DraftOptions, name: string, value: string | undefined): string | undefined {
  if (!Object.hasOwn(options, name)) options[name] = value ?? null;
  return (options[name] ?? undefined) as string | undefined;
}

/** Copies of the members, those of groups among them in their place. */
function unnested(tasks: readonly Draft[]): Draft[] {
  return tasks.flatMap((task) => {
    const copy = task.clone();
    return copy instanceof GroupDraft ? unnested(copy.tasks) : [copy];
  });
}

/**
 * As {@link unnested}, for where Celery numbers the members: those of a nested group come out reversed, and so do their
 * results. All versions do, so a canvas gives the same from Node as from Python.
 */
function flattened(tasks: readonly Draft[]): Draft[] {
  return tasks.flatMap((task) => {
    const copy = task.clone();
    return copy instanceof GroupDraft ? flattened(copy.tasks.toReversed()) : [copy];
  });
}

function sum(members: readonly { readonly task: Draft }[]): number {
  return members.reduce((total, { task }) => total + task.endings, 0);
}
