import { CeleryOutboxError } from '../errors';
import { Canvas, requireCanvas, requireCanvases, type Callbacks, type EndMark } from './canvas';
import { flattenAsCelery, freezeMembers, Group, groupSignature, lineage } from './group';
import { EncodedJson, snapshotJson } from './json';
import type { CanvasResult, Expansion, Frozen, IdSource, PlainTask } from './canvas';
import type { CelerySignature, StoredOptions } from './stored-options';

const NO_RESULTS = new EncodedJson('[]', 1);

/**
 * A body that runs once, with the list of results, when all tasks of the header have succeeded. Needs a result
 * backend. With an empty header the body is sent at once, with an empty list.
 *
 * The results of a group inside the header come out reversed, as they do in Celery.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK for a part that is no canvas, or a header that Celery would miscount
 */
export function chord(header: readonly Canvas[] | Group, body: Canvas): Chord {
  const members = header instanceof Group ? header.members : requireCanvases(header, 'chord header');
  return new Chord(members, requireCanvas(body, 'chord body'));
}

/** A value, made by {@link chord}. */
export class Chord extends Canvas {
  /** @internal */
  constructor(
    readonly header: readonly Canvas[],
    readonly body: Canvas,
  ) {
    super();
    refuseMiscounted(flattenAsCelery(header));
  }

  /** @internal */
  get endings(): number {
    return this.body.endings;
  }

  /** @internal */
  withCallbacks(callbacks: Callbacks): Canvas {
    return new Chord(this.header, this.body.withCallbacks(callbacks));
  }

  /** @internal */
  startingWith(options: StoredOptions): Canvas {
    // As in Celery, header and body both get them; but the header alone delays the canvas and has its parent.
    const { countdown: _countdown, eta: _eta, parent_id: _parentId, ...bodyOptions } = options;
    return new Chord(
      this.header.map((member) => member.startingWith(options)),
      this.body.startingWith(bodyOptions),
    );
  }

  /** @internal */
  withLeadingArg(arg: EncodedJson): Canvas {
    return new Chord(
      this.header.map((member) => member.withLeadingArg(arg)),
      this.body,
    );
  }

  /** @internal */
  toCelery(): CelerySignature {
    const header = groupSignature(
      this.header.map((member) => member.toCelery()),
      {},
    );
    return chordSignature(header, this.body.toCelery(), {});
  }

  /** @internal */
  freeze(end: EndMark, ids: IdSource): Frozen {
    const task_id = ids.newId();
    const { body, result } = this.freezeBody(end, ids);
    const members = freezeMembers(this.header, { chord: body }, ids);
    const header = groupSignature(
      members.map((member) => member.signature),
      {
        task_id,
        chord: body,
        ...lineage(ids),
      },
    );
    return { signature: chordSignature(header, body, { task_id }), result };
  }

  /** @internal */
  expand(end: EndMark, ids: IdSource): Expansion {
    const members = flattenAsCelery(this.header);
    if (members.length === 0) return this.body.withLeadingArg(NO_RESULTS).expand(end, ids);
    const groupId = ids.newId();
    const { body, result } = this.freezeBody(end, ids);
    const size = members.reduce((sum, member) => sum + member.endings, 0);
    const tasks = members
      .flatMap((member, groupIndex) => member.expand({ groupId, groupIndex, chord: body }, ids).tasks)
      .map((task) => withChordSize(task, groupId, size));
    return { tasks, result };
  }

  private freezeBody(end: EndMark, ids: IdSource): { body: EncodedJson; result: CanvasResult } {
    const { signature, result } = this.body.freeze(end, ids);
    // Encoded once: every task of the header carries it, and in nested chords the copies multiply.
    return { body: snapshotJson(signature, 'chord body'), result };
  }
}

function chordSignature(
  header: CelerySignature,
  body: CelerySignature | EncodedJson,
  options: Readonly<Record<string, unknown>>,
): CelerySignature {
  const kwargs = { kwargs: {}, header, body };
  return { task: 'celery.chord', args: [], kwargs, options, subtask_type: 'chord', immutable: false };
}

function withChordSize(task: PlainTask, groupId: string, size: number): PlainTask {
  return {
    ...task,
    options: { ...task.options, chord_size: { ...task.options.chord_size, [groupId]: size } },
  };
}

/**
 * When a worker sends a group that ends a member of the header, it sets the size of the chord to that of the group:
 * right if there is nothing else in the header, otherwise the body runs too early or never.
 */
function refuseMiscounted(members: readonly Canvas[]): void {
  if (members.length <= 1 || members.every((member) => member.endings === 1)) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_TASK',
    'A member of a chord header ends in a group, next to other members: Celery would miscount them. ' +
      'Let it end in one task, such as chain(..., group, task)',
  );
}
