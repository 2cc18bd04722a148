import type { CeleryMessage, Route } from '../../message/celery-message';
import { BrokerOutage, type MessageFault } from '../broker-error';
import type { PublishOutcome } from '../port';
import type { AmqpSession } from './amqp-session';
import { inParallel } from './in-parallel';
import { type LaneOutcome, unencodable } from './lane-outcome';
import { OneByOne } from './one-by-one';
import { type Detour, type Parcel, toParcel } from './parcel';
import { keyOf } from './topology';

/** How many routes or exchanges one call works on at a time: each takes a channel. */
const MAX_PARALLEL = 16;

/**
 * Publishes messages over one connection: looks at routes that are new to it, then sends each exchange's messages
 * through its lane.
 *
 * @throws BrokerOutage if none of them could be sent
 */
export async function publishOver(
  session: AmqpSession,
  messages: readonly CeleryMessage[],
): Promise<PublishOutcome[]> {
  if (session.outage !== null) throw session.outage;
  const faults = await ensureRoutes(session, messages);
  const outcomes = new Array<PublishOutcome>(messages.length);
  const lanes = new Map<string, { readonly indexes: number[]; readonly parcels: Parcel[] }>();
  const now = Date.now();
  for (const [index, message] of messages.entries()) {
    const error = faults.get(keyOf(message.route));
    if (error !== undefined) {
      outcomes[index] = { status: 'fault', error };
      continue;
    }
    const detour =
      message.etaMs === null ? null : await session.ask(() => session.delay.detour(message, now));
    const parcel = tryParcel(message, detour);
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

/** A message that cannot be written fails alone. */
function tryParcel(message: CeleryMessage, detour: Detour | null): Parcel | PublishOutcome {
  try {
    return toParcel(message, detour);
  } catch (error) {
    return unencodable(error);
  }
}

async function ensureRoutes(
  session: AmqpSession,
  messages: readonly CeleryMessage[],
): Promise<Map<string, MessageFault>> {
  const fresh = new Map<string, Route>();
  for (const { route } of messages) if (!session.topology.has(route)) fresh.set(keyOf(route), route);
  const faults = new Map<string, MessageFault>();
  await inParallel(fresh, MAX_PARALLEL, async ([key, route]) => {
    const fault = await session.ask(() => session.topology.ensure(route));
    if (fault !== null) faults.set(key, fault);
  });
  return faults;
}

async function sendAll(
  session: AmqpSession,
  exchange: string,
  parcels: readonly Parcel[],
): Promise<PublishOutcome[]> {
  try {
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
