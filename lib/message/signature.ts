import { CeleryOutboxError } from '../errors';
import { Canvas, requireCanvas, type Callbacks, type EndMark } from './canvas';
import { checkOptions, SIGNATURE_SCOPE } from './check-options';
import { EncodedJson } from './json';
import { mergeOptions, type CelerySignature, type StoredOptions } from './stored-options';
import { checkTaskName, encodeArgs, encodeKwargs } from './task-call';
import type { CanvasResult, Expansion, Frozen, IdSource } from './canvas';
import type { SignatureOptions } from './task-options';
import type { TaskName } from './task-registry';

interface SignatureParts {
  readonly name: string;
  readonly args: EncodedJson;
  readonly kwargs: EncodedJson;
  readonly options: StoredOptions;
  readonly isImmutable: boolean;
}

/**
 * A task with its arguments and options, to be sent later: alone, as part of a canvas, or as a callback.
 *
 * Arguments are encoded here, so later changes of the objects do not reach the task. Whoever runs it after another
 * task puts that one's result in front of `args`, unless the signature is {@link Signature.immutable}.
 *
 * @throws ERR_CELERY_OUTBOX_INVALID_TASK, ERR_CELERY_OUTBOX_UNENCODABLE for name and arguments
 * @throws ERR_CELERY_OUTBOX_UNKNOWN_OPTION, ERR_CELERY_OUTBOX_INVALID_OPTION for options
 */
export function signature(
  name: TaskName,
  args?: readonly unknown[],
  kwargs?: Readonly<Record<string, unknown>>,
  options?: SignatureOptions,
): Signature {
  return new Signature({
    name: checkTaskName(name),
    args: encodeArgs(args),
    kwargs: encodeKwargs(kwargs),
    options: checkOptions(options, SIGNATURE_SCOPE),
    isImmutable: false,
  });
}

/** A value, made by {@link signature}: every method returns a new one. */
export class Signature extends Canvas {
  /** @internal */
  readonly endings = 1;

  /** @internal */
  constructor(private readonly parts: SignatureParts) {
    super();
  }

  override link(callback: Canvas): Signature {
    return this.withCallbacks({ link: [requireCanvas(callback, 'callback').toCelery()] });
  }

  override onError(errback: Canvas): Signature {
    return this.withCallbacks({ link_error: [requireCanvas(errback, 'errback').toCelery()] });
  }

  /** Adds options; later values win, `link` and `linkError` add up. @throws as {@link signature} */
  set(options: SignatureOptions): Signature {
    return this.startingWith(checkOptions(options, SIGNATURE_SCOPE));
  }

  /** Whether the task is run with exactly its own arguments, without the result of the one before it. */
  immutable(isImmutable = true): Signature {
    return new Signature({ ...this.parts, isImmutable });
  }

  /** @internal */
  withCallbacks(callbacks: Callbacks): Signature {
    return this.startingWith(callbacks);
  }

  /** @internal */
  startingWith(options: StoredOptions): Signature {
    return new Signature({ ...this.parts, options: mergeOptions(this.parts.options, options) });
  }

  /** @internal */
  withLeadingArg(arg: EncodedJson): Signature {
    const { args, isImmutable } = this.parts;
    if (isImmutable) return this;
    const text = args.text === '[]' ? `[${arg.text}]` : `[${arg.text},${args.text.slice(1)}`;
    return new Signature({ ...this.parts, args: new EncodedJson(text, Math.max(args.depth, arg.depth + 1)) });
  }

  /** @internal */
  toCelery(): CelerySignature {
    return this.embedded(this.parts.options);
  }

  /** @internal */
  freeze(end: EndMark, ids: IdSource): Frozen {
    const taskId = this.idFor(end, ids);
    const options = { ...this.marked(end, ids), task_id: taskId };
    return { signature: this.embedded(options), result: resultOf(taskId) };
  }

  /** @internal */
  expand(end: EndMark, ids: IdSource): Expansion {
    const { name, args, kwargs } = this.parts;
    const taskId = this.idFor(end, ids);
    const { task_id: _ownId, ...options } = this.marked(end, ids);
    return { tasks: [{ taskId, name, args, kwargs, options }], result: resultOf(taskId) };
  }

  private idFor(end: EndMark, ids: IdSource): string {
    return end.taskId ?? this.parts.options.task_id ?? ids.newId();
  }

  private marked({ groupId, groupIndex, chord }: EndMark, { rootId }: IdSource): StoredOptions {
    return {
      ...this.parts.options,
      ...(rootId === undefined ? {} : { root_id: rootId }),
      ...(groupId === undefined ? {} : { group_id: groupId }),
      ...(groupIndex === undefined ? {} : { group_index: groupIndex }),
      ...(chord === undefined ? {} : { chord }),
    };
  }

  private embedded(options: StoredOptions): CelerySignature {
    const { name, args, kwargs, isImmutable } = this.parts;
    if (typeof options.expires === 'string') throw absoluteExpiry(name);
    return { task: name, args, kwargs, options, subtask_type: null, immutable: isImmutable };
  }
}

function resultOf(taskId: string): CanvasResult {
  return { groupId: null, taskIds: [taskId] };
}

function absoluteExpiry(name: string): CeleryOutboxError {
  // send_task of Celery 5.2 compares the string with 0 and fails, in the worker, after the task before it succeeded.
  return new CeleryOutboxError(
    'ERR_CELERY_OUTBOX_INVALID_OPTION',
    `Option expires of ${name} must be a number of seconds: a worker sends this task, and Celery 5.2 reads no instant there`,
  );
}
