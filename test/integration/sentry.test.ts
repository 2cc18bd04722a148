import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { createDatabase } from '../support/database';

describe('Sentry', () => {
  it('gives its trace to tasks, besides the baggage of others', async () => {
    const db = await createDatabase();
    try {
      // In a process of its own: Sentry.init() instruments all of it.
      const fixture = require.resolve('./fixtures/sentry-sender.ts');
      const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', fixture, db.url]);
      const { traceId } = JSON.parse(stdout) as { traceId: string };
      const [row] = await db.rows();
      const headers = JSON.parse(row?.trace_headers ?? 'null') as Record<string, string>;
      expect(headers['sentry-trace']).to.match(new RegExp(`^${traceId}-[0-9a-f]{16}-1$`));
      expect(headers['baggage']).to.include(`sentry-trace_id=${traceId}`);
    } finally {
      await db.close();
    }
  });
});
