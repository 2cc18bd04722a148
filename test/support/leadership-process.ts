// The process of forkRelay in leadership.ts: it ends when the channel to its parent closes, however that happens.
import { Leadership } from '../../lib/relay/leadership/leadership';
import type { ProcessParts } from './leadership';
import { recordingLogger } from './log';

const parts = JSON.parse(process.argv[2] ?? '') as ProcessParts;
const leadership = new Leadership({ ...parts, logger: recordingLogger(), onChange: () => undefined });

process.on('disconnect', () => process.exit());

void leadership.start().then(() => {
  setInterval(() => process.send?.(leadership.partitions), 5);
});
