import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'chai';
import { topicPattern } from '../../../../lib/broker/redis/binding-table';
import { Envelope } from '../../../../lib/broker/redis/envelope';
import { createListKey } from '../../../../lib/broker/redis/list-key';
import type { MessageProperties } from '../../../../lib/message/celery-message';
import { createMessage } from '../../../support/redis-broker';

/** Captures of what Python's Celery 5.2.6 writes into Redis; `README.md` there explains the format. */
const directory = path.resolve(process.cwd(), '../shared/celery-wire/golden/redis');

interface Captured {
  routing: { list_key: string; exchange: string; routing_key: string };
  envelope_keys: string[];
  envelope_raw: string;
}
interface Golden {
  messages: Captured[];
  bindings: Record<string, string[]>;
}
interface Layout {
  body: string;
  headers: Record<string, string>;
  properties: Record<string, unknown> & { priority: number; delivery_tag: string };
}

const goldens = readdirSync(directory).map(
  (file) => [file, JSON.parse(readFileSync(path.join(directory, file), 'utf8')) as Golden] as const,
);
const NOT_PROPERTIES = new Set(['delivery_info', 'body_encoding', 'delivery_tag']);

/** The captured properties under our names. */
function propertiesOf(properties: Layout['properties']): Partial<MessageProperties> {
  const own = Object.entries(properties).filter(([name]) => !NOT_PROPERTIES.has(name));
  return Object.fromEntries(
    own.map(([name, value]) => [name.replaceAll(/_(\w)/g, (_, c: string) => c.toUpperCase()), value]),
  );
}

describe('an envelope in Redis is what Python writes', () => {
  const listKey = createListKey({ globalKeyprefix: '', prioritySteps: [0, 3, 6, 9], sep: '\x06\x16' });

  for (const [file, { messages }] of goldens.filter(([, golden]) => golden.messages.length > 0)) {
    it(file, () => {
      for (const { routing, envelope_raw: raw, envelope_keys: keys } of messages) {
        const captured = JSON.parse(raw) as Layout;
        const message = {
          ...createMessage({
            route: { exchange: routing.exchange, routingKey: routing.routing_key, queue: null },
            properties: propertiesOf(captured.properties),
          }),
          headers: captured.headers,
          body: Buffer.from(captured.body, 'base64'),
        };
        const written = JSON.parse(new Envelope(message).seal()) as Layout;
        expect(Object.keys(written)).to.deep.equal(keys);
        expect(written.properties.delivery_tag).to.match(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
        written.properties.delivery_tag = captured.properties.delivery_tag;
        // Celery hands these two options on as properties, besides the headers where workers look for them.
        delete captured.properties['argsrepr'];
        delete captured.properties['kwargsrepr'];
        expect(written).to.deep.equal(captured);
        const [queue] = routing.list_key.split('\x06\x16');
        expect(listKey(queue!, captured.properties.priority)).to.equal(routing.list_key);
      }
    });
  }

  it('and so are the bindings of topic exchanges', () => {
    const bindings = goldens.flatMap(([, golden]) => Object.values(golden.bindings).flat());
    const topics = bindings.map((member) => member.split('\x06\x16')).filter(([, pattern]) => pattern !== '');
    expect(topics).to.have.length.above(3);
    for (const [key, pattern] of topics) expect(topicPattern(key!)).to.equal(pattern);
  });
});
