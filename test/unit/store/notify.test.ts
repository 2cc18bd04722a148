import { expect } from 'chai';
import { wakeUpChannel } from '../../../lib/store/notify';
import { tableNames } from '../../../lib/store/table-names';

describe('the channel of the wake-up', () => {
  const channelOf = (schema: string | undefined, tableName?: string): string =>
    wakeUpChannel(tableNames({ schema, tableName }));

  it('has the names of schema and table', () => {
    expect(channelOf(undefined)).to.equal('celery_outbox:celery_outbox');
    expect(channelOf('jobs', 'Tasks')).to.equal('celery_outbox:jobs.Tasks');
  });

  it('is another for each outbox, and never longer than PostgreSQL takes', () => {
    const names = ['a', 'b', 'x'.repeat(35) + 'a', 'x'.repeat(35) + 'b'];
    const channels = [undefined, ...names].flatMap((schema) =>
      names.map((table) => channelOf(schema, table)),
    );
    expect(new Set(channels).size).to.equal(channels.length);
    for (const channel of channels) expect(channel).to.match(/^[\w:.]{1,63}$/);
  });
});
