import type { CeleryMessage, Route } from '../../message/celery-message';
import { BrokerOutage, MessageFault } from '../broker-error';
import type { PublishOutcome } from '../port';
import type { AmqpSession } from './amqp-session';
import { detourOf } from './delayed-delivery';
import { inParallel } from './in-parallel';
import { type LaneOutcome, unencodable } from './lane-outcome';
import { OneByOne } from './one-by-one';
import { type Detour, type Parcel, toParcel } from './parcel';
import { keyOf } from './topology';

/** How many routes or exchanges one call works on at a time: each takes a channel. */
const MAX_PARALLEL = 16;

/** Where messages cannot go, by {@link keyOf} their route. */
type Faults = ReadonlyMap<string, MessageFault>;
/** For routes of delayed messages: whether there is a way round, or why they would not arrive. */
type Ways = ReadonlyMap<string, boolean | MessageFault>;

/**
 * Publishes messages over one connection: looks at routes that are new to it, makes sure of those with a delay, then
 * sends each exchange's messages through its lane.
 *
 * @throws BrokerOutage if none of them could be sent
 */
export async function publishOver(
  session: AmqpSession,
  messages: readonly CeleryMessage[],
): Promise<PublishOutcome[]> {
  if (session.outage !== null) throw session.outage;
  const faults = await ensureRoutes(session, messages);
  const ways = await openWays(session, messages, faults);
  const outcomes = new Array<PublishOutcome>(messages.length);
  const lanes = new Map<string, { readonly indexes: number[]; readonly parcels: Parcel[] }>();
  const now = Date.now();
  for (const [index, message] of messages.entries()) {
    const error = faults.get(keyOf(message.route));
    const parcel = error === undefined ? pack(session, message, ways, now) : fault(error);
    if ('status' in parcel) {
      outcomes[index] = parcel;
      continue;
    }
    const lane = lanes.get(parcel.exchange) ?? { indexes: [], parcels: [] };
    lanes.set(parcel.exchange, lane);
    lane.indexes.push(index);
    lane.parcels.push(parcel);
  }
  await inParallel(lanes, MAX_PARALLEL, async ([exchange, { indexes, parcels }]) => {
    const results = await sendAll(session, exchange, parcels);
    for (const [at, index] of indexes.entries()) outcomes[index] = results[at] as PublishOutcome;
  });
  return outcomes;
}

function pack(
  session: AmqpSession,
  message: CeleryMessage,
  ways: Ways,
  now: number,
): Parcel | PublishOutcome {
  const seconds = session.delay.secondsOf(message, now);
  const way = seconds > 0 && (ways.get(keyOf(message.route)) ?? false);
  if (way instanceof MessageFault) return fault(way);
  return tryParcel(message, way ? detourOf(message.route, seconds) : null);
}

/** A message that cannot be written fails alone. */
function tryParcel(message: CeleryMessage, detour: Detour | null): Parcel | PublishOutcome {
  try {
    return toParcel(message, detour);
  } catch (error) {
    return unencodable(error);
  }
}

function fault(error: MessageFault): PublishOutcome {
  return { status: 'fault', error };
}

async function ensureRoutes(session: AmqpSession, messages: readonly CeleryMessage[]): Promise<Faults> {
  const fresh = new Map<string, Route>();
  for (const { route } of messages) if (!session.topology.has(route)) fresh.set(keyOf(route), route);
  const faults = new Map<string, MessageFault>();
  await inParallel(fresh, MAX_PARALLEL, async ([key, route]) => {
    const fault = await session.ask(() => session.topology.ensure(route));
    if (fault !== null) faults.set(key, fault);
  });
  return faults;
}

async function openWays(
  session: AmqpSession,
  messages: readonly CeleryMessage[],
  faults: Faults,
): Promise<Ways> {
  const delayed = new Map<string, Route>();
  const now = Date.now();
  for (const message of messages) {
    const key = keyOf(message.route);
    if (!faults.has(key) && session.delay.secondsOf(message, now) > 0) delayed.set(key, message.route);
  }
  const ways = new Map<string, boolean | MessageFault>();
  await inParallel(delayed, MAX_PARALLEL, async ([key, route]) => {
    ways.set(key, await session.ask(() => session.delay.open(route)));
  });
  return ways;
}

async function sendAll(
  session: AmqpSession,
  exchange: string,
  parcels: readonly Parcel[],
): Promise<PublishOutcome[]> {
  try {
    // Others of this call may have waited for their time meanwhile.
    if (session.outage !== null) throw session.outage;
    return await judge(session, parcels, await session.lanes.publish(exchange, parcels));
  } catch (error) {
    if (!(error instanceof BrokerOutage)) throw error;
    return parcels.map(() => ({ status: 'outage', error }));
  }
}

/** Finds out which message made the broker close the channel. */
async function judge(
  session: AmqpSession,
  parcels: readonly Parcel[],
  results: readonly LaneOutcome[],
): Promise<PublishOutcome[]> {
  const outcomes: PublishOutcome[] = [];
  const orphans = new OneByOne(session);
  for (const [index, result] of results.entries()) {
    outcomes.push(result.status === 'orphaned' ? await orphans.send(parcels[index] as Parcel) : result);
  }
  orphans.end();
  return outcomes;
}
