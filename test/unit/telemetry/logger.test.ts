import { expect } from 'chai';
import { createLogger, format, transports } from 'winston';
import { Writable } from 'node:stream';
import { logContextFormat, withLogContext } from '../../../lib';
import { createDefaultLogger, logEvent, type Logger } from '../../../lib/telemetry/logger';
import { recordingLogger } from '../../support/log';

describe('logging', () => {
  it('tells the logger the event and its fields, at its level', () => {
    const logger = recordingLogger();
    logEvent(logger, 'warn', 'celery_outbox_signal_error', { a: 1 });
    logEvent(logger, 'error', 'celery_outbox_signal_error');
    expect(logger.lines).to.deep.equal([
      { level: 'warn', message: 'celery_outbox_signal_error', fields: { a: 1 } },
      { level: 'error', message: 'celery_outbox_signal_error', fields: {} },
    ]);
  });

  it('calls it as a method: many loggers need their this', () => {
    class Stateful implements Logger {
      lines: string[] = [];
      debug(): void {
        this.lines.push('debug');
      }
      info = this.debug.bind(this);
      warn = this.debug.bind(this);
      error = this.debug.bind(this);
    }
    const logger = new Stateful();
    logEvent(logger, 'debug', 'celery_outbox_signal_error');
    expect(logger.lines).to.deep.equal(['debug']);
  });

  it('survives a logger that throws or rejects', async () => {
    const broken = (fail: () => unknown): Logger => ({ debug: fail, info: fail, warn: fail, error: fail });
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', note);
    logEvent(
      broken(() => {
        throw new Error('x');
      }),
      'error',
      'celery_outbox_signal_error',
    );
    logEvent(
      broken(() => Promise.reject(new Error('x'))),
      'error',
      'celery_outbox_signal_error',
    );
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).to.deep.equal([]);
  });

  it('has a default that is silent about debug and has all levels', () => {
    const logger = createDefaultLogger() as ReturnType<typeof createLogger>;
    expect(logger.level).to.equal('info');
    for (const level of ['debug', 'info', 'warn', 'error'] as const)
      expect(logger[level]).to.be.a('function');
  });

  describe('with the format for winston', () => {
    function logged(work: (logger: Logger) => void): Record<string, unknown>[] {
      const lines: Record<string, unknown>[] = [];
      const stream = new Writable({
        write(chunk: Buffer, _encoding, done) {
          lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
          done();
        },
      });
      const logger = createLogger({
        format: format.combine(logContextFormat(), format.json()),
        transports: [new transports.Stream({ stream })],
      });
      work(logger);
      return lines;
    }

    it('adds the log context, innermost last, to every line', () => {
      const lines = logged((logger) => {
        logger.info('outside');
        withLogContext({ request: 1, user: 'a' }, () => {
          withLogContext({ user: 'b' }, () => logger.info('inside'));
        });
      });
      expect(lines).to.deep.equal([
        { level: 'info', message: 'outside' },
        { level: 'info', message: 'inside', request: 1, user: 'b' },
      ]);
    });

    it('lets the fields of the line win, its level and message too', () => {
      const [line] = logged((logger) => {
        withLogContext({ user: 'context', level: 'error', message: 'x' }, () =>
          logger.info('m', { user: 'line' }),
        );
      });
      expect(line).to.deep.equal({ level: 'info', message: 'm', user: 'line' });
    });
  });
});
