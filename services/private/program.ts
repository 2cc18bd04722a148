/** A user and group of this machine. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Something to run: a server, or a command that prepares one.
 */
export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment: nothing of the run's own reaches a service, so a PGPORT there cannot redirect it. */
  readonly environment: Readonly<Record<string, string>>;
  readonly directory: string;
  readonly logFile: string;
  /** Who runs it, where that is not the user of the run. */
  readonly account?: Account | undefined;
  /** Ends it in an orderly way, its data complete. */
  readonly stopSignal: NodeJS.Signals;
  /** Ends it fast, leaving nothing behind outside of its directory. Its data is thrown away. */
  readonly discardSignal: NodeJS.Signals;
}

/** A program that runs until it is told to end. */
export interface ServerProgram extends Program {
  answers(): Promise<boolean>;
}

/**
 * How to run one service: at most one preparation, once, then the programs in their order. The last is the
 * service itself, the others are what it needs.
 */
export interface Recipe {
  readonly url: string;
  readonly preparation?: Program;
  readonly programs: readonly ServerProgram[];
}
