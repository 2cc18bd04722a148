import { snapshotJson, type EncodedJson } from '../json';
import type { StoredOptions } from '../stored-options';

/** One message: a task without any structure around it. */
export interface PlainTask {
  readonly taskId: string;
  readonly name: string;
  readonly args: EncodedJson;
  readonly kwargs: EncodedJson;
  readonly options: StoredOptions;
}

/** The messages of a canvas, as they are sent. */
export class Sending {
  readonly tasks: PlainTask[] = [];
  /** Of the chords whose headers are being sent, by group id. */
  #chordSizes: Readonly<Record<string, number>> = {};
  readonly #encoded = new WeakMap<object, EncodedJson>();

  constructor(readonly newId: () => string) {}

  emit(task: PlainTask): void {
    const chord_size = this.#chordSizes;
    const isInHeader = Object.keys(chord_size).length > 0;
    this.tasks.push(isInHeader ? { ...task, options: { ...task.options, chord_size } } : task);
  }

  /** Whatever `send` emits belongs to the header of a chord, of which so many tasks must end. */
  inHeader(groupId: string, size: number, send: () => void): void {
    const around = this.#chordSizes;
    this.#chordSizes = { ...around, [groupId]: size };
    send();
    this.#chordSizes = around;
  }

  /** The body of a chord as JSON, written once: every task of the header carries it, and it has changed its last. */
  encodeBody(body: object, toJson: () => unknown): EncodedJson {
    const encoded = this.#encoded.get(body) ?? snapshotJson(toJson(), 'chord body');
    this.#encoded.set(body, encoded);
    return encoded;
  }
}
