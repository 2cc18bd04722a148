import { CeleryOutboxError } from '../errors';
import { Canvas, requireCanvases, type Callbacks } from './canvas';
import { GroupDraft } from './draft/group-draft';

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
    if (link_error === undefined) return this;
    return new Group(this.members.map((member) => member.withCallbacks({ link_error })));
  }

  /** @internal */
  draft(): GroupDraft {
    return new GroupDraft(this.members.map((member) => member.draft()));
  }
}
