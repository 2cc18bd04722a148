import { expect } from 'chai';
import { ScheduleErrors } from '../../../../lib/relay/schedule/schedule-errors';
import { recordingLogger } from '../../../support/log';

describe('the errors of the schedule', () => {
  it('are logged once, until every partition has recovered', () => {
    const logger = recordingLogger();
    const errors = new ScheduleErrors(logger, 'r1');
    errors.failed(0, new Error('first'));
    errors.failed(0, new Error('second'));
    errors.failed(1, new Error('third'));
    errors.recovered(0);
    errors.failed(0, new Error('fourth'));
    expect(logger.lines).to.have.length(1);
    expect(logger.lines[0]).to.include({ level: 'warn', message: 'celery_outbox_schedule_error' });
    expect(logger.lines[0]!.fields).to.include({ partition: 0, relay_id: 'r1' });
    errors.recovered(0);
    errors.recovered(1);
    errors.failed(1, new Error('fifth'));
    expect(logger.lines.map(({ fields }) => (fields['error'] as Error).message)).to.deep.equal([
      'first',
      'fifth',
    ]);
  });

  it('do not bring the command that failed into the log', () => {
    const logger = recordingLogger();
    const error = Object.assign(new Error('WRONGPASS'), { command: { name: 'auth', args: ['secret'] } });
    new ScheduleErrors(logger, 'r1').failed(0, error);
    expect(logger.lines[0]!.fields['error']).to.have.property('message', 'WRONGPASS');
    expect(logger.lines[0]!.fields['error']).not.to.have.property('command');
  });
});
