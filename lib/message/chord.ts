import { CeleryOutboxError } from '../errors';
import { Canvas, requireCanvas, requireCanvases, type Callbacks } from './canvas';
import { ChordDraft } from './draft/chord-draft';
import { Group } from './group';

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
    refuseMiscounted(header);
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
  draft(): ChordDraft {
    return new ChordDraft(
      this.header.map((member) => member.draft()),
      this.body.draft(),
    );
  }
}

/**
 * When a worker sends a group that ends a member of the header, it sets the size of the chord to that of the group:
 * right if there is nothing else in the header, otherwise the body runs too early or never.
 */
function refuseMiscounted(header: readonly Canvas[]): void {
  const members = flattened(header);
  if (members.length <= 1 || members.every((member) => member.endings === 1)) return;
  throw new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_TASK',
    'A member of a chord header ends in a group, next to other members: Celery would miscount them. ' +
      'Let it end in one task, such as chain(..., group, task)',
  );
}

function flattened(members: readonly Canvas[]): Canvas[] {
  return members.flatMap((member) => (member instanceof Group ? flattened(member.members) : [member]));
}
