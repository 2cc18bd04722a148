import { EncodedJson } from '../json';
import {
  copied,
  Draft,
  type DraftFields,
  type DraftOptions,
  type DraftResult,
  merged,
  type Place,
} from './draft';
import { GroupDraft } from './group-draft';
import type { Sending } from './sending';

const NO_RESULTS = new EncodedJson('[]', 1);

/** A body that runs with the results of a header. */
export class ChordDraft extends Draft {
  constructor(
    /** A list until it is frozen. */
    public header: Draft[] | GroupDraft,
    public body: Draft,
    options: DraftOptions = {},
  ) {
    super(options);
  }

  get endings(): number {
    return this.body.endings;
  }

  clone(given: DraftOptions = {}): ChordDraft {
    const header =
      this.header instanceof GroupDraft ? this.header.clone().tasks : this.header.map((task) => task.clone());
    const options = copied(merged(this.options, given));
    return new ChordDraft(header, this.body.clone(), options);
  }

  freeze({ id, groupId, groupIndex, chord, rootId, parentId }: Place, sending: Sending): DraftResult {
    const header = this.header instanceof GroupDraft ? this.header : new GroupDraft(this.header);
    this.header = header;
    header.freeze({ parentId, rootId, chord: this.body }, sending);
    const result = this.body.freeze({ id, rootId, chord, groupId, groupIndex }, sending);
    this.options['task_id'] = header.options['task_id'];
    return result;
  }

  send(given: DraftOptions, sending: Sending): DraftResult {
    const { task_id: givenId, ...bodyOptions } = given;
    const body = this.body.clone(bodyOptions);
    const header = this.header instanceof GroupDraft ? this.header.clone() : new GroupDraft(this.header);
    // As in Celery, whose chord takes `countdown` for itself: a countdown delays the body alone.
    const { task_id: ownId, countdown: _, ...passed } = { ...this.options, ...bodyOptions };
    const { task_id: _ownId, ...options }: DraftOptions = { ...this.options, ...passed };
    const groupId = (header.options['task_id'] as string | undefined) ?? sending.newId();
    const rootId = (body.options['root_id'] ?? undefined) as string | undefined;
    Object.assign(body.options, options);
    const result = body.freeze(
      { id: (givenId ?? ownId ?? undefined) as string | undefined, rootId },
      sending,
    );
    header.freeze({ groupId, chord: body, rootId }, sending);
    if (header.tasks.length === 0) {
      body.prepend(NO_RESULTS);
      body.send({}, sending);
      return result;
    }
    const { chain: _chain, chord: _chord, ...headerOptions } = options;
    header.send({ ...headerOptions, task_id: groupId }, sending);
    return result;
  }

  addErrback(errback: unknown): void {
    this.body.addErrback(errback);
  }

  prepend(arg: EncodedJson): void {
    for (const task of this.header instanceof GroupDraft ? this.header.tasks : this.header) task.prepend(arg);
  }

  fields(): DraftFields {
    const kwargs = { kwargs: {}, header: this.header, body: this.body };
    return { task: 'celery.chord', args: [], kwargs, subtask_type: 'chord', immutable: false };
  }
}
