import { expect } from 'chai';
import { helpOf, readFlags } from '../../../lib/cli/flags';
import { RELAY_FLAGS } from '../../../lib/cli/relay-flags';
import { UsageError } from '../../../lib/cli/usage-error';

const read = (args: string[], env: Record<string, string> = {}) => readFlags(RELAY_FLAGS, args, env);

describe('flags of the relay command', () => {
  it('are read from the command line, then from the environment', () => {
    const env = { DATABASE_URL: 'postgres://a', CELERY_BROKER_URL: 'amqp://a', REDIS_URL: '' };
    expect(
      read(
        [
          '--broker',
          'redis://b',
          '--idle-time',
          '0.25',
          '--max-retries=0',
          '--batches-in-flight',
          '5',
          '--once',
        ],
        env,
      ),
    ).to.deep.equal({
      'database-url': 'postgres://a',
      broker: 'redis://b',
      'idle-time': 250,
      'max-retries': 0,
      'batches-in-flight': 5,
      once: true,
    });
  });

  it('say what is wrong with them, and with which', () => {
    for (const [args, words] of [
      [['--idle-time', 'soon'], /--idle-time .* seconds above 0, got "soon"/],
      [['--idle-time', '-1'], /idle-time/],
      [['--max-retries', '1.5'], /--max-retries must be a whole number, got "1.5"/],
      [['--batches-in-flight', 'many'], /--batches-in-flight must be a whole number, got "many"/],
      [['--on-dead-letter', 'stop'], /--on-dead-letter must be skip or block, got "stop"/],
      [['--clean-up-after', 'x'], /--clean-up-after/],
      [['--batchsize', '5'], /--batchsize/],
      [['extra'], /extra/],
      [['--batch-size'], /--batch-size/],
    ] as const) {
      expect(() => read([...args]), args.join(' ')).to.throw(UsageError, words);
    }
  });

  it('keep the familiar names, and all have a line in the help', () => {
    const help = helpOf(RELAY_FLAGS);
    for (const flag of [
      'batch-size',
      'idle-time',
      'backoff-time',
      'max-retries',
      'stale-timeout-seconds',
      'send-timeout',
      'shutdown-timeout',
      'broker-outage-cooldown',
      'max-backoff',
      'liveness-file',
    ])
      expect(help).to.match(new RegExp(`^  --${flag} `, 'm'));
    expect(help.split('\n')).to.have.length(Object.keys(RELAY_FLAGS).length);
  });
});
