import { EncodedJson } from '../json';
import type { StoredOptions } from '../stored-options';
import {
  addOnce,
  copied,
  Draft,
  type DraftFields,
  type DraftOptions,
  type DraftResult,
  merged,
  type Place,
  toPlain,
} from './draft';
import type { Sending } from './sending';

export interface SignatureParts {
  readonly name: string;
  readonly args: EncodedJson;
  readonly kwargs: EncodedJson;
  readonly isImmutable: boolean;
}

/** A task. */
export class SignatureDraft extends Draft {
  readonly endings = 1;

  constructor(
    private parts: SignatureParts,
    options: DraftOptions,
  ) {
    super(options);
  }

  clone(given: DraftOptions = {}): SignatureDraft {
    return new SignatureDraft(this.parts, copied(merged(this.options, given)));
  }

  freeze({ id, groupId, groupIndex, chord, rootId, parentId }: Place, sending: Sending): DraftResult {
    const { options } = this;
    const taskId = (options['task_id'] ??= id ?? sending.newId()) as string;
    if (rootId !== undefined) options['root_id'] = rootId;
    if (parentId !== undefined) options['parent_id'] = parentId;
    if (groupId !== undefined) options['group_id'] ??= groupId;
    if (chord !== undefined && chord !== null) options['chord'] = chord;
    if (groupIndex !== undefined) options['group_index'] = groupIndex;
    return { taskId };
  }

  send(given: DraftOptions, sending: Sending): DraftResult {
    const { name, args, kwargs } = this.parts;
    const known = Object.entries(given).filter(([, value]) => value !== null);
    const { task_id, add_to_parent: _, chord, ...options } = merged(this.options, Object.fromEntries(known));
    const taskId = (task_id as string | undefined) ?? sending.newId();
    const stored = Object.entries(toPlain(options) as DraftOptions).filter(([, value]) => value !== null);
    const body = typeof chord === 'object' && chord !== null ? chord : undefined;
    sending.emit({
      taskId,
      name,
      args,
      kwargs,
      options: {
        ...(Object.fromEntries(stored) as StoredOptions),
        ...(body && { chord: sending.encodeBody(body, () => toPlain(body)) }),
      },
    });
    return { taskId };
  }

  addErrback(errback: unknown): void {
    addOnce(this.options, 'link_error', errback);
  }

  prepend(arg: EncodedJson): void {
    const { args, isImmutable } = this.parts;
    if (isImmutable) return;
    const text = args.text === '[]' ? `[${arg.text}]` : `[${arg.text},${args.text.slice(1)}`;
    this.parts = { ...this.parts, args: new EncodedJson(text, Math.max(args.depth, arg.depth + 1)) };
  }

  fields(): DraftFields {
    const { name, args, kwargs, isImmutable } = this.parts;
    return { task: name, args, kwargs, subtask_type: null, immutable: isImmutable };
  }
}
