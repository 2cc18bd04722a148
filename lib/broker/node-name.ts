import { hostname } from 'node:os';
import { pid } from 'node:process';

/** Who sends, as Celery names a producer. */
export const nodeName = `gen${String(pid)}@${hostname()}`;
