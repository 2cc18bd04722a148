import type { EncodedJson } from '../json';
import { ChordDraft } from './chord-draft';
import {
  addOnce,
  copied,
  Draft,
  type DraftFields,
  type DraftOptions,
  type DraftResult,
  isSet,
  merged,
  type Place,
} from './draft';
import { GroupDraft } from './group-draft';
import type { Sending } from './sending';

interface Preparation {
  /** Whether copies of the steps are prepared, or they themselves. */
  readonly isCopy: boolean;
  readonly errbacks: readonly unknown[];
}

interface Prepared {
  /** Last first: a worker takes the next step from the end. */
  readonly steps: Draft[];
  readonly result: DraftResult;
}

/** Tasks that run one after another. */
export class ChainDraft extends Draft {
  constructor(
    readonly tasks: readonly Draft[],
    options: DraftOptions = {},
  ) {
    super(options);
  }

  get endings(): number {
    const counts = this.tasks.map((task) => task.endings);
    return counts.findLast((count) => count > 0) ?? 0;
  }

  clone(given: DraftOptions = {}): ChainDraft {
    const tasks = this.tasks.map((task) => task.clone());
    return new ChainDraft(tasks, copied(merged(this.options, given)));
  }

  /** The steps keep their ids, but the chain its shape: a group before another step becomes a chord when it is sent. */
  freeze({ parentId: _, ...place }: Place, sending: Sending): DraftResult {
    return this.#prepare(place, { isCopy: false, errbacks: [] }, sending).result;
  }

  send(given: DraftOptions, sending: Sending): DraftResult {
    const { group_id, chord, task_id, link, link_error, root_id, parent_id, group_index, ...options } = {
      ...this.options,
      ...given,
    };
    const place = {
      id: (task_id ?? undefined) as string | undefined,
      groupId: (group_id ?? undefined) as string | undefined,
      groupIndex: (group_index ?? undefined) as number | undefined,
      rootId: (root_id ?? undefined) as string | undefined,
      chord,
    };
    const { steps, result } = this.#prepare(place, { isCopy: true, errbacks: asList(link_error) }, sending);
    const [last] = steps;
    if (last !== undefined && asList(link).length > 0) {
      last.options['link'] = [...asList(last.options['link']), ...asList(link)];
    }
    const first = steps.pop();
    const chain = [...asList(options['chain']), ...steps];
    // Celery drops the parent of a chain.
    const sent = first?.send({ ...options, ...(isSet(parent_id) && { parent_id }), chain }, sending);
    return steps.length === 0 && sent !== undefined ? sent : result;
  }

  /** Freezes the steps from the last to the first, those of chains among them in their place. */
  #prepare(place: Place, { isCopy, errbacks }: Preparation, sending: Sending): Prepared {
    const left = [...this.tasks];
    const steps: Draft[] = [];
    const results: DraftResult[] = [];
    for (let task = left.pop(); task !== undefined; task = left.pop()) {
      if (task instanceof GroupDraft) task = task.unrolled();
      if (isCopy) task = task.clone();
      if (task instanceof ChainDraft) {
        left.push(...task.tasks);
        continue;
      }
      const isLast = steps.length === 0;
      if (task instanceof GroupDraft && !isLast) task = upgraded(task, steps, results, place);
      const result = isLast ? task.freeze(place, sending) : task.freeze({ rootId: place.rootId }, sending);
      for (const errback of errbacks) task.addErrback(errback);
      steps.push(task);
      results.push(result);
    }
    return { steps, result: results[0] ?? { groupId: '', members: [] } };
  }

  addErrback(errback: unknown): void {
    addOnce(this.options, 'link_error', errback);
  }

  prepend(arg: EncodedJson): void {
    this.tasks[0]?.prepend(arg);
  }

  fields(): DraftFields {
    const kwargs = { tasks: this.tasks };
    return { task: 'celery.chain', args: [], kwargs, subtask_type: 'chain', immutable: false };
  }
}

/** A group that is followed by a step is the header of a chord, and that step its body. */
function upgraded(task: GroupDraft, steps: Draft[], results: DraftResult[], { rootId }: Place): Draft {
  const body = steps.pop();
  const result = results.pop();
  if (body === undefined) return task;
  const id =
    result !== undefined && 'taskId' in result && !(body instanceof ChordDraft) ? result.taskId : null;
  return new ChordDraft(task.clone().tasks, body, {
    ...(id !== null && { task_id: id }),
    root_id: rootId ?? null,
  });
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}
