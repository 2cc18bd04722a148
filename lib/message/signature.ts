import { Canvas, requireCanvas, type Callbacks } from './canvas';
import { checkOptions, SIGNATURE_SCOPE } from './check-options';
import { SignatureDraft, type SignatureParts } from './draft/signature-draft';
import { mergeOptions, type StoredOptions } from './stored-options';
import { checkTaskName, encodeArgs, encodeKwargs } from './task-call';
import type { SignatureOptions } from './task-options';
import type { TaskName } from './task-registry';

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
  const parts = {
    name: checkTaskName(name),
    args: encodeArgs(args),
    kwargs: encodeKwargs(kwargs),
    isImmutable: false,
  };
  return new Signature(parts, checkOptions(options, SIGNATURE_SCOPE));
}

/** A value, made by {@link signature}: every method returns a new one. */
export class Signature extends Canvas {
  /** @internal */
  readonly endings = 1;

  /** @internal */
  constructor(
    private readonly parts: SignatureParts,
    private readonly options: StoredOptions,
  ) {
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
    return this.withOptions(checkOptions(options, SIGNATURE_SCOPE));
  }

  /** Whether the task is run with exactly its own arguments, without the result of the one before it. */
  immutable(isImmutable = true): Signature {
    return new Signature({ ...this.parts, isImmutable }, this.options);
  }

  /** @internal */
  withCallbacks(callbacks: Callbacks): Signature {
    return this.withOptions(callbacks);
  }

  /** @internal */
  draft(): SignatureDraft {
    return new SignatureDraft(this.parts, { ...this.options });
  }

  private withOptions(options: StoredOptions): Signature {
    return new Signature(this.parts, mergeOptions(this.options, options));
  }
}
