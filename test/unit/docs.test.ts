import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect } from 'chai';
import { ERROR_CODES } from '../../lib/errors';
import { OPTION_RULES } from '../../lib/message/option-rules';
import { CELERY_RULES, QUEUE_RULES, ROUTE_RULES, TRANSPORT_RULES } from '../../lib/celery-options';
import { MIDDLEWARE_RULES, OUTBOX_RULES } from '../../lib/options';
import { RELAY_FLAGS } from '../../lib/cli/relay-flags';
import { RELAY_RULES } from '../../lib/relay/relay-options';
import { LOG_EVENTS } from '../../lib/telemetry/logger';

const read = (file: string): string => readFileSync(resolve(__dirname, '../..', file), 'utf8');

/** The names in the first column of the tables under a heading. */
function namesUnder(document: string, heading: string): string[] {
  const section = document.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name!);
}

describe('the documentation', () => {
  it('has every error code, and no other', () => {
    const documented = [...read('docs/errors.md').matchAll(/^## (ERR_\w+)$/gm)].map(([, code]) => code);
    expect(documented).to.deep.equal(Object.keys(ERROR_CODES));
  });

  it('has every log event, and no other', () => {
    const documented = [...read('docs/log-events.md').matchAll(/^\| `(celery_outbox_\w+)`/gm)].map(
      ([, name]) => name,
    );
    expect(documented).to.deep.equal(Object.keys(LOG_EVENTS));
  });

  it('has every flag of the relay command, and no other', () => {
    const documented = [...read('docs/relay.md').matchAll(/^\| `--([\w-]+)/gm)].map(([, name]) => name);
    expect(documented).to.have.members(Object.keys(RELAY_FLAGS).filter((name) => name !== 'help'));
  });

  it('has every option, and no other', () => {
    const options = read('docs/options.md');
    expect(namesUnder(options, 'createOutbox')).to.have.members(Object.keys(OUTBOX_RULES));
    expect(namesUnder(options, 'celery')).to.have.members(Object.keys(CELERY_RULES));
    expect(namesUnder(options, 'celery.queues')).to.have.members(Object.keys(QUEUE_RULES));
    expect(namesUnder(options, 'celery.routes')).to.have.members(Object.keys(ROUTE_RULES));
    expect(namesUnder(options, 'celery.transportOptions')).to.have.members(Object.keys(TRANSPORT_RULES));
    expect(namesUnder(options, 'createRelay')).to.have.members(Object.keys(RELAY_RULES));
    expect(namesUnder(options, 'middleware')).to.have.members(Object.keys(MIDDLEWARE_RULES));
    expect(namesUnder(options, 'sendTask')).to.have.members([...Object.keys(OPTION_RULES), 'trx']);
  });
});
